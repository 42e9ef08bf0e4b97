# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter: what blocks look like on the wire, every list format, whole adblock syntax, listed addresses in answers, chains, live edits, and `explain` telling what happens."""
import json
import os
import random

import run
from explained import CLIENTS, compare, explain, got, promised
from forward import ForwardWorld
from site_net import shared
from world import ede, rcode, rdata

CASES = shared("cases", "adblock", "rule-cases.json")


def write_raw(w, name, data):
    path = os.path.join(w.lists_dir, name)
    with open(path + ".new", "wb") as f:
        f.write(data)
    os.rename(path + ".new", path)


def lists(**kw):
    return "".join(f"  {n}: {{ files: [lists/{n}]{v} }}\n" for n, v in kw.items())


def is_blocked(w, name, rdtype="A", client="lan"):
    r = got(w, name, rdtype, client)
    assert r is not None, f"{name}: no answer"
    return ede(r) == 15


# -- what a block looks like -------------------------------------------------------------------------------------------------------------------


def soa_of(r):
    soa = [rr for rr in r.authority if rr.rdtype == 6]
    return (soa[0].ttl, soa[0][0].minimum) if soa else None


def test_blocks_have_soa_ttl_and_ede():
    rules = "".join(f"  - {{ name: by {k}, names: [l{k}], block: {k}{t} }}\n" for k, t in (("nxdomain", ""), ("nodata", ", ttl: 5s"), ("zero", ", ttl: 7s"), ("refuse", "")))
    with ForwardWorld() as w:
        for k in ("nxdomain", "nodata", "zero", "refuse"):
            w.write_list(f"l{k}", [f"{k}.test"])
        w.begin(filter="filter:\n" + rules, more_lists=lists(lnxdomain="", lnodata="", lzero="", lrefuse=""))
        for tcp in (False, True):
            r = w.ask("www.nxdomain.test", tcp=tcp)
            assert rcode(r) == "NXDOMAIN" and ede(r) == 15 and soa_of(r) == (60, 60), str(r)
            r = w.ask("www.nodata.test", tcp=tcp)
            assert rcode(r) == "NOERROR" and not r.answer and ede(r) == 15 and soa_of(r) == (5, 5), str(r)
            r = w.ask("www.zero.test", tcp=tcp)
            assert rdata(r) == ["0.0.0.0"] and r.answer[0].ttl == 7 and ede(r) == 15, str(r)
            r = w.ask("www.zero.test", "HTTPS", tcp=tcp)
            assert not r.answer and ede(r) == 15 and soa_of(r) == (7, 7), str(r)
            r = w.ask("www.refuse.test", tcp=tcp)
            assert rcode(r) == "REFUSED" and ede(r) == 15, str(r)
        assert "by nxdomain" in str(w.ask("nxdomain.test")) and "nxdomain" in w.kdig("nxdomain.test")
        # One who does not speak EDNS gets no OPT.
        out = w.site.sh(w.site.c, "kdig @192.168.8.1 +noedns www.nxdomain.test", check=False)
        assert "NXDOMAIN" in out and "EDNS" not in out and "SOA" in out, out


def test_answer_and_its_ttl():
    with ForwardWorld() as w:
        w.write_list("both", ["both.test"])
        w.write_list("four", ["four.test"])
        w.begin(more_lists=lists(both="", four=""), filter='filter:\n  - { names: [both], answer: [192.0.2.10, 192.0.2.11, "2001:db8::10"], ttl: 10s }\n'
                '  - { names: [four], answer: 192.0.2.12 }\n')
        r = w.ask("www.both.test")
        assert sorted(rdata(r)) == ["192.0.2.10", "192.0.2.11"] and r.answer[0].ttl == 10 and ede(r) == 4, str(r)
        assert rdata(w.ask("both.test", "AAAA")) == ["2001:db8::10"]
        assert rdata(w.ask("four.test")) == ["192.0.2.12"] and w.ask("four.test").answer[0].ttl == 60
        for name, rdtype in (("four.test", "AAAA"), ("both.test", "HTTPS"), ("both.test", "TXT"), ("both.test", "MX")):
            r = w.ask(name, rdtype)
            assert rcode(r) == "NOERROR" and not r.answer and soa_of(r), f"{name} {rdtype}: {r}"


def test_cname_is_steered_and_its_ttl():
    with ForwardWorld() as w:
        w.write_list("b", ["portal.test"])
        w.begin(more_lists=lists(b=""), filter="filter:\n  - { names: [b], cname: ip-c6130161.t2-two.test, ttl: 20s }\n")
        for tcp in (False, True):
            r = w.ask("www.portal.test", tcp=tcp)
            assert rdata(r) == ["ip-c6130161.t2-two.test.", "198.19.1.97"] and r.answer[0].ttl == 20, str(r)
        assert w.exit_of("198.19.1.97") == "2"
        assert rdata(w.ask("portal.test", "CNAME")) == ["ip-c6130161.t2-two.test."]
        assert [x[0] for x in w.first.asked()] == ["ip-c6130161.t2-two.test"]


# -- formats -----------------------------------------------------------------------------------------------------------------------------------

HOSTS = b"""\xef\xbb\xbf# Title: made by the test\r
127.0.0.1 localhost\r
127.0.0.1 localhost.localdomain\r
255.255.255.255 broadcasthost\r
::1 localhost ip6-localhost ip6-loopback\r
fe80::1%lo0 localhost\r
0.0.0.0 0.0.0.0\r
\r
0.0.0.0 one.hosts.test\r
0.0.0.0  two.hosts.test  three.hosts.test\t# why\r
127.0.0.1\tfour.hosts.test\r
:: Six.Hosts.Test.\r
0.0.0.0 b\xc3\xbccher.hosts.test\r
0.0.0.0 x\xc3\x97.hosts.test\r
"""
ADBLOCK = b"""[Adblock Plus 2.0]\r
! Title: made by the test\r
||ads.adb.test^\r
@@||good.ads.adb.test^\r
||third.adb.test^$third-party\r
||path.adb.test/banner\r
example.adb.test##.ad\r
/^re[0-9]{2}\\.adb\\.test$/\r
||wild*.adb.test^\r
0.0.0.0 hosts.adb.test\r
||typed.adb.test^$dnstype=AAAA\r
"""
DNSMASQ = b"""# made by the test\r
address=/one.masq.test/\r
address=/two.masq.test/three.masq.test/0.0.0.0\r
server=/four.masq.test/\r
local=/five.masq.test/\r
ipset=/six.masq.test/someset\r
server=/free.one.masq.test/#\r
cache-size=1000\r
"""
DOMAINS = b"\xef\xbb\xbf# plain\r\nplain.test\r\n=exact.plain2.test\r\n*.star.plain3.test\r\n!free.plain.test\r\n"
FORMATS = (("one.hosts.test", 1), ("two.hosts.test", 1), ("three.hosts.test", 1), ("four.hosts.test", 1), ("six.hosts.test", 1), ("xn--bcher-kva.hosts.test", 1), ("www.one.hosts.test", 0),
           ("hosts.test", 0), ("localhost", 0), ("localhost.localdomain", 0), ("broadcasthost", 0), ("ip6-localhost", 0),
           ("ads.adb.test", 1), ("x.ads.adb.test", 1), ("good.ads.adb.test", 0), ("x.good.ads.adb.test", 0), ("third.adb.test", 0), ("path.adb.test", 0), ("example.adb.test", 0), ("re12.adb.test", 1),
           ("re1.adb.test", 0), ("wild-x.adb.test", 1), ("hosts.adb.test", 1), ("x.hosts.adb.test", 0), ("typed.adb.test", 0),
           ("one.masq.test", 1), ("x.two.masq.test", 1), ("three.masq.test", 1), ("four.masq.test", 1), ("five.masq.test", 1), ("six.masq.test", 1), ("free.one.masq.test", 0), ("x.free.one.masq.test", 0),
           ("plain.test", 1), ("x.plain.test", 1), ("x.free.plain.test", 0), ("exact.plain2.test", 1), ("x.exact.plain2.test", 0), ("a.star.plain3.test", 1), ("star.plain3.test", 1), ("d-other.yard", 0))


def test_formats_by_themselves():
    with ForwardWorld() as w:
        os.mkdir(os.path.join(w.lists_dir, "many"))
        for name, text in (("a.hosts", HOSTS), ("b.txt", ADBLOCK), ("c.conf", DNSMASQ), ("d.list", DOMAINS)):
            write_raw(w, "many/" + name, text)
        w.begin(more_lists='  many: { files: ["lists/many/*"] }\n', filter="filter:\n  - { name: many, names: [many], block: nxdomain }\n")
        for name, is_listed in FORMATS:
            assert is_blocked(w, name) == bool(is_listed), f"{name}: {got(w, name)}"
        assert is_blocked(w, "typed.adb.test", "AAAA")
        shown = w.gateway.verb("list", "many")
        kinds = {os.path.basename(f["path"]): f["format"] for f in shown["text"]["files"]}
        assert kinds == {"a.hosts": "hosts", "b.txt": "adblock", "c.conf": "dnsmasq", "d.list": "domains"}, kinds
        assert not w.gateway.verb("status")["alarms"], w.gateway.verb("status")["alarms"]
        for name, file, line in (("two.hosts.test", "a.hosts", 10), ("x.ads.adb.test", "b.txt", 3), ("x.two.masq.test", "c.conf", 3), ("x.plain.test", "d.list", 2), ("re12.adb.test", "b.txt", 8)):
            by = explain(w, name)["filter"]["by"]
            assert by["file"].endswith(file) and by["line"] == line, f"{name}: {by}"


def test_match_says_how_unmarked_names_match():
    with ForwardWorld() as w:
        write_raw(w, "h", b"0.0.0.0 h.test\n0.0.0.0 h2.test\n0.0.0.0 h3.test\n")
        write_raw(w, "d", b"d.test\n.all.d2.test\n")
        w.begin(more_lists=lists(h=", match: suffix", d=", match: exact"), filter="filter:\n  - { names: [h, d], block: nxdomain }\n")
        assert is_blocked(w, "x.h.test") and is_blocked(w, "h.test") and is_blocked(w, "d.test") and is_blocked(w, "x.all.d2.test")
        assert not is_blocked(w, "x.d.test")


def test_policy_zone_is_refused_by_name():
    with ForwardWorld() as w:
        write_raw(w, "z", b"$TTL 60\n@ SOA localhost. root.localhost. 1 2 3 4 5\n@ NS localhost.\nbad.test CNAME .\n*.bad.test CNAME .\nworse.test CNAME .\n")
        w.begin(more_lists=lists(z=""), filter="filter:\n  - { names: [z], block: nxdomain }\n")
        said = str(w.gateway.verb("status")["alarms"])
        assert "rpz" in said, said
        assert not is_blocked(w, "bad.test")


# -- adblock -----------------------------------------------------------------------------------------------------------------------------------

RULES = ["! comment", "||plain.test^", "||allowed.test^", "@@||ok.allowed.test^", "||imp.test^$important", "@@||imp.test^", "||impboth.test^$important", "@@||impboth.test^$important",
         "||typed.test^$dnstype=AAAA", "||typed2.test^$dnstype=~A", "||two.test^$dnstype=A|HTTPS", "||mine.test^$client=192.168.20.2", "||notmine.test^$client=~192.168.20.2", "||group.test^$client=iot",
         "||net.test^$client=192.168.8.0/24", "||deny.test^$denyallow=good.deny.test|fine.deny.test", "||gone.test^", "||gone.test^$badfilter", "||gone2.test^$dnstype=A", "||gone2.test^$badfilter,dnstype=A",
         "||ex*mple.test^", "*track*.pixel.test^", "|begin.test^", "/^banner[0-9]+\\.re\\.test$/", "/(a+)+b\\.evil\\.test/", "@@/^banner7\\.re\\.test$/", "||multi.test^$important,dnstype=A",
         "||browser.test^$script", "||dom.test^$domain=x.test", "0.0.0.0 hosts.test", "exactly.test", "||tld-only-zz^", "@@||freed.plain.test^$important"]
TABLE = (("plain.test", "A", "lan", 1), ("x.plain.test", "HTTPS", "lan", 1), ("xplain.test", "A", "lan", 0), ("x.freed.plain.test", "A", "lan", 0),
         ("allowed.test", "A", "lan", 1), ("ok.allowed.test", "A", "lan", 0), ("x.ok.allowed.test", "AAAA", "lan", 0),
         ("imp.test", "A", "lan", 1), ("impboth.test", "A", "lan", 0),
         ("typed.test", "AAAA", "lan", 1), ("typed.test", "A", "lan", 0), ("typed2.test", "A", "lan", 0), ("typed2.test", "HTTPS", "lan", 1), ("two.test", "A", "lan", 1), ("two.test", "HTTPS", "lan", 1),
         ("two.test", "AAAA", "lan", 0),
         ("mine.test", "A", "iot", 1), ("mine.test", "A", "lan", 0), ("notmine.test", "A", "iot", 0), ("notmine.test", "A", "lan", 1), ("group.test", "A", "iot", 1), ("group.test", "A", "lan", 0),
         ("net.test", "A", "lan", 1), ("net.test", "A", "iot", 0),
         ("deny.test", "A", "lan", 1), ("bad.deny.test", "A", "lan", 1), ("good.deny.test", "A", "lan", 0), ("x.fine.deny.test", "A", "lan", 0),
         ("gone.test", "A", "lan", 0), ("gone2.test", "A", "lan", 0),
         ("example.test", "A", "lan", 1), ("exHmple.test", "A", "lan", 1), ("x.exNNNmple.test", "A", "lan", 1), ("exmple.test", "A", "lan", 1), ("exmplx.test", "A", "lan", 0),
         ("mytracker.pixel.test", "A", "lan", 1), ("trac.pixel.test", "A", "lan", 0), ("begin.test", "A", "lan", 1), ("x.begin.test", "A", "lan", 0),
         ("banner12.re.test", "A", "lan", 1), ("banner7.re.test", "A", "lan", 0), ("xbanner12.re.test", "A", "lan", 0), ("aaaab.evil.test", "A", "lan", 1), ("aaaac.evil.test", "A", "lan", 0),
         ("multi.test", "A", "lan", 1), ("multi.test", "AAAA", "lan", 0), ("browser.test", "A", "lan", 0), ("dom.test", "A", "lan", 0), ("hosts.test", "A", "lan", 1), ("x.hosts.test", "A", "lan", 0),
         ("exactly.test", "A", "lan", 1), ("x.exactly.test", "A", "lan", 0), ("x.tld-only-zz", "A", "lan", 1))


def test_adblock_rules_on_the_wire_and_in_explain():
    with ForwardWorld() as w:
        w.write_list("adb", RULES)
        w.begin(more_lists=lists(adb=""), filter="filter:\n  - { name: adb, names: [adb], block: nxdomain }\n")
        for turn in range(2):  # from upstream, then from the cache
            for name, rdtype, client, is_listed in TABLE:
                e, r = compare(w, name, rdtype, client)
                assert (ede(r) == 15) == bool(is_listed), f"{name} {rdtype} from {client}, turn {turn}: {r}"
                if is_listed:
                    assert e["filter"]["by"]["file"].endswith("lists/adb") and e["filter"]["by"]["line"] > 1, e["filter"]
        by = explain(w, "banner12.re.test")["filter"]["by"]
        assert by["line"] == RULES.index("/^banner[0-9]+\\.re\\.test$/") + 1 and "banner" in by["entry"], by


def test_adblock_rules_come_and_go():
    with ForwardWorld() as w:
        w.write_list("adb", ["||x.test^", "||y*.test^", "/^z[0-9]\\.test$/", "||filler.test^$dnstype=TXT"])
        w.begin(more_lists=lists(adb=""), filter="filter:\n  - { name: adb, names: [adb], block: nxdomain }\n")
        verb = w.gateway.verb
        assert is_blocked(w, "www.x.test") and is_blocked(w, "yy.test") and is_blocked(w, "z1.test")
        verb("list", "add", "adb", "@@||x.test^")
        assert not is_blocked(w, "www.x.test") and is_blocked(w, "yy.test"), "an exception is in force when the verb returns"
        verb("list", "add", "adb", "@@||yy.test^$important", "||new*.test^", "/^re[0-9]+\\.test$/")
        assert not is_blocked(w, "yy.test") and is_blocked(w, "new1.test") and is_blocked(w, "re5.test")
        shown = verb("list", "adb")
        assert "@@||x.test^" in shown["added"], shown["added"]
        w.gateway.stop()
        w.gateway.start()
        assert not is_blocked(w, "www.x.test") and not is_blocked(w, "yy.test") and is_blocked(w, "re5.test"), "live edits over a restart"
        verb("list", "remove", "adb", "@@||x.test^", "/^re[0-9]+\\.test$/")
        assert is_blocked(w, "www.x.test") and not is_blocked(w, "re5.test")
        verb("list", "remove", "adb", "/^z[0-9]\\.test$/")
        assert not is_blocked(w, "z1.test"), "an expression of the file, taken out by an edit"
        w.write_list("adb", ["||x.test^", "||other.test^", "||y*.test^", "||filler.test^$dnstype=TXT"])
        assert w.wait(lambda: is_blocked(w, "other.test"), 5) is not None
        assert not is_blocked(w, "yy.test") and is_blocked(w, "new1.test"), "edits stay when the file changes"


def test_published_adblock_cases():
    """Each list of the cases is the list of a moment; all verdicts must be right."""
    if not os.path.exists(CASES):
        raise run.Skipped("no ../shared/data/cases/adblock")
    with open(CASES, encoding="utf-8") as f:
        cases = [c for c in json.load(f)["cases"] if "client_tags" not in c and "client_name" not in c and c.get("client_ip", "127.0.0.2") in ("127.0.0.1", "127.0.0.2")]
    by_rules = {}
    for c in cases:
        by_rules.setdefault(tuple(c["rules"]), []).append(c)
    with ForwardWorld() as w:
        w.write_list("adb", ["||first.test^"])
        w.begin(more_lists=lists(adb=", format: adblock, shrink-limit: 100%"), filter="filter:\n  - { name: adb, names: [adb], block: nxdomain }\n")
        wrong = []
        for i, (rules, some) in enumerate(by_rules.items()):
            w.write_list("adb", [*rules, f"||mark{i}.test^"])
            w.gateway.verb("list", "reload", "adb", "--accept", check=False)
            assert w.wait(lambda i=i: is_blocked(w, f"mark{i}.test"), 5) is not None, rules
            for c in some:
                if "client_ip" in c:
                    w.site.batch(w.site.g, f"addr replace {c['client_ip']}/8 dev lo")
                    ns, server = w.site.g, "127.0.0.1"
                    out = w.site.sh(ns, f"kdig @{server} -b {c['client_ip']} +edns=0 +timeout=3 {c['host']} {c['qtype']}", check=False)
                    is_it = "EDE: 15" in out or "Blocked" in out
                else:
                    addresses = c.get("addresses")
                    if addresses:
                        continue  # the answer's own addresses: test_listed_addresses
                    r = w.ask(c["host"], c["qtype"])
                    is_it = ede(r) == 15
                if is_it != c["blocked"]:
                    wrong.append((c["src"], c["rules"], c["host"], c["qtype"], f"blocked: {is_it}"))
        assert not wrong, f"{len(wrong)} of {len(cases)}: {wrong[:5]}"


# -- listed addresses --------------------------------------------------------------------------------------------------------------------------


def test_listed_addresses_in_answers():
    with ForwardWorld() as w:
        w.write_list("bad", ["192.0.2.0/24", "!192.0.2.5", "2001:db8:bad::/48", "198.18.9.9"])
        w.write_list("adb", ["||198.51.100.7^", "||filler.test^"])
        w.write_list("good", ["fine.yard"])
        w.begin(more_lists=lists(bad="", adb="", good=""), filter="filter:\n  - { names: [good], allow: true }\n  - { name: bad, names: [bad, adb], block: nxdomain }\n")
        for turn in ("upstream", "cache"):
            for name, rdtype, is_listed in (("ip-c0000207.yard", "A", 1), ("ip-c0000205.yard", "A", 0), ("ip-c6120909.yard", "A", 1), ("ip-c612090a.yard", "A", 0), ("ip-c6336407.yard", "A", 1),
                                            ("ip6-20010db80bad00000000000000000001.yard", "AAAA", 1), ("ip6-20010db80bae00000000000000000001.yard", "AAAA", 0),
                                            ("ip-c0000207.yard", "HTTPS", 1), ("ip6-20010db80bad00000000000000000001.yard", "HTTPS", 1), ("ip-c0000205.yard", "HTTPS", 0),
                                            ("c2.ip-c0000207.yonder.via.x.yard", "A", 1), ("ip-c0000207.fine.yard", "A", 0)):
                e, r = compare(w, name, rdtype)
                assert (ede(r) == 15) == bool(is_listed), f"{name} {rdtype}, {turn}: {r}"
        w.gateway.verb("list", "add", "bad", "198.18.77.0/24")
        assert is_blocked(w, "ip-c6124d01.yard")
        assert w.addresses("ip-c6124e01.yard") == ["198.18.78.1"]
        w.gateway.verb("list", "add", "bad", "198.18.78.1")
        assert is_blocked(w, "ip-c6124e01.yard"), "also from the cache"
        w.gateway.verb("list", "remove", "bad", "198.18.78.1")
        assert not is_blocked(w, "ip-c6124e01.yard")


# -- chains and order --------------------------------------------------------------------------------------------------------------------------


def test_chains_are_judged_in_rule_order():
    rules = "filter:\n  - { names: [good], allow: true }\n  - { names: [bad], block: nxdomain }\n  - { names: [lead], answer: 192.0.2.77 }\n"
    with ForwardWorld() as w:
        w.write_list("good", ["good.test"])
        w.write_list("bad", ["bad.test"])
        w.write_list("lead", ["lead.test"])
        w.begin(more_lists=lists(good="", bad="", lead=""), filter=rules)
        for turn in ("upstream", "cache"):
            for chain, code, what in (("c1.x.bad.test.via.a.yard", "NXDOMAIN", None), ("c3.x.bad.test.via.b.yard", "NXDOMAIN", None), ("c1.x.good.test.via.c.yard", "NOERROR", None),
                                      ("c2.d-end.yard.via.bad.test", "NXDOMAIN", None), ("c1.x.bad.test.via.good.test", "NOERROR", None), ("c1.x.good.test.via.bad.test", "NXDOMAIN", None),
                                      ("c1.x.lead.test.via.d.yard", "NOERROR", ["192.0.2.77"]), ("c1.nx-x.yard.via.bad.test", "NXDOMAIN", None), ("c1.nodata-x.bad.test.via.e.yard", "NXDOMAIN", None)):
                _, r = compare(w, chain)
                assert rcode(r) == code and (what is None or rdata(r) == what), f"{chain}, {turn}: {r}"
        r = w.ask("c1.x.bad.test.via.a.yard", "HTTPS")
        assert rcode(r) == "NXDOMAIN", str(r)


def test_pauses_and_chains():
    with ForwardWorld() as w:
        w.write_list("bad", ["bad.test", "192.0.2.0/24"])
        w.begin(more_lists=lists(bad=""), filter="filter:\n  - { name: one, names: [bad], block: nxdomain }\n")
        names = ("x.bad.test", "c1.x.bad.test.via.a.yard", "ip-c0000207.yard")
        assert all(is_blocked(w, n) for n in names)
        w.gateway.verb("filter", "off", "10m", "one")
        for n in names:
            e, r = compare(w, n)
            assert ede(r) is None and e["filter"]["verdict"] == "pass", f"{n}: {r}"
        w.gateway.verb("filter", "on")
        assert all(is_blocked(w, n) for n in names)
        w.gateway.verb("filter", "off", "2s")
        assert not is_blocked(w, names[0]) and explain(w, names[0])["filter"]["verdict"] == "pass"
        assert w.wait(lambda: all(is_blocked(w, n) for n in names), 6) is not None, "it ends by itself"


# -- explain -----------------------------------------------------------------------------------------------------------------------------------


def random_policy(r):
    """Lists and rules at random over few names, so that they meet: text of both, and names to ask."""
    names = [f"{a}.{b}.test" for a in ("a", "b", "c") for b in ("p", "q", "r", "s")] + [f"{b}.test" for b in ("p", "q", "r", "s")]
    texts = {}
    for i in range(7):
        lines = [r.choice(("", "", "!", "=", ".")) + n for n in r.sample(names, 5)]
        if i >= 5:
            lines = [r.choice(("||%s^", "@@||%s^", "||%s^$important", "||%s^$dnstype=AAAA", "||%s^$client=iot", "@@||%s^$dnstype=A", "|%s^", "||x%s^")) % n for n in r.sample(names, 8)]
        if i == 4:
            lines += ["198.18.1.0/24", "!198.18.1.7"]
        texts[f"r{i}"] = lines
    kinds = ["block: nxdomain", "block: nodata", "block: zero", "block: refuse", "block: drop", "allow: true", "answer: [192.0.2.1]", "cname: d-goal.yard"]
    rules = []
    for i in range(9):
        parts = [f"name: n{i}", r.choice(kinds)]
        parts += [f"names: [{', '.join(r.sample(sorted(texts), r.choice((1, 1, 2))))}]"] if r.random() < 0.95 else []
        parts += [f"except-names: [{r.choice(sorted(texts))}]"] if r.random() < 0.25 else []
        parts += [f"clients: [{r.choice(sorted(CLIENTS))}]"] if r.random() < 0.3 else []
        parts += [f"except-clients: [{r.choice(sorted(CLIENTS))}]"] if r.random() < 0.15 else []
        parts += ["enabled: false"] if r.random() < 0.1 else []
        rules.append("  - { " + ", ".join(parts) + " }\n")
    ask = names + [f"x.{n}" for n in names[:8]] + [f"c{1 + i % 2}.{n}.via.y{i}.yard" for i, n in enumerate(names)] + [f"c1.ip-c61201{i:02x}.yard.via.{n}" for i, n in zip((6, 7, 8, 9), names)] + \
        ["ip-c6120106.yard", "ip-c6120107.yard", "d-free.yard", "nx-x.p.test"]
    return texts, "filter:\n" + "".join(rules), ask


def test_explain_tells_what_happens():
    for seed in (1, 2, 3):
        r = random.Random(seed)
        texts, rules, names = random_policy(r)
        with ForwardWorld() as w:
            for n, lines in texts.items():
                w.write_list(n, lines)
            w.begin(more_lists=lists(**{n: ", format: adblock" if n in ("r5", "r6") else "" for n in texts}), filter=rules)
            blocked = dropped = 0
            for name in names:
                rdtype = r.choice(("A", "A", "AAAA", "HTTPS", "TXT"))
                client = r.choice(sorted(CLIENTS))
                try:
                    e, answer = compare(w, name, rdtype, client)
                except AssertionError as x:
                    raise AssertionError(f"seed {seed}: {x}\n{rules}{texts}") from x
                blocked += e["filter"]["verdict"] == "block"
                dropped += answer is None
            assert blocked >= 10, f"seed {seed}: only {blocked} of {len(names)} were blocked, this tests nothing"


def test_explain_of_all_kinds():
    rules = "filter:\n  - { name: good, names: [good], allow: true }\n" + "".join(
        f"  - {{ name: {k}, names: [l{k}], {'block: ' + k} }}\n" for k in ("nxdomain", "nodata", "zero", "refuse", "drop")) + "  - { name: own, names: [lown], answer: 192.0.2.9 }\n" \
        "  - { name: lead, names: [llead], cname: d-goal.yard }\n  - { name: part, clients: [iot], names: [lpart], block: nxdomain }\n"
    kinds = ("nxdomain", "nodata", "zero", "refuse", "drop", "own", "lead", "part")
    with ForwardWorld() as w:
        for k in kinds:
            w.write_list(f"l{k}", [f"{k}.test"])
        w.write_list("good", ["good.nxdomain.test"])
        w.begin(filter=rules, more_lists=lists(good="", **{f"l{k}": "" for k in kinds}))
        for client in CLIENTS:
            for rdtype in ("A", "AAAA", "HTTPS"):
                for name in [f"x.{k}.test" for k in kinds] + ["good.nxdomain.test", "d-free.yard", "t2-two.test", "c1.x.zero.test.via.w.yard", "nx-x.yard", "nodata-x.yard"]:
                    compare(w, name, rdtype, client)
        assert promised(explain(w, "x.part.test", client="iot"))[0] == "NXDOMAIN" and promised(explain(w, "x.part.test"))[0] == "NOERROR"
        e = explain(w, "good.nxdomain.test")
        assert e["filter"]["verdict"] == "allow" and e["filter"]["rule"]["name"] == "good" and any(x.get("name") == "nxdomain" for x in e["lost"]), e
