# SPDX-License-Identifier: GPL-3.0-or-later
"""Asking upstreams and keeping what they say: strategies, failures, split domains, stale answers, prefetching, limits, restarts, and what never leaves."""
import re
import socket
import time

import dns.rdatatype

import run
from forward import SECOND, SPLIT, ForwardWorld
from site_net import DNS_T2, DNS_WAN
from world import ede, rcode, rdata

STALE_TTL = 30
EVERY_TYPE = ("A", "AAAA", "HTTPS", "SVCB", "ANY", "MX", "TXT", "NS", "SOA", "PTR", "SRV", "CNAME", "DS", "DNSKEY", "CAA", "NAPTR", "TYPE65280")


def is_good(r):
    return rcode(r) == "NOERROR" and bool(r.answer)


def all_good(w, prefix, count):
    for i in range(count):
        r = w.ask(f"d-{prefix}{i}.yard")
        assert is_good(r), f"{prefix}{i}: {r}"


def moves(w, to, away):
    """Fresh names are asked at `to` and not at `away` any more; the seconds until then, or None."""
    def is_moved():
        name = f"d-{time.monotonic_ns()}.yard"
        return is_good(w.ask(name)) and to.count(name) and not away.count(name)
    return w.wait(is_moved, 8, 0.05)


# -- which server ------------------------------------------------------------------------------------------------------------------------------


def test_ordered_asks_the_first_and_falls_back_to_it():
    with ForwardWorld() as w:
        w.begin(second=True, default=", strategy: ordered")
        all_good(w, "a", 10)
        assert w.first.count() >= 10 and not w.second.count(), "ordered: the first alone is asked"
        w.first.tell("shut")
        all_good(w, "b", 10)
        assert moves(w, w.second, w.first) is not None
        w.first.tell("normal")
        assert moves(w, w.first, w.second) is not None, "the first works again, and is asked again"


def test_silent_first_is_left_and_taken_back():
    with ForwardWorld() as w:
        w.begin(second=True)
        all_good(w, "a", 5)
        w.first.tell("silent")
        all_good(w, "b", 12)
        seen = w.first.count()
        all_good(w, "c", 30)
        assert w.first.count() - seen <= 8, "a server that is silent gets probes only"
        w.first.tell("normal")
        assert moves(w, w.first, w.second) is not None


def test_fastest_asks_who_answers_soonest():
    with ForwardWorld() as w:
        w.begin(second=True, default=", strategy: fastest")
        w.first.tell("delay 150")
        all_good(w, "learn", 20)
        # A copy of a question now and then measures the others; nobody waits for it.
        assert moves(w, w.second, w.first) is not None
        before = w.first.count(), w.second.count()
        all_good(w, "a", 40)
        asked = w.first.count() - before[0], w.second.count() - before[1]
        assert asked[1] >= 35 and asked[0] <= 10, f"asked {asked[0]} of the slow, {asked[1]} of the quick"
        w.first.tell("normal")
        w.second.tell("delay 150")
        assert moves(w, w.first, w.second) is not None, "the other is the quick one now"


def test_all_asks_all_and_takes_the_first_good_answer():
    with ForwardWorld() as w:
        w.begin(second=True, default=", strategy: all")
        all_good(w, "a", 10)
        assert w.wait(lambda: w.first.count() >= 10 and w.second.count() >= 10) is not None, (w.first.count(), w.second.count())
        w.first.tell("servfail")
        all_good(w, "b", 10)
        w.first.tell("normal")
        w.second.tell("refused")
        all_good(w, "c", 10)
        w.second.tell("delay 3000")
        start = time.monotonic()
        all_good(w, "d", 5)
        assert time.monotonic() - start < 3, "the slow one is not waited for"


def test_failures_are_tried_elsewhere():
    for mode in ("servfail", "refused"):
        with ForwardWorld() as w:
            w.begin(second=True)
            w.first.tell(mode)
            all_good(w, mode, 10)
            assert w.second.count() >= 10, mode
            w.second.tell(mode)
            r = w.ask(f"d-{mode}-both.yard")
            assert rcode(r) == mode.upper(), f"what all say is told: {r}"
            w.first.tell("normal")
            w.second.tell("normal")
            assert w.wait(lambda: is_good(w.ask(f"d-{mode}-both.yard")), 8, 0.1) is not None, "the failure is remembered for ever"


def test_failed_question_is_not_asked_again_at_once():
    with ForwardWorld() as w:
        w.begin()
        assert rcode(w.ask("servfail-x.yard")) == "SERVFAIL"
        codes, asked = [], []
        # The time is doubled with each failure: soon a question falls into it, however slow this machine is.
        for _ in range(40):
            before = w.first.count("servfail-x.yard")
            r = w.ask("servfail-x.yard")
            assert rcode(r) == "SERVFAIL"
            codes.append(ede(r))
            asked.append(w.first.count("servfail-x.yard") - before)
        held = [n for code, n in zip(codes, asked) if code == 13]
        assert len(held) > 20 and not any(held), f"EDE {codes}, asked upstream {asked}"
        assert is_good(w.ask("d-other.yard")), "another name"
        out = w.kdig("servfail-x.yard")
        assert "SERVFAIL" in out and re.search(r"EDE.*13|Cached Error", out), out


def test_in_flight_bound_of_a_group():
    with ForwardWorld() as w:
        w.begin(split=True, workers="1", more_upstreams=f"  tight: {{ servers: [{SPLIT}], domains: [tight.example], max-in-flight: 10 }}\n")
        assert is_good(w.ask("d-x.tight.example"))
        w.split.tell("silent")
        import dns.message
        with w.site.socket(w.site.c) as s:
            for i in range(100):
                s.sendto(dns.message.make_query(f"n{i}.tight.example", "A").to_wire(), ("192.168.8.1", 53))
            s.settimeout(2)
            refused = 0
            start = time.monotonic()
            while refused < 90 and time.monotonic() - start < 2:
                try:
                    m = s.recv(4096)
                except socket.timeout:
                    break
                refused += m[3] & 15 == 2
            assert refused >= 90, f"{refused} of 100 were answered at once, 10 may be in flight"
        assert is_good(w.ask("d-x.yard")), "others have their own"


# -- split domains -----------------------------------------------------------------------------------------------------------------------------

CORP = f"  corp: {{ servers: [{SPLIT}], domains: [corp.example, 10.in-addr.arpa, onion] }}\n"


def test_split_domains():
    with ForwardWorld() as w:
        w.begin(split=True, more_upstreams=CORP)
        for name in ("corp.example", "www.corp.example", "A.B.CORP.example."):
            assert is_good(w.ask(name)), name
            assert w.split.count(name.rstrip(".").lower()) == 1 and not w.first.count(name.rstrip(".").lower()), name
        for name in ("xcorp.example", "corp.example.yard", "example"):
            w.ask(name)
            assert not w.split.count(name) and w.first.count(name), name
        w.ask("5.0.0.10.in-addr.arpa", "PTR")
        assert w.split.count("5.0.0.10.in-addr.arpa") == 1, "a private address's name goes to who has it"
        w.ask("6.0.168.192.in-addr.arpa", "PTR")
        assert not w.split.count("6.0.168.192.in-addr.arpa") and not w.first.count("6.0.168.192.in-addr.arpa")
        assert is_good(w.ask("hidden.onion")) and w.split.count("hidden.onion") == 1, "`domains` come before special use"


def test_split_domain_of_a_steered_name():
    with ForwardWorld() as w:
        w.write_list("vpn", ["corp.example", "listed.example"])
        w.begin(split=True, more_upstreams=CORP)
        (a,) = w.addresses("ip-c6130177.corp.example")
        assert w.exit_of(a) == "2", "steered as its rule says"
        assert [x[3] for x in w.split.asked("ip-c6130177.corp.example")] == [SPLIT] and not w.first.count("ip-c6130177.corp.example"), "asked where its domain says"
        w.addresses("ip-c6130178.listed.example")
        assert [x[3] for x in w.first.asked("ip-c6130178.listed.example")] == [DNS_T2], "without a domain: the way's upstream"
        shown = w.gateway.verb("explain", "ip-c6130177.corp.example")
        assert shown["upstream"]["group"] == "corp" and shown["steer"]["way"] == "tunnel2", shown


def test_dead_split_domain_fails_alone():
    with ForwardWorld() as w:
        w.begin(split=True, more_upstreams=CORP)
        assert is_good(w.ask("d-x.corp.example"))
        w.split.tell("silent")
        r = w.ask("d-y.corp.example", timeout=8)
        assert rcode(r) == "SERVFAIL" and ede(r) in (22, 23), str(r)
        all_good(w, "others", 10)
        w.split.tell("normal")
        assert w.wait(lambda: is_good(w.ask("d-z.corp.example", timeout=8)), 12, 0.1) is not None, "it is taken back"


# -- what is kept ------------------------------------------------------------------------------------------------------------------------------


def test_empty_answer_once_does_not_stick():
    with ForwardWorld() as w:
        w.begin()
        w.ask("once-x.yard")
        assert w.wait(lambda: is_good(w.ask("once-x.yard")), 5, 0.05) is not None, "the first answer was empty, without an SOA, and stuck"
        w.first.tell("empty")
        assert not w.ask("d-e.yard").answer
        w.first.tell("normal")
        assert is_good(w.ask("d-e.yard")), "the next question goes out again"


def test_alias_alone_is_followed():
    with ForwardWorld() as w:
        w.begin()
        for _ in range(2):
            r = w.ask("stop-d-target.yard")
            assert is_good(r) and [rr.rdtype for rr in r.answer] == [dns.rdatatype.CNAME, dns.rdatatype.A], str(r)
        r = w.ask("stop-nosoa-t.yard")
        assert not [rr for rr in r.answer if rr.rdtype == dns.rdatatype.A]
        before = w.first.count("nosoa-t.yard")
        w.ask("stop-nosoa-t.yard")
        assert w.first.count("nosoa-t.yard") > before, "a chain without an end and without an SOA is not kept"


def test_negative_answers_are_capped_and_flushed():
    with ForwardWorld() as w:
        w.begin(ttl=86400)
        w.first.tell("nxdomain")
        r = w.ask("d-later.yard")
        assert rcode(r) == "NXDOMAIN" and r.authority[0].ttl <= 3600, "an hour at most"
        w.ask("d-stays.yard")
        w.first.tell("normal")
        assert rcode(w.ask("d-later.yard")) == "NXDOMAIN", "kept"
        w.gateway.verb("cache", "flush", "d-later.yard")
        assert is_good(w.ask("d-later.yard")), "flush NAME mends at once"
        assert rcode(w.ask("d-stays.yard")) == "NXDOMAIN", "and nothing else"


def test_negative_ttl_max():
    with ForwardWorld() as w:
        w.begin(ttl=86400, more="cache: { negative-ttl-max: 2s }\n")
        w.first.tell("nxdomain")
        r = w.ask("d-later.yard")
        assert rcode(r) == "NXDOMAIN" and r.authority[0].ttl <= 2, str(r)
        w.first.tell("normal")
        assert w.wait(lambda: is_good(w.ask("d-later.yard")), 5, 0.1) is not None
        assert w.ask("d-x.yard").answer[0].ttl > 80000, "only negative answers"


def test_flush_takes_what_is_under_the_name_and_chains_through_it():
    with ForwardWorld() as w:
        w.begin()
        names = ("a.f.yard", "f.yard", "c1.x.f.yard.via.other.yard", "af.yard")
        for n in names:
            w.ask(n)
        w.gateway.verb("cache", "flush", "f.yard")
        for n in names:
            w.ask(n)
        assert [w.first.count(n) for n in names] == [2, 2, 2, 1], [w.first.count(n) for n in names]


def test_ttl_min_and_max():
    with ForwardWorld() as w:
        w.begin(ttl=7200, more="cache: { ttl-min: 30s, ttl-max: 1m }\n")
        assert w.ask("ttl1-x.yard").answer[0].ttl == 30 and w.ask("ttl0-x.yard").answer[0].ttl == 30
        assert w.ask("d-long.yard").answer[0].ttl == 60
        time.sleep(2.2)
        assert 20 < w.ask("ttl1-x.yard").answer[0].ttl < 30 and w.first.count("ttl1-x.yard") == 1, "kept as long as it is said to be"
        assert w.ask("d-long.yard").answer[0].ttl < 60


# -- stale answers -----------------------------------------------------------------------------------------------------------------------------


def test_stale_answer_while_the_upstream_is_silent():
    with ForwardWorld() as w:
        w.write_list("vpn", ["listed.example"])
        w.begin(ttl=1, more="cache: { serve-stale: 1h }\n")
        fresh = rdata(w.ask("d-x.yard"))
        (steered,) = w.addresses("ip-c6130199.listed.example")
        assert rcode(w.ask("nx-x.yard")) == "NXDOMAIN"
        time.sleep(2.1)
        w.first.tell("silent")
        start = time.monotonic()
        r = w.ask("d-x.yard")
        took = time.monotonic() - start
        assert rdata(r) == fresh and ede(r) == 3 and r.answer[0].ttl == STALE_TTL, str(r)
        assert took < 1.5, f"after the first timeout, not after all of them: {took:.2f} s"
        r = w.ask("nx-x.yard")
        assert rcode(r) == "NXDOMAIN" and ede(r) == 19, str(r)
        assert rcode(w.ask("d-never-asked.yard", timeout=8)) == "SERVFAIL"
        # By now it is known to be dead: nothing is waited for.
        for tcp in (False, True):
            start = time.monotonic()
            r = w.ask("d-x.yard", tcp=tcp)
            assert rdata(r) == fresh and ede(r) == 3 and time.monotonic() - start < 1, str(r)
        assert w.addresses("ip-c6130199.listed.example") == [steered] and w.exit_of(steered) == "2", "a stale answer is steered as any other"
        out = w.kdig("d-x.yard")
        assert fresh[0] in out and re.search(r"EDE.*3|Stale Answer", out), out
        w.first.tell("normal")

        def is_fresh():
            r = w.ask("d-x.yard")
            return rdata(r) == fresh and ede(r) is None
        assert w.wait(is_fresh, 10, 0.1) is not None, "the upstream is back: fresh answers"
        assert w.counters()["stale"] >= 4, w.counters()


def test_stale_answer_when_the_upstream_fails():
    with ForwardWorld() as w:
        w.begin(ttl=1, more="cache: { serve-stale: 1h }\n")
        fresh = rdata(w.ask("d-x.yard"))
        time.sleep(2.1)
        for mode in ("servfail", "refused"):
            w.first.tell(mode)
            r = w.ask("d-x.yard")
            assert rdata(r) == fresh and ede(r) == 3, f"{mode}: {r}"


def test_stale_answer_is_filtered_and_ends():
    with ForwardWorld() as w:
        w.write_list("b", ["other.test"])
        w.begin(ttl=1, more="cache: { serve-stale: 4s }\n", more_lists="  b: { files: [lists/b] }\n", filter="filter:\n  - { names: [b], block: nxdomain }\n")
        assert is_good(w.ask("d-x.yard")) and is_good(w.ask("d-y.yard"))
        time.sleep(2.1)
        w.first.tell("shut")
        assert ede(w.ask("d-x.yard")) == 3
        w.gateway.verb("list", "add", "b", "d-y.yard")
        r = w.ask("d-y.yard")
        assert rcode(r) == "NXDOMAIN" and ede(r) == 15, str(r)
        assert w.wait(lambda: rcode(w.ask("d-x.yard", timeout=8)) == "SERVFAIL", 10, 0.2) is not None, "it is stale for 4 s only"


def test_without_serve_stale_there_is_none():
    with ForwardWorld() as w:
        w.begin(ttl=1)
        assert is_good(w.ask("d-x.yard"))
        time.sleep(2.1)
        w.first.tell("shut")
        assert rcode(w.ask("d-x.yard", timeout=8)) == "SERVFAIL"


# -- prefetching -------------------------------------------------------------------------------------------------------------------------------


def test_prefetch_asks_before_it_expires():
    with ForwardWorld() as w:
        w.begin(more="cache: { prefetch: true }\n")
        start = time.monotonic()
        for name in ("ttl12-often.yard", "ttl12-often.yard", "ttl12-often.yard", "ttl12-seldom.yard"):
            assert is_good(w.ask(name))
        w.ask("ttl12-often.yard")
        assert w.first.count("ttl12-often.yard") == 1
        time.sleep(max(0, start + 10.2 - time.monotonic()))
        left = []

        def is_asked_again():
            left.append(w.ask("ttl12-often.yard").answer[0].ttl)
            return w.first.count("ttl12-often.yard") == 2
        assert w.wait(is_asked_again, 1.7, 0.1) is not None, f"TTLs seen: {left}"
        assert time.monotonic() - start < 12.5 and min(left) >= 0, "before it ended"
        assert w.wait(lambda: w.ask("ttl12-often.yard").answer[0].ttl > 5, 2) is not None, "the new one is given out"
        assert w.first.count("ttl12-often.yard") == 2 and w.counters()["prefetches"] == 1, w.counters()
        assert w.first.count("ttl12-seldom.yard") == 1, "what nobody asks for is left to end"


# -- over a restart ----------------------------------------------------------------------------------------------------------------------------


def test_cache_is_kept_over_a_restart():
    with ForwardWorld() as w:
        w.write_list("vpn", ["listed.example"])
        w.begin(ttl=600)
        kept = rdata(w.ask("d-x.yard"))
        (steered,) = w.addresses("ip-c6130198.listed.example")
        chain = rdata(w.ask("c2.d-end.yard.via.start.yard"))
        assert rcode(w.ask("nx-x.yard")) == "NXDOMAIN"
        time.sleep(1.2)
        w.gateway.stop()
        w.first.tell("shut")
        time.sleep(1.2)
        w.gateway.start()
        r = w.ask("d-x.yard")
        assert rdata(r) == kept and 500 < r.answer[0].ttl < 599, f"there, and aged by the time between: {r}"
        assert w.addresses("ip-c6130198.listed.example") == [steered] and w.exit_of(steered) == "2"
        assert rdata(w.ask("c2.d-end.yard.via.start.yard")) == chain and rcode(w.ask("nx-x.yard")) == "NXDOMAIN"
        assert rcode(w.ask("d-new.yard", timeout=8)) == "SERVFAIL"
        w.gateway.verb("cache", "flush")
        w.gateway.stop()
        w.gateway.start()
        assert rcode(w.ask("d-x.yard", timeout=8)) == "SERVFAIL", "what was flushed does not come back"


def test_kept_cache_of_a_group_that_changed_is_not_used():
    with ForwardWorld() as w:
        w.begin(ttl=600, second=True, servers=DNS_WAN)
        assert is_good(w.ask("d-x.yard")) and w.first.count("d-x.yard") == 1
        w.gateway.stop()
        w.gateway.write(w.config(servers=SECOND))
        w.gateway.start()
        assert is_good(w.ask("d-x.yard")) and w.second.count("d-x.yard") == 1, "another resolver's answers are another's"


def test_damaged_kept_cache_is_left():
    with ForwardWorld() as w:
        w.begin(ttl=600)
        for i in range(50):
            w.ask(f"d-{i}.yard")
        w.gateway.stop()
        path = w.site.sh(w.site.g, f"find {w.site.dir}/state -name cache -type f").strip()
        assert path, "nothing was kept"
        with open(path, "r+b") as f:
            body = f.read()
            f.seek(len(body) // 2)
            f.write(b"\xff" * 64)
        w.gateway.start()
        all_good(w, "new", 5)
        assert is_good(w.ask("d-1.yard"))


# -- random case -------------------------------------------------------------------------------------------------------------------------------


def questions_seen(w, ask):
    """The names of UDP queries that reach the internet's side of `wan` while ask() runs, with the case of their letters."""
    with w.site.inside(w.site.i):
        s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
    s.bind(("wan", 0x0800))
    s.settimeout(0.5)
    ask()
    names = []
    try:
        while True:
            m = s.recv(4096)
            header = (m[0] & 15) * 4
            if m[9] != 17 or m[header + 2:header + 4] != b"\0\x35":
                continue
            q, at, labels = m[header + 8:], 12, []
            while q[at]:
                labels.append(q[at + 1:at + 1 + q[at]].decode())
                at += 1 + q[at]
            names.append(".".join(labels))
    except socket.timeout:
        pass
    s.close()
    return [n for n in names if n]


def test_random_case():
    with ForwardWorld() as w:
        w.begin(default=", random-case: true")
        seen = questions_seen(w, lambda: all_good(w, "mixedcaseletters-", 8))
        spelled = {n.split("-")[1] for n in seen}
        assert len(seen) >= 8 and len(spelled) >= 5, f"letters are not random: {seen}"
        r = w.ask("d-LooksAsAsked.yard")
        assert r.question[0].name.to_text() == "d-LooksAsAsked.yard." and is_good(r), "the client's own letters come back"
        assert is_good(w.ask("lower-x.yard")) and ("lower-x.yard", "A", "tcp", DNS_WAN) in w.first.asked(), "letters that do not come back: TCP tells"
    with ForwardWorld() as w:
        w.begin()
        seen = questions_seen(w, lambda: all_good(w, "mixedcaseletters-", 4))
        assert seen and all(n == n.lower() for n in seen), f"off unless asked for: {seen}"


# -- what never leaves -------------------------------------------------------------------------------------------------------------------------

KINDS = {"nxdomain": "block: nxdomain", "nodata": "block: nodata", "zero": "block: zero", "refuse": "block: refuse", "answer": "answer: [192.0.2.10, \"2001:db8::10\"]",
         "alias": "cname: d-goal.yard"}


def test_no_type_of_a_blocked_or_overridden_name_leaves():
    with ForwardWorld() as w:
        for k in KINDS:
            w.write_list(f"l{k}", [f"{k}.test"])
        w.write_list("lexpr", ["||expr*.test^", "/^re[0-9]+\\.test$/"])
        w.begin(more_lists="".join(f"  l{k}: {{ files: [lists/l{k}] }}\n" for k in [*KINDS, "expr"]),
                filter="filter:\n" + "".join(f"  - {{ names: [l{k}], {v} }}\n" for k, v in KINDS.items()) + "  - { names: [lexpr], block: nxdomain }\n",
                local=', records: ["printer.home A 192.168.8.9", "*.wild.home A 192.168.8.10", ".sub.home TXT hello"]')
        names = [f"{p}{k}.test" for k in KINDS for p in ("", "www.")] + ["exprx.test", "re17.test", "printer.home", "a.wild.home", "sub.home", "x.sub.home"]
        for name in names:
            for rdtype in EVERY_TYPE:
                r = w.ask(name, rdtype, do=rdtype == "A")
                assert rcode(r) in ("NOERROR", "NXDOMAIN", "REFUSED"), f"{name} {rdtype}: {r}"
                hints = [x for x in rdata(r) if "hint" in x]
                assert not hints or "alias" in name, f"{name} {rdtype}: {hints}"
        left = {x[0] for x in w.first.asked()} - {"d-goal.yard"}
        assert not left, f"these left: {left}"


def test_raw_types_of_a_blocked_name():
    """Types that no library makes by itself: 0, 255, 256, 65535; class ANY and CH."""
    import struct
    with ForwardWorld() as w:
        w.write_list("b", ["blocked.test"])
        w.begin(more_lists="  b: { files: [lists/b] }\n", filter="filter:\n  - { names: [b], block: nxdomain }\n")
        with w.site.socket(w.site.c) as s:
            s.settimeout(2)
            s.connect(("192.168.8.1", 53))
            for rdtype, rdclass in ((0, 1), (41, 1), (249, 1), (250, 1), (251, 1), (252, 1), (255, 1), (256, 1), (65535, 1), (1, 3), (1, 255), (16, 3)):
                s.send(struct.pack("!HHHHHH", rdtype, 0x100, 1, 0, 0, 0) + b"\x07blocked\x04test\0" + struct.pack("!HH", rdtype, rdclass))
                m = s.recv(4096)
                assert m[:2] == struct.pack("!H", rdtype) and m[3] & 15 in (1, 3, 4, 5), f"type {rdtype} class {rdclass}: {m.hex()}"
        assert not w.first.asked(), w.first.asked()


def test_kdig_is_content():
    if "not found" in run.subprocess.run(["sh", "-c", "kdig --version 2>&1"], stdout=-1, text=True).stdout:
        raise run.Skipped("kdig is not installed")
    with ForwardWorld() as w:
        w.begin()
        for args in ("d-x.yard A", "d-x.yard A +tcp", "d-x.yard HTTPS", "d-x.yard A +dnssec", "d-x.yard A +bufsize=512 +edns=0", "nx-x.yard", "tc-x.yard A"):
            out = w.kdig(args)
            assert ("NOERROR" in out or "NXDOMAIN" in out) and "WARNING" not in out and "Malformed" not in out, f"{args}:\n{out}"
