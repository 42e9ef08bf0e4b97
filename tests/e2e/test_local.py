# SPDX-License-Identifier: GPL-3.0-or-later
"""Names answered here: hosts files, records of any type, wildcards and subtrees, names of addresses, special use, rebind protection, and aliases that lead out."""
import os
import time

import dns.rdatatype

from forward import SPLIT, ForwardWorld
from world import ede, rcode, rdata

HOSTS = """# made by the test
127.0.0.1\tlocalhost
::1 localhost ip6-localhost
fe80::1%lo0 localhost
192.168.8.20  nas nas.lan files.lan # the box
2001:db8:8::20 nas.lan\r
192.168.8.21 two.lan
192.168.8.22 two.lan
203.0.113.77 public.example
0.0.0.0 zero.example
not-an-address x.lan
b\u00fccher.lan
192.168.8.23 b\u00fccher.lan
"""


def begin(w, local="", hosts=HOSTS, **kw):
    if hosts is not None:
        with open(os.path.join(w.site.dir, "hosts"), "w", encoding="utf-8") as f:
            f.write(hosts)
        local = f", hosts: {w.site.dir}/hosts" + local
    w.begin(local=local, **kw)


def nothing_left(w, *but):
    left = {x[0] for x in w.first.asked()} - set(but)
    assert not left, f"asked upstream: {left}"


def reverse4(address):
    return ".".join(reversed(address.split("."))) + ".in-addr.arpa"


def test_hosts_file():
    with ForwardWorld() as w:
        begin(w)
        for tcp in (False, True):
            assert w.addresses("nas.lan", tcp=tcp) == ["192.168.8.20"] and w.addresses("NAS.Lan", "AAAA", tcp=tcp) == ["2001:db8:8::20"]
        assert w.addresses("nas") == ["192.168.8.20"] and w.addresses("files.lan") == ["192.168.8.20"] and w.addresses("two.lan") == ["192.168.8.21", "192.168.8.22"]
        assert w.addresses("public.example") == ["203.0.113.77"] and w.addresses("zero.example") == ["0.0.0.0"] and w.addresses("xn--bcher-kva.lan") == ["192.168.8.23"]
        assert w.ask("nas.lan").answer[0].ttl == 60
        for rdtype in ("HTTPS", "TXT", "MX", "SVCB", "NS"):
            r = w.ask("nas.lan", rdtype)
            assert rcode(r) == "NOERROR" and not r.answer, f"{rdtype}: {r}"
        assert rcode(w.ask("public.example", "AAAA")) == "NOERROR" and not w.addresses("public.example", "AAAA")
        assert rcode(w.ask("under.nas.lan")) == "NXDOMAIN" and rcode(w.ask("x.lan")) == "NXDOMAIN"
        assert rdata(w.ask(reverse4("192.168.8.20"), "PTR")) == ["nas.lan."] and rdata(w.ask(reverse4("203.0.113.77"), "PTR")) == ["public.example."]
        assert rdata(w.ask("0.2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa", "PTR")) == ["nas.lan."]
        nothing_left(w)
        shown = w.gateway.verb("explain", "nas.lan")
        assert f"{w.site.dir}/hosts:5" in str(shown["local"]), shown


def test_records():
    records = ["printer.home A 192.168.8.9", "printer.home 300 AAAA 2001:db8:8::9", "printer.home MX 10 mail.home", "printer.home TXT \\\"two words\\\" more",
               "_ipp._tcp.home 120 SRV 0 5 631 printer.home", "home CAA 0 issue ca.example", "odd.home TYPE65280 \\\\# 3 010203", "www.home CNAME web.home", "web.home CNAME printer.home",
               "svc.home HTTPS 1 . alpn=h2 ipv4hint=192.168.8.9", "9.8.168.192.in-addr.arpa PTR other.home"]
    with ForwardWorld() as w:
        begin(w, ", records: [" + ", ".join(f'"{r}"' for r in records) + "]", hosts=None)
        assert w.addresses("printer.home") == ["192.168.8.9"] and w.ask("printer.home", "AAAA").answer[0].ttl == 300
        assert rdata(w.ask("printer.home", "MX")) == ["10 mail.home."] and rdata(w.ask("printer.home", "TXT")) == ['"two words" "more"']
        assert rdata(w.ask("_ipp._tcp.home", "SRV")) == ["0 5 631 printer.home."] and rdata(w.ask("home", "CAA")) == ['0 issue "ca.example"']
        assert rdata(w.ask("odd.home", "TYPE65280")) == ["\\# 3 010203"]
        assert rdata(w.ask("svc.home", "HTTPS")) == ['1 . alpn="h2" ipv4hint="192.168.8.9"']
        r = w.ask("www.home")
        assert rdata(r) == ["web.home.", "printer.home.", "192.168.8.9"], str(r)
        r = w.ask("www.home", "HTTPS")
        assert rcode(r) == "NOERROR" and [rr.rdtype for rr in r.answer] == [dns.rdatatype.CNAME] * 2, str(r)
        assert rdata(w.ask(reverse4("192.168.8.9"), "PTR")) == ["other.home."], "what is said goes before what follows"
        assert {rr.rdtype for rr in w.ask("printer.home", "ANY", tcp=True).answer} == {dns.rdatatype.from_text(t) for t in ("A", "AAAA", "MX", "TXT")}
        nothing_left(w)


def test_wildcard_and_subtree():
    records = ["*.wild.example A 192.168.8.30", "there.wild.example TXT here", "a.b.wild.example A 192.168.8.31", ".sub.example A 192.168.8.32", "own.sub.example A 192.168.8.33",
               ".sub.example HTTPS 1 . alpn=h2"]
    with ForwardWorld() as w:
        begin(w, ", records: [" + ", ".join(f'"{r}"' for r in records) + "]", hosts=None)
        assert w.addresses("any.wild.example") == ["192.168.8.30"] and w.addresses("x.y.wild.example") == ["192.168.8.30"]
        assert w.ask("any.wild.example").answer[0].name.to_text() == "any.wild.example."
        assert not w.addresses("there.wild.example"), "RFC 4592: a name that is there has what it has"
        assert w.addresses("a.b.wild.example") == ["192.168.8.31"]
        for name in ("sub.example", "x.sub.example", "a.b.c.sub.example"):
            assert w.addresses(name) == ["192.168.8.32"], name
            assert rdata(w.ask(name, "HTTPS")), name
        assert w.addresses("own.sub.example") == ["192.168.8.33"]
        r = w.ask("x.sub.example", "AAAA")
        assert rcode(r) == "NOERROR" and not r.answer
        nothing_left(w)
        # What is beside them is not ours.
        for name in ("d-x.example", "wildx.example"):
            assert w.ask(name).answer and w.first.count(name) == 1, name


def test_names_of_addresses():
    with ForwardWorld() as w:
        begin(w)
        ours = ["10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.1", "192.168.99.99", "127.0.0.9", "169.254.7.7", "100.64.0.1", "100.127.1.1", "0.0.0.7"]
        theirs = ["172.15.9.9", "172.32.0.1", "11.0.0.1", "100.63.1.1", "100.128.1.1", "192.167.1.1", "198.18.1.1", "8.8.4.4"]
        for a in ours:
            r = w.ask(reverse4(a), "PTR")
            assert rcode(r) == "NXDOMAIN" and r.authority, f"{a}: {r}"
        nothing_left(w)
        for a in theirs:
            w.ask(reverse4(a), "PTR")
            assert w.first.count(reverse4(a)) == 1, f"{a} is not private"
        for name in ("1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa", "a.9.e.f.ip6.arpa", "8.e.f.ip6.arpa", "168.192.in-addr.arpa", "10.in-addr.arpa", "255.255.255.255.in-addr.arpa"):
            r = w.ask(name, "PTR")
            assert not r.answer and not w.first.count(name), f"{name}: {r}"
        assert rdata(w.ask("1.0.0.127.in-addr.arpa", "PTR")) == ["localhost."]
        assert rdata(w.ask("1" + ".0" * 31 + ".ip6.arpa", "PTR")) == ["localhost."]


SPECIAL = ("invalid", "x.invalid", "local", "host.local", "onion", "abc.onion", "alt", "x.alt", "home.arpa", "x.home.arpa", "service.arpa", "x.service.arpa", "resolver.arpa",
           "_dns.resolver.arpa", "ipv4only.arpa", "localhost", "x.localhost", "lan", "x.lan")


def test_special_use_names_never_leave():
    with ForwardWorld() as w:
        begin(w)
        for name in SPECIAL:
            for rdtype in ("A", "AAAA", "HTTPS", "SVCB", "TXT", "DS", "DNSKEY", "SOA", "NS", "ANY", "PTR"):
                r = w.ask(name, rdtype)
                assert rcode(r) in ("NOERROR", "NXDOMAIN"), f"{name} {rdtype}: {r}"
        nothing_left(w)
        for name in ("localhost", "a.b.localhost", "LOCALHOST"):
            assert w.addresses(name) == ["127.0.0.1"] and w.addresses(name, "AAAA") == ["::1"], name
        assert w.addresses("ipv4only.arpa") == ["192.0.0.170", "192.0.0.171"] and not w.addresses("ipv4only.arpa", "AAAA")
        for name in ("x.invalid", "abc.onion", "host.local", "x.alt", "x.home.arpa"):
            assert rcode(w.ask(name)) == "NXDOMAIN", name
        for name in ("home.arpa", "resolver.arpa", "_dns.resolver.arpa"):
            assert rcode(w.ask(name, "SVCB")) == "NOERROR", name
        for name in ("d-x.test", "d-x.example", "xinvalid", "d-onion.yard"):
            assert w.ask(name).answer and w.first.count(name) == 1, f"{name} is asked as any other"


# -- rebind protection -------------------------------------------------------------------------------------------------------------------------

INSIDE4 = {"0a000001": "10/8", "ac1f0001": "172.16/12", "c0a80801": "192.168/16", "7f000001": "loopback", "a9fe0101": "link-local", "64400001": "100.64/10", "00000000": "this host"}
INSIDE6 = {"fd000000000000000000000000000001": "fc00::/7", "fe800000000000000000000000000001": "fe80::/10", "00000000000000000000000000000001": "::1",
           "00000000000000000000ffff0a000001": "mapped", "0064ff9b0000000000000000c0a80801": "64:ff9b::/96"}
REBIND = ", rebind-protection: { allow: [corp.example] }"


def is_kept_out(r):
    return rcode(r) == "NOERROR" and not r.answer and ede(r) == 17


def test_rebinding_is_kept_out():
    with ForwardWorld() as w:
        begin(w, REBIND)
        for twice in range(2):  # from upstream, then from the cache
            for label, what in INSIDE4.items():
                r = w.ask(f"ip-{label}.yard")
                assert is_kept_out(r), f"{what}, {'cache' if twice else 'upstream'}: {r}"
            for label, what in INSIDE6.items():
                r = w.ask(f"ip6-{label}.yard", "AAAA")
                assert is_kept_out(r), f"{what}: {r}"
            r = w.ask("ip-0a000001.yard", "HTTPS")
            assert "10.0.0.1" not in str(r) and is_kept_out(r), f"a hint: {r}"
            r = w.ask("c2.ip-0a000001.yonder.via.d-x.yard")
            assert is_kept_out(r), f"at the end of a chain: {r}"
            r = w.ask("c1.ip-0a000001.corp.example.via.d-x.yard")
            assert is_kept_out(r), f"a stranger's alias to an allowed name: {r}"
            assert w.addresses("ip-0a000001.corp.example") == ["10.0.0.1"], "an allowed name"
            assert w.addresses("ip-c6120001.yard") == ["198.18.0.1"], "not private"
        assert w.addresses("nas.lan") == ["192.168.8.20"], "what is said here is not from outside"
        assert w.counters()["rebinds"] > 20, w.counters()


def test_rebinding_switched_on_counts_for_the_cache():
    with ForwardWorld() as w:
        begin(w)
        assert w.addresses("ip-0a000001.yard") == ["10.0.0.1"], "off unless given"
        w.gateway.write(w.config(local=", rebind-protection: {}"))
        w.gateway.verb("reload")
        assert is_kept_out(w.ask("ip-0a000001.yard")) and w.first.count("ip-0a000001.yard") == 1, "the kept answer is judged anew"
        w.gateway.write(w.config())
        w.gateway.verb("reload")
        assert w.addresses("ip-0a000001.yard") == ["10.0.0.1"] and w.first.count("ip-0a000001.yard") == 1


def test_rebinding_of_a_stale_answer():
    with ForwardWorld() as w:
        begin(w, ttl=1, more="cache: { serve-stale: 1h }\n")
        assert w.addresses("ip-0a000001.yard") == ["10.0.0.1"]
        w.gateway.write(w.config(local=", rebind-protection: {}", more="cache: { serve-stale: 1h }\n"))
        w.gateway.verb("reload")
        time.sleep(2.1)
        w.first.tell("shut")
        assert is_kept_out(w.ask("ip-0a000001.yard"))


# -- aliases that lead out ---------------------------------------------------------------------------------------------------------------------

ALIASES = ', records: ["www.lan CNAME deep.lan", "deep.lan CNAME ip-c6130155.t2-two.test", "plain.lan CNAME d-x.yard", "bad.lan CNAME www.blocked.test", "gone.lan CNAME nx-x.yard", ' \
          '"loop.lan CNAME pool.lan", "pool.lan CNAME loop.lan", "split.lan CNAME d-x.corp.example", "priv.lan CNAME ip-0a000001.yard"]'


def test_local_alias_to_a_steered_name():
    with ForwardWorld() as w:
        begin(w, ALIASES, hosts=None)
        for tcp in (False, True, False):
            r = w.ask("www.lan", tcp=tcp)
            assert rdata(r) == ["deep.lan.", "ip-c6130155.t2-two.test.", "198.19.1.85"], str(r)
            assert w.exit_of("198.19.1.85") == "2", "steered as the name it stands for"
            w.site.sh(w.site.g, "conntrack -F 2>/dev/null", check=False)
        assert [x[3] for x in w.first.asked("ip-c6130155.t2-two.test")] == ["10.65.0.1"], "asked where its way says, once"
        six = [d for d in rdata(w.ask("www.lan", "AAAA")) if d.startswith("2001:")]
        assert six and all(w.exit_of(a) == "2" for a in six)
        r = w.ask("www.lan", "HTTPS")
        assert rcode(r) == "NOERROR", str(r)
        assert rdata(w.ask("www.lan", "CNAME")) == ["deep.lan."]
        assert not w.first.count("www.lan") and not w.first.count("deep.lan")


def test_local_aliases_of_all_kinds():
    corp = f"  corp: {{ servers: [{SPLIT}], domains: [corp.example] }}\n"
    with ForwardWorld() as w:
        w.write_list("b", ["blocked.test"])
        begin(w, ALIASES + ", rebind-protection: {}", hosts=None, split=True, more_upstreams=corp, more_lists="  b: { files: [lists/b] }\n",
              filter="filter:\n  - { names: [b], block: nxdomain }\n")
        for _ in range(2):
            r = w.ask("plain.lan")
            assert r.answer and rdata(r)[0] == "d-x.yard." and len(rdata(r)) > 1
            r = w.ask("bad.lan")
            assert not w.first.count("www.blocked.test"), "a blocked name behind an alias of ours is asked upstream"
            assert rcode(r) == "NXDOMAIN", f"blocked behind an alias of ours: {r}"
            r = w.ask("gone.lan")
            assert rcode(r) == "NXDOMAIN" and rdata(r) == ["nx-x.yard."], str(r)
            r = w.ask("loop.lan")
            assert [rr.rdtype for rr in r.answer] in ([], [dns.rdatatype.CNAME], [dns.rdatatype.CNAME] * 2), str(r)
            assert len(rdata(w.ask("split.lan"))) > 1
            assert w.ask("priv.lan").answer, "our own word goes before rebind protection"
        assert w.split.count("d-x.corp.example") == 1 and not w.first.count("d-x.corp.example")
        assert not {n for n, *_ in w.first.asked() if n.endswith(".lan")}


def test_filter_cname_to_a_local_alias_that_leads_out():
    with ForwardWorld() as w:
        w.write_list("b", ["portal.test"])
        begin(w, ALIASES, hosts=None, more_lists="  b: { files: [lists/b] }\n", filter="filter:\n  - { names: [b], cname: www.lan }\n")
        r = w.ask("portal.test")
        assert rdata(r)[-1] == "198.19.1.85" and rdata(r)[0] == "www.lan.", str(r)
        assert not w.first.count("www.lan") and not w.first.count("portal.test"), "a local name was asked upstream"
        assert w.exit_of("198.19.1.85") == "2"


def test_filter_cnames_in_a_circle():
    rules = "".join(f"  - {{ names: [l{i}], cname: d-x{(i + 1) % 3}.test }}\n" for i in range(3)) + "  - { names: [once], cname: d-twice.test }\n  - { names: [twice], cname: d-end.yard }\n"
    with ForwardWorld() as w:
        for i in range(3):
            w.write_list(f"l{i}", [f"d-x{i}.test"])
        w.write_list("once", ["d-once.test"])
        w.write_list("twice", ["d-twice.test"])
        begin(w, hosts=None, filter="filter:\n" + rules, more_lists="".join(f"  {n}: {{ files: [lists/{n}] }}\n" for n in ("l0", "l1", "l2", "once", "twice")))
        for _ in range(3):
            for tcp in (False, True):
                r = w.ask("d-x0.test", tcp=tcp)
                assert rcode(r) == "SERVFAIL" and ede(r) == 0, str(r)
        r = w.ask("d-once.test")
        assert rcode(r) == "NOERROR" and rdata(r)[0] == "d-end.yard." and len(rdata(r)) > 1, f"one behind another is followed: {r}"
        assert not {x[0] for x in w.first.asked()} - {"d-end.yard"}, w.first.asked()
        assert w.gateway.is_running() and "started again" not in w.gateway.log_end(100)


def test_filter_cname_into_the_same_list():
    """A list of a whole domain that is led to one name of it, as search engines have them."""
    with ForwardWorld() as w:
        w.write_list("search", ["search.test"])
        begin(w, hosts=None, filter="filter:\n  - { name: safe, names: [search], cname: d-strict.search.test }\n", more_lists="  search: { files: [lists/search] }\n")
        for _ in range(2):
            r = w.ask("www.search.test")
            assert rcode(r) == "NOERROR" and rdata(r)[0] == "d-strict.search.test." and len(rdata(r)) > 1, str(r)
            r = w.ask("d-strict.search.test")
            assert r.answer and r.answer[0].rdtype == dns.rdatatype.A and ede(r) is None, f"the name itself is resolved: {r}"
            r = w.ask("c1.www.search.test.via.d-x.yard")
            assert rdata(r)[0] == "d-strict.search.test.", f"an alias of a listed name: {r}"
        assert w.gateway.verb("explain", "d-strict.search.test")["filter"]["verdict"] != "block"
        assert w.gateway.verb("explain", "www.search.test")["filter"]["block"] == "cname"
