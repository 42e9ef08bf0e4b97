# SPDX-License-Identifier: GPL-3.0-or-later
"""The table and the rules under others' hands, elements' lives, and many of them."""
import time

from test_steer import leaves_by
from world import World, rcode


def table_stands(w):
    return w.site.ok(w.site.g, "nft list chain inet nameway steer 2>/dev/null | grep -q jump")


def test_table_cannot_be_flushed():
    with World() as w:
        w.start()
        (a,) = w.addresses("ip-c6130171.t2-two.test")
        for command in ("nft flush ruleset", "nft delete table inet nameway", "nft flush table inet nameway", "nft flush set inet nameway $(nft list sets inet | grep -o 'r[0-9a-f]*_4' | head -1)"):
            w.site.sh(w.site.g, command, check=False)
            assert w.exit_of(a) == "2", command
        leaves_by(w, "t2-two.test", "2")


def test_table_is_rebuilt_when_it_is_not_protected():
    with World() as w:
        w.start(protect="off")
        (a,) = w.addresses("ip-c6130172.t2-two.test")
        for command in ("nft flush ruleset", "nft delete table inet nameway", "nft flush table inet nameway"):
            w.site.sh(w.site.g, command)
            seen = w.exit_of(a, timeout=0.05)
            assert seen in (None, "2"), f"{command}: left by {seen}"
            took = w.wait(lambda: w.exit_of(a, timeout=0.03) == "2", 2, 0.01)
            assert took is not None and took < 0.5, f"{command}: back after {took} s"
            assert w.set_of(a), "the element is back as well"
            leaves_by(w, "t2-two.test", "2")


def test_one_element_or_rule_taken_out_by_an_outsider():
    with World() as w:
        w.start(protect="off")
        (a,) = w.addresses("ip-c6130173.t2-two.test")
        (name,) = w.set_of(a)
        w.site.sh(w.site.g, f"nft delete element inet nameway {name} '{{ {a} }}'")
        assert w.wait(lambda: w.exit_of(a, timeout=0.03) == "2", 1, 0.01) is not None, "an element"
        w.site.sh(w.site.g, "nft flush chain inet nameway steer")
        assert w.wait(lambda: w.exit_of(a, timeout=0.03) == "2", 1, 0.01) is not None, "a chain"
        assert w.wait(lambda: table_stands(w), 1) is not None


def test_ip_rules_and_routes_are_put_back():
    with World() as w:
        w.start()
        (a,) = w.addresses("ip-c6130174.t2-two.test")
        table = [x for x in w.site.sh(w.site.g, "ip rule").split("lookup ")[1:] if x.split()[0].isdigit()][0].split()[0]
        flush = "for f in -4 -6; do ip $f rule flush; ip $f rule add pref 32766 lookup main; done"
        for command in (flush, f"ip route flush table {table}; ip -6 route flush table {table}", "ip rule del pref 5000; ip rule del pref 5000; ip -6 rule del pref 5000"):
            w.site.sh(w.site.g, command, check=False)
            assert w.wait(lambda: w.exit_of(a, timeout=0.05) == "2", 2, 0.02) is not None, command
        time.sleep(0.3)
        rules = w.site.sh(w.site.g, "ip rule; ip -6 rule")
        assert rules.count("blackhole") == 4, rules


def test_an_element_is_there_after_every_answer():
    """Once an element has timed out, an answer out of the cache must put it back."""
    with World() as w:
        w.start(element_min="1s", ttl=30)
        (a,) = w.addresses("ip-c6130175.t2-two.test")
        end = time.monotonic() + 7
        while time.monotonic() < end:
            assert w.addresses("ip-c6130175.t2-two.test") == [a]
            assert w.set_of(a), "an answer was given and its address is in no set"
            time.sleep(0.25)


def test_element_outlives_the_ttl_given_out():
    with World() as w:
        w.start(element_min="1s", ttl=4)
        r = w.ask("ip-c6130176.t2-two.test")
        ttl, start = r.answer[0].ttl, time.monotonic()
        while time.monotonic() - start < ttl:
            assert w.set_of("198.19.1.118"), f"gone {time.monotonic() - start:.1f} s after an answer of TTL {ttl}"
            time.sleep(0.2)


def test_two_rules_with_one_name_fill_both():
    """The same name in several lists: every client's rule works from whichever answer came first."""
    steer = "steer:\n  - { clients: [iot], names: [vpn], way: tunnel1 }\n  - { clients: [lan], names: [vpn], way: tunnel2 }\n  - { way: direct }\n"
    with World() as w:
        w.start(steer=steer)
        from site_net import IOT4
        for name, server, ns, tag in (("ip-c6130178.t2-two.test", "192.168.8.1", w.site.c, "2"), ("ip-c6130178.t2-two.test", IOT4, w.site.d, "1")):
            (a,) = w.addresses(name, server=server, ns=ns)
            assert w.exit_of(a, ns=ns) == tag, f"{ns}: expected {tag}"


def test_foreign_ruleset_changes():
    with World() as w:
        w.start()
        for i in range(150):
            w.site.nft(w.site.g, f"table inet foreign{i % 3} {{ chain c {{ type filter hook forward priority 10; counter; }}\n }}\n" + (f"delete table inet foreign{i % 3}" if i % 2 else ""))
            if i % 10 == 0:
                for a in w.addresses(f"t2-f{i}.listed.example"):
                    assert w.exit_of(a) == "2", f"after {i} foreign changes"


def test_many_elements():
    with World() as w:
        names = w.site.dir + "/names"
        with open(names, "w", encoding="ascii") as f:
            f.write("".join(f"t2-m{i}.listed.example 2\n" for i in range(12000)))
        w.start()
        from site_net import Counter, ask_names, result
        counter = Counter(w.site)
        counter.reset()
        # What the kernel did not take within 50 ms is SERVFAIL, and asked again.
        for _ in range(4):
            asked = result(ask_names(w.site, w.site.c, names, 12000, rate=1500, mix="A:50,AAAA:50,HTTPS:0"))
            if not asked["servfail"]:
                break
        counts = counter.snap()
        assert asked["unanswered"] == 0 and asked["servfail"] == 0, asked
        assert counts["wrong"] == 0 and counts["right"] > 12000, counts


def test_closed_routing_has_both_families():
    with World() as w:
        w.start()
        out = w.site.sh(w.site.g, "ip rule; echo; ip -6 rule")
        four, six = out.split("\n\n")
        for text in (four, six):
            assert "iif br-lan blackhole" in text and "fwmark 0/0xf000" in text, text


def test_conntrack_does_not_fill_with_dns():
    with World() as w:
        w.start()
        before = int(w.site.get(w.site.g, "net/netfilter/nf_conntrack_count"))
        for i in range(200):
            w.ask(f"www.x{i}.lan")
        after = int(w.site.get(w.site.g, "net/netfilter/nf_conntrack_count"))
        assert after - before < 20, f"{before} → {after} connections by 200 questions"
        assert rcode(w.ask("www.y.lan")) == "NXDOMAIN"
