# SPDX-License-Identifier: GPL-3.0-or-later
"""Ways: kill switch, fallback, coming back, verbs, administrators' sets, reverse path filter."""
import time

from test_lists import fails
from test_steer import leaves_by
from world import World, ede, rcode

LEGACY = "  legacy: { sets: { ip: \"inet fw4 vpn4\", ip6: \"inet fw4 vpn6\" } }\n"
LEGACY_STEER = "steer:\n  - { names: [vpn], way: legacy }\n  - { way: direct }\n"


def link(w, state, name="wg2"):
    w.site.batch(w.site.g, f"link set {name} {state}")


def carrier(w, state):
    w.site.batch(w.site.i, f"link set t2 {state}" + ("\n addr replace 2001:db8:65::1/64 dev t2 nodad" if state == "up" else ""))


def is_refused(w, name="t2-two.test"):
    r = w.ask(name)
    return rcode(r) == "SERVFAIL" and ede(r) == 23


def stopped_and_back(w, down, up):
    (a,) = w.addresses("ip-c6130151.t2-two.test")
    s = w.site.socket(w.site.c)
    assert w.exit_of(a) == "2" and w.exit_of(a, sender=s) == "2"
    down()
    assert w.exit_of(a, timeout=0.15) is None and w.exit_of(a, sender=s, timeout=0.15) is None, "it leaked at once"
    assert w.wait(lambda: is_refused(w), 2) is not None, "names of a kill-switched way that is down get SERVFAIL and EDE 23"
    assert w.exit_of(a, timeout=0.15) is None and w.exit_of(a, sender=s, timeout=0.15) is None, "it leaked"
    leaves_by(w, "t1-one.test", "1")
    leaves_by(w, "d-x.yard", "0")
    up()
    start = time.monotonic()
    w.forget_watchers()
    back = w.wait(lambda: w.exit_of(a, timeout=0.05) == "2", 3)
    took = time.monotonic() - start
    assert back is not None, "it did not come back"
    assert took < 0.9, f"back after {took:.2f} s"
    assert w.wait(lambda: not is_refused(w), 1) is not None
    leaves_by(w, "t2-new.listed.example", "2")
    s.close()


def test_kill_switch_link_down():
    with World() as w:
        w.start()
        stopped_and_back(w, lambda: link(w, "down"), lambda: (link(w, "up"), w.site.batch(w.site.g, "addr replace 2001:db8:65::2/64 dev wg2 nodad")))


def test_kill_switch_no_carrier():
    with World() as w:
        w.start()
        stopped_and_back(w, lambda: carrier(w, "down"), lambda: carrier(w, "up"))


def test_kill_switch_interface_deleted_and_made_again():
    with World() as w:
        w.start()
        stopped_and_back(w, lambda: w.site.tunnel_delete(2), lambda: w.site.tunnel_make(2))


def test_kill_switch_by_verb():
    with World() as w:
        w.start()
        stopped_and_back(w, lambda: w.gateway.verb("way", "down", "tunnel2"), lambda: w.gateway.verb("way", "up", "tunnel2"))


def test_interface_that_comes_after_the_start():
    with World() as w:
        w.upstream = w.site.upstream()
        w.site.tunnel_delete(2)
        w.start(upstream=False)
        assert is_refused(w) and w.exit_of("198.51.100.3") is None
        w.site.tunnel_make(2)
        w.forget_watchers()
        assert w.wait(lambda: w.exit_of("198.51.100.3", timeout=0.05) == "2", 3) is not None
        leaves_by(w, "t2-two.test", "2")


def test_fallback_to_direct_and_to_another_way():
    for fallback, tag in (("", "0"), (", fallback: tunnel1", "1")):
        with World() as w:
            w.start(way2=fallback)
            (a,) = w.addresses("ip-c6130152.t2-two.test")
            assert w.exit_of(a) == "2"
            link(w, "down")
            assert w.wait(lambda: w.exit_of(a, timeout=0.1) == tag, 2) is not None, f"no fallback to {tag}"
            leaves_by(w, "t2-two.test", tag)
            link(w, "up")
            w.site.batch(w.site.g, "addr replace 2001:db8:65::2/64 dev wg2 nodad")
            assert w.wait(lambda: w.exit_of(a, timeout=0.1) == "2", 2) is not None, "it does not return"


def test_way_down_drops_connections():
    with World() as w:
        w.start(way2="")
        (a,) = w.addresses("ip-c6130153.t2-two.test")
        s = w.site.socket(w.site.c)
        assert w.exit_of(a, sender=s) == "2"
        w.gateway.verb("way", "down", "tunnel2")
        assert w.exit_of(a, sender=s) == "0", "the open connection moves to the fallback"
        w.gateway.verb("way", "up", "tunnel2")
        assert w.exit_of(a) == "2"
        s.close()


def test_check_by_ping():
    with World() as w:
        w.start(way2=", kill-switch: true, check: { ping: 10.65.0.1, every: 1s }")
        leaves_by(w, "t2-two.test", "2")
        w.site.nft(w.site.i, "table inet noping { chain in { type filter hook input priority -10; iifname \"t2\" icmp type echo-request drop; }\n }")
        assert w.wait(lambda: is_refused(w), 12, 0.2) is not None, "no answer to pings, and the way still counts as up"
        assert w.exit_of("198.51.100.3") is None
        w.site.sh(w.site.i, "nft delete table inet noping")
        assert w.wait(lambda: not is_refused(w), 8, 0.2) is not None
        leaves_by(w, "t2-two.test", "2")


def test_upstream_of_a_way_is_asked_through_it_only():
    with World() as w:
        w.start()
        w.ask("t2-two.test")
        w.ask("t1-one.test")
        w.ask("d-x.yard")
        asked = {(n, where) for n, _, _, where in w.asked_upstream()}
        assert asked == {("t2-two.test", "10.65.0.1"), ("t1-one.test", "10.64.0.1"), ("d-x.yard", "203.0.113.1")}, asked


def test_upstream_of_a_way_never_by_another_exit():
    with World() as w:
        # The resolver's address is reachable at every exit: only the way's own may be used.
        w.site.batch(w.site.i, "addr add 198.18.53.53/32 dev lo")
        w.upstream = w.site.upstream(addresses=("203.0.113.1", "10.64.0.1", "198.18.53.53"), log=w.upstream_log)
        from gateway import Gateway
        w.gateway = Gateway(w.site, w.config().replace("10.65.0.1] }", "198.18.53.53] }", 1))
        w.gateway.start()
        leaves_by(w, "t2-two.test", "2")
        w.watch.drain()
        link(w, "down")
        w.ask("t2-other.listed.example")
        time.sleep(0.3)
        for x in w.watch.watchers:
            try:
                while True:
                    assert b"\7t2-othe" not in x.recv(2048), f"the question left by {x.tag}"
            except BlockingIOError:
                pass


def test_verbs_about_ways():
    with World() as w:
        w.start()
        ways = {x["name"]: x for x in w.gateway.verb("ways")["ways"]}
        assert set(ways) == {"direct", "tunnel1", "tunnel2"}, ways
        text = w.gateway.verb("ways", json_output=False)
        assert "tunnel2" in text and "wg2" in text, text
        result = w.gateway.verb("test", "way", "tunnel2")
        assert result["ok"] is True, result
        link(w, "down")
        time.sleep(0.5)
        result = w.gateway.verb("test", "way", "tunnel2")
        assert result["ok"] is True and "down" in str(result), "nothing leaks, and it says that the way is down"
        text = w.gateway.verb("ways", json_output=False)
        assert "down" in text, text


def admin_sets(w, flags="flags timeout;"):
    w.site.nft(w.site.g, f"table inet fw4 {{ set vpn4 {{ type ipv4_addr; {flags} }}\n set vpn6 {{ type ipv6_addr; {flags} }}\n }}")


def in_admin_set(w, address):
    name = "vpn6" if ":" in address else "vpn4"
    return w.site.ok(w.site.g, f"nft get element inet fw4 {name} '{{ {address} }}'")


def test_administrators_sets():
    for flags in ("flags timeout;", "", "flags interval;", "flags interval, timeout;"):
        with World() as w:
            admin_sets(w, flags)
            w.start(more_ways=LEGACY, steer=LEGACY_STEER)
            for rdtype in ("A", "AAAA"):
                for a in w.addresses("t2-two.test", rdtype):
                    assert in_admin_set(w, a), f"{a} is not in the set with {flags!r}"
                for a in w.addresses("d-x.yard", rdtype):
                    assert not in_admin_set(w, a)


def test_administrators_set_that_comes_later():
    with World() as w:
        w.start(more_ways=LEGACY, steer=LEGACY_STEER)
        r = w.ask("t2-two.test")
        alarms = str(w.gateway.verb("status")["alarms"])
        assert "vpn4" in alarms, f"a missing set is said: {alarms}; the answer was {rcode(r)}"
        admin_sets(w)
        assert w.wait(lambda: (a := w.addresses("t2-two.test")) and all(in_admin_set(w, x) for x in a), 3) is not None, "the set came and is not filled"
        assert w.wait(lambda: "vpn4" not in str(w.gateway.verb("status")["alarms"]), 3) is not None, "the alarm stays"


def test_administrators_table_reloaded_a_thousand_times():
    with World() as w:
        admin_sets(w)
        w.start(more_ways=LEGACY, steer=LEGACY_STEER)
        many = "".join("delete table inet fw4\ntable inet fw4 { set vpn4 { type ipv4_addr; flags timeout; }\n set vpn6 { type ipv6_addr; flags timeout; }\n }\n" for _ in range(1))
        for i in range(200):
            w.site.nft(w.site.g, many)
            if i % 20 == 0:
                name = f"t2-n{i}.listed.example"
                assert w.wait(lambda n=name: (a := w.addresses(n)) and all(in_admin_set(w, x) for x in a), 2) is not None, f"after {i} reloads"
        # Also names answered before are put back: the set was made anew.
        assert w.wait(lambda: all(in_admin_set(w, x) for x in w.addresses("t2-n0.listed.example")), 2) is not None


def test_both_sets_of_a_way_are_filled():
    with World() as w:
        w.site.nft(w.site.g, "table inet fw4 { set a { type ipv4_addr; flags timeout; }\n set b { type ipv4_addr; flags timeout; }\n }")
        w.start(more_ways='  legacy: { sets: { ip: ["inet fw4 a", "inet fw4 b"] } }\n', steer=LEGACY_STEER)
        for a in w.addresses("t2-two.test"):
            for name in "ab":
                assert w.site.ok(w.site.g, f"nft get element inet fw4 {name} '{{ {a} }}'"), name


def test_set_of_the_wrong_family_is_said():
    with World() as w:
        w.site.nft(w.site.g, "table inet fw4 { set vpn4 { type ipv6_addr; flags timeout; }\n set vpn6 { type ipv6_addr; flags timeout; }\n }")
        w.start(more_ways=LEGACY, steer=LEGACY_STEER)
        w.ask("t2-two.test")
        assert w.wait(lambda: "vpn4" in str(w.gateway.verb("status")["alarms"]), 2) is not None, w.gateway.verb("status")["alarms"]


def test_reverse_path_filter_is_loosened_and_given_back():
    with World(rp_filter=1) as w:
        w.start()
        assert w.site.get(w.site.g, "net/ipv4/conf/wg2/rp_filter") == "2"
        leaves_by(w, "t2-two.test", "2")
        w.gateway.stop()
        w.gateway.clear()
        assert w.site.get(w.site.g, "net/ipv4/conf/wg2/rp_filter") == "1"


def test_way_verbs_need_a_way_that_is_there():
    with World() as w:
        w.start()
        fails(lambda: w.gateway.verb("way", "down", "nothing"), "nothing")
        fails(lambda: w.gateway.verb("test", "way", "nothing"), "nothing")
