# SPDX-License-Identifier: GPL-3.0-or-later
"""DNS service as clients see it: transports, types, filter, local names, cache, upstream."""
import os
import socket
import struct
import time

import dns.message
import dns.rdatatype

from site_net import IOT4, LAN4, LAN6
from world import World, ede, rcode, rdata


def test_udp_and_tcp_both_families():
    with World() as w:
        w.start()
        for server in (LAN4, LAN6):
            for tcp in (False, True):
                for rdtype in ("A", "AAAA", "HTTPS", "TXT"):
                    for name in ("t2-two.test", "d-x.yard"):
                        r = w.ask(name, rdtype, tcp=tcp, server=server)
                        assert rcode(r) == "NOERROR" and r.answer, f"{name} {rdtype} from {server} {'tcp' if tcp else 'udp'}: {r}"


def test_real_tools():
    with World() as w:
        w.start()
        for tool in ("dig", "kdig"):
            for more in ("", "+tcp"):
                out = w.site.sh(w.site.c, f"{tool} {more} @{LAN4} t2-two.test A +short", check=False)
                if "not found" in out:
                    continue
                assert out.startswith("198.19."), f"{tool} {more}: {out}"


def test_every_way_of_blocking():
    rules = "filter:\n" + "".join(f"  - {{ name: {k}, names: [b{k}], block: {k} }}\n" for k in ("nxdomain", "nodata", "zero", "refuse"))
    lists = "".join(f"  b{k}: {{ files: [lists/b{k}] }}\n" for k in ("nxdomain", "nodata", "zero", "refuse"))
    with World() as w:
        for k in ("nxdomain", "nodata", "zero", "refuse"):
            w.write_list(f"b{k}", [f"{k}.test"])
        w.start(filter=rules, more_lists=lists)
        for name in ("nxdomain.test", "www.nxdomain.test"):
            for rdtype in ("A", "AAAA", "HTTPS", "SVCB", "ANY", "MX", "TXT"):
                for tcp in (False, True):
                    r = w.ask(name, rdtype, tcp=tcp)
                    assert rcode(r) == "NXDOMAIN" and ede(r) in (15, 16, 17), f"{name} {rdtype}: {r}"
        r = w.ask("nodata.test")
        assert rcode(r) == "NOERROR" and not r.answer and ede(r) in (15, 16, 17), str(r)
        assert rdata(w.ask("zero.test")) == ["0.0.0.0"] and rdata(w.ask("zero.test", "AAAA")) == ["::"]
        r = w.ask("zero.test", "HTTPS")
        assert rcode(r) == "NOERROR" and not r.answer, str(r)
        r = w.ask("refuse.test")
        assert rcode(r) == "REFUSED" and ede(r) in (15, 16, 17), str(r)
        assert not w.asked_upstream(), f"blocked names went out: {w.asked_upstream()}"


def test_block_drop_says_nothing():
    with World() as w:
        w.write_list("b", ["drop.test"])
        w.start(filter="filter:\n  - { names: [b], block: drop }\n", more_lists="  b: { files: [lists/b] }\n")
        try:
            w.ask("drop.test", timeout=0.7)
            assert False, "a dropped question was answered"
        except dns.exception.Timeout:
            pass
        assert w.ask("other.test").answer


def test_allow_comes_before_block_and_clients_hold():
    rules = "filter:\n  - { names: [mine], allow: true }\n  - { names: [b], clients: [lan], block: nxdomain }\n"
    with World() as w:
        w.write_list("b", ["blocked.test", "!free.blocked.test"])
        w.write_list("mine", ["good.blocked.test"])
        w.start(filter=rules, more_lists="  b: { files: [lists/b] }\n  mine: { files: [lists/mine] }\n")
        assert rcode(w.ask("www.blocked.test")) == "NXDOMAIN"
        assert w.ask("good.blocked.test").answer and w.ask("x.free.blocked.test").answer
        assert w.ask("www.blocked.test", server=IOT4, ns=w.site.d).answer, "the rule is for lan only"


def test_blocked_alias_from_cache_as_from_upstream():
    with World() as w:
        w.write_list("b", ["target.test"])
        w.start(filter="filter:\n  - { names: [b], block: nxdomain }\n", more_lists="  b: { files: [lists/b] }\n")
        for _ in range(3):
            assert rcode(w.ask("c2.www.target.test.via.alias.yard")) == "NXDOMAIN"


def test_blocked_address_in_an_answer():
    with World() as w:
        w.write_list("b", ["192.0.2.0/24"])
        w.start(filter="filter:\n  - { names: [b], block: nxdomain }\n", more_lists="  b: { files: [lists/b] }\n")
        for _ in range(2):
            assert rcode(w.ask("ip-c0000207.yard")) == "NXDOMAIN"
        assert w.ask("ip-c6120007.yard").answer


def test_local_domain_stays_here():
    with World() as w:
        w.start()
        for name in ("www.qzxkdjfhgu.lan", "lan", "a.b.c.lan"):
            for rdtype in ("A", "AAAA"):
                r = w.ask(name, rdtype)
                assert rcode(r) in ("NXDOMAIN", "NOERROR") and not r.answer and (rcode(r) == "NXDOMAIN" or name == "lan"), str(r)
        assert not w.asked_upstream(), f"local names went out: {w.asked_upstream()}"


def test_who_may_ask():
    with World() as w:
        w.start(listen="br-lan@53, br-iot@53]\n  allow: [lan")
        assert w.ask("d-x.yard").answer
        r = w.ask("d-x.yard", server=IOT4, ns=w.site.d)
        assert rcode(r) == "REFUSED" and ede(r) is not None, str(r)


def test_answer_comes_from_the_address_that_was_asked():
    with World() as w:
        w.site.batch(w.site.g, "addr add 192.168.8.77/24 dev br-lan")
        w.start()
        assert w.ask("d-x.yard", server="192.168.8.77").answer, "an address that was there"
        w.site.batch(w.site.g, "addr add 192.168.8.78/24 dev br-lan")
        assert w.ask("d-y.yard", server="192.168.8.78").answer, "an address that came later"
        assert w.ask("d-y.yard", server="192.168.8.78", tcp=True).answer


def test_listening_interface_that_comes_later():
    with World() as w:
        w.start(listen="br-lan@53, late0@53]\n  allow: [192.168.0.0/16")
        w.site.batch(w.site.g, f"link add late0 type veth peer name late0 netns {w.site.c}\n addr add 192.168.99.1/24 dev late0\n link set late0 up")
        w.site.batch(w.site.c, "addr add 192.168.99.2/24 dev late0\n link set late0 up")

        def is_answered():
            try:
                return w.ask("d-x.yard", server="192.168.99.1", timeout=0.3).answer
            except (dns.exception.Timeout, OSError):
                return False
        assert w.wait(is_answered, 5) is not None, "no answer on an interface that came after the start"


def test_truncated_upstream_is_asked_over_tcp():
    with World() as w:
        w.start()
        assert w.ask("tc-name.yard").answer
        assert ("tc-name.yard", "A", "tcp", "203.0.113.1") in w.asked_upstream()


def test_failing_upstream():
    with World() as w:
        w.start()
        r = w.ask("servfail-x.yard", timeout=8)
        assert rcode(r) == "SERVFAIL"
        r = w.ask("silent-x.yard", timeout=8)
        assert rcode(r) == "SERVFAIL" and ede(r) in (22, 23), str(r)
        assert w.ask("d-x.yard").answer, "others are served"


def test_nxdomain_and_nodata_pass():
    with World() as w:
        w.start()
        r = w.ask("nx-x.yard")
        assert rcode(r) == "NXDOMAIN" and r.authority, str(r)
        r = w.ask("nodata-x.yard")
        assert rcode(r) == "NOERROR" and not r.answer, str(r)


def test_cache_and_its_flush():
    with World() as w:
        w.start()
        first = w.ask("d-x.yard")
        time.sleep(1.2)
        second = w.ask("d-x.yard", tcp=True)
        assert len(w.asked_upstream()) == 1, w.asked_upstream()
        assert second.answer[0].ttl < first.answer[0].ttl, "the TTL runs"
        w.gateway.verb("cache", "flush", "d-x.yard")
        w.ask("d-x.yard")
        assert len(w.asked_upstream()) == 2, "flush NAME"
        w.gateway.verb("cache", "flush")
        w.ask("d-x.yard")
        assert len(w.asked_upstream()) == 3, "flush"


def test_empty_answer_without_soa_is_not_kept():
    with World() as w:
        w.start()
        for _ in range(2):
            r = w.ask("nosoa-x.yard")
            assert not r.answer
        assert len(w.asked_upstream()) >= 2, "RFC 2308: NODATA without SOA is not cached"


def test_equal_questions_are_asked_once():
    with World() as w:
        w.start()
        q = [dns.message.make_query("silent-same.yard", "A") for _ in range(20)]
        s = w.site.socket(w.site.c)
        for m in q:
            s.sendto(m.to_wire(), (LAN4, 53))
        time.sleep(0.25)
        count = sum(1 for x in w.asked_upstream() if x[0] == "silent-same.yard")
        s.close()
        assert 1 <= count <= 2, f"{count} questions for one name"


def _tcp_messages(s, count, timeout):
    s.settimeout(timeout)
    data, found = b"", []
    while len(found) < count:
        part = s.recv(65536)
        if not part:
            break
        data += part
        while len(data) >= 2 and len(data) >= 2 + struct.unpack("!H", data[:2])[0]:
            n = struct.unpack("!H", data[:2])[0]
            found.append(dns.message.from_wire(data[2:2 + n]))
            data = data[2 + n:]
    return found


def test_tcp_pipelined_and_out_of_order():
    with World() as w:
        w.start()
        s = w.site.socket(w.site.c, kind=socket.SOCK_STREAM)
        s.connect((LAN4, 53))
        wire = [dns.message.make_query(n, "A").to_wire() for n in ("silent-first.yard", *[f"d-{i}.yard" for i in range(30)])]
        s.sendall(b"".join(struct.pack("!H", len(x)) + x for x in wire))
        start = time.monotonic()
        got = _tcp_messages(s, 30, 3)
        assert len(got) == 30 and time.monotonic() - start < 2, f"{len(got)} of 30 answers while the first question waits"
        assert all(m.answer for m in got)
        s.close()


def test_tcp_byte_by_byte_and_an_idle_one_does_not_disturb():
    with World() as w:
        w.start()
        idle = w.site.socket(w.site.c, kind=socket.SOCK_STREAM)
        idle.connect((LAN4, 53))
        s = w.site.socket(w.site.c, kind=socket.SOCK_STREAM)
        s.connect((LAN4, 53))
        q = dns.message.make_query("d-slow.yard", "A").to_wire()
        for b in struct.pack("!H", len(q)) + q:
            s.send(bytes([b]))
            time.sleep(0.002)
        assert _tcp_messages(s, 1, 3)[0].answer
        s.close()
        idle.close()


def test_garbage_is_survived():
    with World() as w:
        w.start()
        s = w.site.socket(w.site.c)
        for n in (0, 1, 11, 12, 13, 40, 512, 1400):
            for _ in range(20):
                s.sendto(os.urandom(n), (LAN4, 53))
        s.close()
        for payload in (b"", b"\0", b"\0\0", b"\xff\xff" + os.urandom(100), b"\0\5hello", b"GET / HTTP/1.0\r\n\r\n"):
            t = w.site.socket(w.site.c, kind=socket.SOCK_STREAM)
            t.connect((LAN4, 53))
            t.sendall(payload)
            t.close()
        assert w.ask("d-x.yard").answer and w.gateway.is_running()


def test_dead_upstream_of_a_way_does_not_take_others_down():
    with World() as w:
        w.upstream = w.site.upstream(addresses=("203.0.113.1", "10.65.0.1"), log=w.upstream_log)
        w.start(upstream=False)
        s = w.site.socket(w.site.c)
        for i in range(600):
            s.sendto(dns.message.make_query(f"x{i}.t1-one.test", "A").to_wire(), (LAN4, 53))
        start = time.monotonic()
        assert w.ask("d-other.yard", timeout=2).answer and w.ask("t2-two.test", timeout=2).answer
        assert time.monotonic() - start < 1, "names of healthy upstreams wait"
        r = w.ask("later.t1-one.test", timeout=8)
        assert rcode(r) == "SERVFAIL" and ede(r) is not None, str(r)
        s.close()
