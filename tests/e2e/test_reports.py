# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults that users of such software have reported, each with the outcome that is right. (Others of them stand where their subject is: test_kernel, test_ways, test_dns, test_lists.)"""
import os
import socket
import time

from gateway import Gateway
from site_net import IOT4, LAN4, Counter, ask_names, result
from test_lists import BLOCK, is_blocked
from test_steer import leaves_by
from test_ways import LEGACY_STEER
from world import World, rcode


def test_rule_that_names_only_an_ipv4_set_is_warned_of():
    with World() as w:
        w.gateway = Gateway(w.site, w.config(more_ways='  legacy: { sets: { ip: "inet fw4 vpn4" } }\n', steer=LEGACY_STEER))
        p = w.gateway.check()
        assert p.returncode == 0 and "warning" in p.stdout and ("ip6" in p.stdout or "IPv6" in p.stdout), p.stdout


def test_way_without_upstream_is_warned_of():
    with World() as w:
        w.gateway = Gateway(w.site, w.config().replace(", upstream: t2dns", ""))
        p = w.gateway.check()
        assert p.returncode == 0 and "warning" in p.stdout and "tunnel2" in p.stdout, p.stdout


def test_what_forwarding_lacks_is_named():
    with World() as w:
        w.gateway = Gateway(w.site, w.config())
        w.site.set(w.site.g, {"net/ipv4/ip_forward": 0})
        p = w.gateway.check()
        assert "ip_forward" in p.stdout, p.stdout


def test_set_with_counters_and_many_elements():
    with World() as w:
        w.site.nft(w.site.g, "table inet fw4 { set vpn4 { type ipv4_addr; flags timeout; counter; size 65536; }\n set vpn6 { type ipv6_addr; flags timeout; counter; size 65536; }\n }")
        w.start(more_ways='  legacy: { sets: { ip: "inet fw4 vpn4", ip6: "inet fw4 vpn6" } }\n', steer=LEGACY_STEER)
        names = os.path.join(w.site.dir, "names")
        with open(names, "w", encoding="ascii") as f:
            f.writelines(f"t2-m{i}.listed.example 0\n" for i in range(8000))
        # What the kernel did not take within 50 ms is SERVFAIL, and asked again.
        for _ in range(4):
            asked = result(ask_names(w.site, w.site.c, names, 8000, rate=1500, mix="A:100,AAAA:0,HTTPS:0", syn_every=0))
            if not asked["servfail"]:
                break
        assert asked["unanswered"] == 0 and asked["servfail"] == 0, asked
        count = w.site.sh(w.site.g, "nft list set inet fw4 vpn4").count("timeout") - 1
        assert count > 6000, f"{count} elements"


def test_full_set_is_said_and_closes():
    with World() as w:
        w.site.nft(w.site.g, "table inet fw4 { set vpn4 { type ipv4_addr; flags timeout; size 4; }\n set vpn6 { type ipv6_addr; flags timeout; size 4; }\n }")
        w.start(more_ways='  legacy: { sets: { ip: "inet fw4 vpn4", ip6: "inet fw4 vpn6" } }\n', steer=LEGACY_STEER)
        codes = [rcode(w.ask(f"ip-c61301{i:02x}.listed.example")) for i in range(16)]
        assert "SERVFAIL" in codes, "an answer whose address found no place in the set was given out"
        assert codes[0] == "NOERROR" and w.gateway.verb("status")["alarms"], codes


def test_preferred_upstream_dies():
    with World() as w:
        second = w.site.upstream(addresses=("198.18.53.1",), log=w.upstream_log + "2")
        first = w.site.upstream(log=w.upstream_log)
        w.gateway = Gateway(w.site, w.config().replace("default: { servers: [203.0.113.1] }", "default: { servers: [203.0.113.1, 198.18.53.1] }"))
        w.gateway.start()
        assert w.ask("d-first.yard").answer
        w.site.stop(first)
        # Its address is silent, not closed: that is the slow kind.
        w.site.nft(w.site.i, "table inet silent { chain in { type filter hook input priority -5; ip daddr 203.0.113.1 udp dport 53 drop; }\n }")
        late, failed, start = 0, 0, time.monotonic()
        for i in range(60):
            begin = time.monotonic()
            r = w.ask(f"d-n{i}.yard", timeout=6)
            failed += rcode(r) != "NOERROR"
            late += time.monotonic() - begin > 0.3
            time.sleep(0.02)
        assert failed == 0, f"{failed} of 60 failed although the second upstream is healthy"
        assert late <= 6, f"{late} of 60 questions waited for the dead upstream ({time.monotonic() - start:.1f} s in all)"
        w.site.stop(second)


def test_unblocked_upstream_is_seen_after_a_flush():
    with World() as w:
        w.start(ttl=86400)
        assert rcode(w.ask("nx-name.yard")) == "NXDOMAIN"
        r = w.ask("nx-name.yard")
        assert r.authority[0].ttl <= 86400
        w.gateway.verb("cache", "flush", "nx-name.yard")
        w.ask("nx-name.yard")
        assert sum(1 for x in w.asked_upstream() if x[0] == "nx-name.yard") == 2, "flush NAME forgets negative answers too"


def test_hosts_file_is_a_list_but_for_its_own_names():
    with World() as w:
        w.write_list("b", ["127.0.0.1 localhost", "::1 localhost", "fe80::1%lo0 localhost", "0.0.0.0 ads.test\tmore.test # why", "0.0.0.0 0.0.0.0"])
        w.start(**BLOCK)
        assert is_blocked(w, "ads.test") and is_blocked(w, "more.test")
        assert not is_blocked(w, "localhost") and not is_blocked(w, "other.test") and not is_blocked(w, "www.ads.test")
        assert not w.gateway.verb("status")["alarms"]


def test_a_longer_list_is_looked_up_as_fast():
    """A name costs the same beside 200,000 as beside 2: the question is answered before one could scan."""
    with World() as w:
        w.write_list("b", [f"n{i}.m{i % 997}.test" for i in range(200000)])
        w.start(**BLOCK)
        times = []
        for i in range(200):
            begin = time.monotonic()
            assert is_blocked(w, f"www.n{i * 900}.m{i * 900 % 997}.test")
            times.append(time.monotonic() - begin)
        assert sorted(times)[100] < 0.02, f"{sorted(times)[100] * 1000:.1f} ms"


def test_allowing_one_name_takes_no_answer_away():
    with World() as w:
        w.write_list("b", [f"n{i}.m{i % 997}.test" for i in range(200000)])
        w.start(**BLOCK)
        names = os.path.join(w.site.dir, "names")
        with open(names, "w", encoding="ascii") as f:
            f.writelines(f"d-q{i}.yard 0\n" for i in range(500))
        p = ask_names(w.site, w.site.c, names, 3000, rate=1000, syn_every=0)
        time.sleep(0.5)
        w.gateway.verb("list", "add", "b", "!n5.m5.test")
        asked = result(p)
        assert not is_blocked(w, "n5.m5.test")
        assert asked["unanswered"] == 0 and asked["servfail"] == 0 and asked["latency_ms"]["max"] < 2500, asked["latency_ms"]


def test_a_client_that_hoards_tcp_connections():
    with World() as w:
        w.start()
        idle = []
        for _ in range(400):
            s = w.site.socket(w.site.c, kind=socket.SOCK_STREAM)
            s.settimeout(2)
            s.connect((LAN4, 53))
            idle.append(s)
        assert w.ask("d-x.yard").answer, "it still asks over UDP"
        assert w.ask("d-x.yard", tcp=True, server=IOT4, ns=w.site.d).answer, "one client that hoards connections takes none from others"
        for s in idle:
            s.close()


def test_open_tcp_connection_stays_while_all_changes():
    with World() as w:
        w.start()
        counter = Counter(w.site)
        counter.reset()
        (a,) = w.addresses("ip-c6130195.t2-two.test")
        server = w.site.socket(w.site.i, kind=socket.SOCK_STREAM)
        server.bind((a, 7600))
        server.listen()
        server.settimeout(3)
        client = w.site.socket(w.site.c, kind=socket.SOCK_STREAM)
        client.settimeout(3)
        client.connect((a, 7600))
        there, _ = server.accept()
        there.settimeout(3)

        def is_alive():
            client.sendall(b"ping")
            assert there.recv(10) == b"ping"
            there.sendall(b"pong")
            return client.recv(10) == b"pong"
        assert is_alive()
        w.write_list("vpn", ["both.test", "listed.example", "zonka", "198.51.100.0/28", "2001:db8:e000::/48"])
        assert w.wait(lambda: not w.set_of(a), 3) is not None
        assert is_alive(), "an update of a file broke an open connection"
        w.gateway.verb("reload")
        assert is_alive(), "a reload broke an open connection"
        w.gateway.stop()
        w.gateway.start()
        assert is_alive(), "a restart broke an open connection"
        leaves_by(w, "t2-x.listed.example", "2")
        for s in (client, there, server):
            s.close()
