#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the seed inputs of the wire_* fuzzers (needs dnspython). The files are committed; run this again only to add some."""
import os
import dns.edns
import dns.flags
import dns.message
import dns.rrset

HERE = os.path.dirname(os.path.abspath(__file__))


def put(fuzzer, name, content):
    os.makedirs(os.path.join(HERE, fuzzer), exist_ok=True)
    with open(os.path.join(HERE, fuzzer, name), 'wb') as f:
        f.write(content)


def query(name, rdtype, **kw):
    m = dns.message.make_query(name, rdtype, **kw)
    m.id = 0x1234
    return m


def answer(name, rdtype, answers, authority=(), rcode=0, edns=False):
    m = dns.message.make_response(query(name, rdtype, use_edns=0 if edns else -1), recursion_available=True)
    m.set_rcode(rcode)
    m.answer = [dns.rrset.from_text(*a) for a in answers]
    m.authority = [dns.rrset.from_text(*a) for a in authority]
    return m.to_wire()


put('wire_query', 'a', query('www.Example.com', 'A').to_wire())
put('wire_query', 'root', query('.', 'NS').to_wire())
put('wire_query', 'edns', query('example.com', 'AAAA', use_edns=0, payload=1232, want_dnssec=True).to_wire())
put('wire_query', 'cookie', query('example.com', 'A', use_edns=0,
                                  options=[dns.edns.GenericOption(10, b'12345678'), dns.edns.GenericOption(12, bytes(20))]).to_wire())
put('wire_query', 'badvers', query('example.com', 'HTTPS', use_edns=1).to_wire())
put('wire_query', 'any', query('example.com', 'ANY').to_wire())
put('wire_query', 'notify', b'\x12\x34\x20\x00' + query('example.com', 'SOA').to_wire()[4:])
put('wire_query', 'long', query('.'.join(['a' * 63, 'b' * 63, 'c' * 63, 'd' * 61]), 'A', use_edns=0).to_wire())
put('wire_query', 'labels', query('.'.join('x' * 127), 'A').to_wire())

SOA = ('example.com.', 900, 'IN', 'SOA', 'ns1.example.com. host.example.com. 1 7200 900 1209600 300')
ANSWERS = {
    'a': answer('www.example.com', 'A', [('www.example.com.', 300, 'IN', 'A', '192.0.2.1', '192.0.2.2')], edns=True),
    'aaaa': answer('www.example.com', 'AAAA', [('www.example.com.', 300, 'IN', 'AAAA', '2001:db8::1')]),
    'chain': answer('a.example.com', 'A', [('a.example.com.', 60, 'IN', 'CNAME', 'b.example.com.'),
                                           ('b.example.com.', 30, 'IN', 'CNAME', 'c.cdn.example.net.'),
                                           ('c.cdn.example.net.', 20, 'IN', 'A', '192.0.2.7')], edns=True),
    'chain_backwards': answer('a.example.com', 'A', [('c.cdn.example.net.', 20, 'IN', 'A', '192.0.2.7'),
                                                     ('b.example.com.', 30, 'IN', 'CNAME', 'c.cdn.example.net.'),
                                                     ('a.example.com.', 60, 'IN', 'CNAME', 'b.example.com.')]),
    'chain_open': answer('a.example.com', 'A', [('a.example.com.', 60, 'IN', 'CNAME', 'b.example.net.')]),
    'dname': answer('w.old.example', 'A', [('old.example.', 60, 'IN', 'DNAME', 'new.example.'), ('w.old.example.', 60, 'IN', 'CNAME', 'w.new.example.'),
                                           ('w.new.example.', 60, 'IN', 'A', '192.0.2.8')]),
    'dname_alone': answer('w.old.example', 'A', [('old.example.', 60, 'IN', 'DNAME', 'new.example.'), ('w.new.example.', 60, 'IN', 'A', '192.0.2.8')]),
    'nxdomain': answer('no.example.com', 'A', [], [SOA], rcode=3, edns=True),
    'nodata': answer('example.com', 'AAAA', [], [SOA]),
    'mx': answer('example.com', 'MX', [('example.com.', 300, 'IN', 'MX', '10 mail.example.com.', '20 mail2.example.com.')]),
    'txt': answer('example.com', 'TXT', [('example.com.', 300, 'IN', 'TXT', '"v=spf1 -all"')]),
    'srv': answer('_sip._udp.example.com', 'SRV', [('_sip._udp.example.com.', 300, 'IN', 'SRV', '1 2 5060 sip.example.com.')]),
    'https': answer('example.com', 'HTTPS', [('example.com.', 300, 'IN', 'HTTPS',
                    '1 . alpn="h2,h3" ipv4hint=192.0.2.1,192.0.2.2 ipv6hint=2001:db8::1')]),
    'https_mandatory': answer('example.com', 'HTTPS', [
        ('example.com.', 300, 'IN', 'HTTPS', '1 a.example.com. mandatory=alpn,ipv4hint,ipv6hint alpn=h2 ipv4hint=192.0.2.1 ipv6hint=2001:db8::1',
         '2 b.example.com. mandatory=ipv6hint alpn=h3 ipv6hint=2001:db8::2,2001:db8::3')], [SOA]),
    'https_chain': answer('www.example.com', 'HTTPS', [('www.example.com.', 60, 'IN', 'CNAME', 'x.example.net.'),
                          ('x.example.net.', 60, 'IN', 'HTTPS', '1 . ipv4hint=192.0.2.9 ech=AAAA')],
                          [('example.net.', 900, 'IN', 'NS', 'ns1.example.net.')]),
    'https_alias': answer('example.com', 'HTTPS', [('example.com.', 300, 'IN', 'HTTPS', '0 svc.example.net.')]),
    'rrsig': answer('example.com', 'A', [('example.com.', 300, 'IN', 'A', '192.0.2.1'),
                    ('example.com.', 300, 'IN', 'RRSIG', 'A 8 2 300 20300101000000 20200101000000 1 example.com. AAAA')]),
    'servfail': answer('example.com', 'A', [], rcode=2),
}
for key, wire in ANSWERS.items():
    put('wire_answer', key, wire)
    if 'https' in key or key in ('chain', 'nxdomain', 'mx', 'srv'):
        put('wire_strip', key, wire)

put('wire_name', 'plain', b'www.Example.com.')
put('wire_name', 'escapes', b'a\\.b\\255\\000.\\\\.example')
put('wire_name', 'idn', 'b\u00fccher.\u4f8b\u3048.example'.encode())
put('wire_name', 'wildcard', '*.stra\u00dfe.example'.encode())
put('wire_name', 'wire', b'\x03WWW\x07example\x03com\x00')
put('wire_name', 'message', bytes(12) + b'\x07example\x03com\x00' + b'\x03www\xc0\x0c' + b'\x01a\xc0\x19')
put('wire_name', 'long', b'.'.join([b'a' * 63, b'b' * 63, b'c' * 63, b'd' * 61]))
put('wire_name', 'too_long', b'.'.join([b'a' * 63, b'b' * 63, b'c' * 63, b'd' * 62]))
