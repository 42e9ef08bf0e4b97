#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bar "the same, harder": what else lives on a gateway must not lead a packet to the wrong exit.

Two client groups with opposite policies, somebody else's mark bits, rp_filter=1 at the start, connections from outside by every exit, a tunnel without IPv6, lists that
share addresses, open flows that outlive their elements, the enforcer and the whole daemon killed with -9, and a reboot of the gateway under clients that hold answers."""
import os
import signal
import threading
import time

import bars
from site_net import IOT4, IOT6, ask_names, hold_flows, result

OPPOSITE = """
steer:
  - { name: lan 1, clients: [lan], names: [vpn1], way: tunnel1 }
  - { name: lan 2, clients: [lan], names: [vpn], way: tunnel2 }
  - { name: iot 1, clients: [iot], names: [vpn1], way: tunnel2 }
  - { name: iot 2, clients: [iot], names: [vpn], way: tunnel1 }
  - { way: direct }
"""
FOREIGN_MARKS = """table inet marks {
    chain before { type filter hook prerouting priority -350; iifname { "br-lan", "br-iot" } meta mark set meta mark | 0x00ab0007; }
    chain after { type filter hook postrouting priority 350; udp dport 7000-7003 meta mark & 0x0fff0fff != 0x00ab0007 counter name "lost"; }
    counter lost { }
    }"""


def swap(s, source, target):
    with open(source, encoding="ascii") as f, open(target, "w", encoding="ascii") as out:
        for line in f:
            name, tag = line.split()
            out.write(f"{name} {tag.translate(str.maketrans('12', '21'))}\n")


def merge(*asked):
    total = asked[0]
    for a in asked[1:]:
        for k in ("packets", "connections"):
            for tag in total[k]:
                total[k][tag] += a[k][tag]
        for k in ("asked", "unanswered", "servfail", "refused", "other", "malformed"):
            total[k] += a[k]
        total["examples"] += a["examples"]
    return total


class Outside(threading.Thread):
    """Connections that come in by every exit in turn; the client's replies must leave where they came from."""

    def __init__(self, s, seconds):
        super().__init__()
        self.s, self.seconds, self.right, self.wrong = s, seconds, 0, []

    def run(self):
        client = self.s.site.socket(self.s.site.c)
        client.bind(("192.168.8.2", 7300))
        client.settimeout(1)
        start, i = time.monotonic(), 0
        while time.monotonic() - start < self.seconds:
            dev, via, tag = (("t2", "10.65.0.2", "2"), ("t1", "10.64.0.2", "1"), ("wan", "203.0.113.2", "0"))[i % 3]
            self.s.site.sh(self.s.site.i, f"ip route replace 192.168.8.2/32 via {via} dev {dev}")
            with self.s.site.socket(self.s.site.i) as out:
                out.bind((f"198.18.{90 + i % 3}.{1 + i // 3 % 250}", 7100))
                out.sendto(b"from outside", ("192.168.8.2", 7300))
                try:
                    _, peer = client.recvfrom(100)
                    seen = self.s.watch.exit_of(peer[0], sender=client)
                    if seen == tag:
                        self.right += 1
                    else:
                        self.wrong.append(f"came by {tag}, answered by {seen}")
                except TimeoutError:
                    self.wrong.append(f"did not come in by {tag}")
            i += 1
            time.sleep(0.05)
        client.close()


def two_groups(bar, count, entries):
    with bars.Scene(entries=entries, start=False, site_options={"iot": True, "rp_filter": 1}) as s:
        s.site.nft(s.site.g, FOREIGN_MARKS)
        s.gateway.write(s.config(steer=OPPOSITE))
        s.gateway.start(60)
        swap(s, s.names, s.path("asked-iot"))
        outside = Outside(s, count / 1000)
        s.counter.reset()
        outside.start()
        lan = ask_names(s.site, s.site.c, s.names, count, rate=1000, tcp=12)
        iot = ask_names(s.site, s.site.d, s.path("asked-iot"), count, servers=(IOT4, IOT6), rate=1000, tcp=12)
        asked = merge(result(lan), result(iot))
        outside.join()
        bar.exits("two groups, marks, rp_filter", asked, s.counter.snap())
        lost = s.site.sh(s.site.g, "nft list counter inet marks lost").split("packets ")[1].split()[0]
        bar.must(lost == "0", f"foreign mark bits were lost on {lost} packets")
        bar.row(f"  from outside: {outside.right} connections answered by the exit they came by")
        bar.must(not outside.wrong and outside.right > 5, f"from outside: {outside.wrong[:3]} ({len(outside.wrong)} of {len(outside.wrong) + outside.right})")


def without_ipv6(bar, count, entries):
    with bars.Scene(entries=entries, site_options={"tunnel_ipv6": (True, False)}) as s:
        s.counter.reset()
        asked = result(ask_names(s.site, s.site.c, s.names, count, rate=1500, tcp=12))
        # Unlisted names in a listed IPv6 prefix have nowhere to go.
        bar.exits("tunnel without IPv6", asked, s.counter.snap(), may_lose=True)


def shared_addresses(bar, entries):
    """64 addresses of each family under names of both lists and under unlisted ones: the first rule has them all, once one of its names was asked."""
    with bars.Scene(entries=entries) as s:
        names = {"first": [f"s-{i}.{s.lists.vpn1[i % 39]}" for i in range(600)], "then": [f"s-{i}.{s.lists.vpn[i]}" for i in range(500)] + [f"s-{i}.yard" for i in range(500)]}
        for part, found in names.items():
            with open(s.path(part), "w", encoding="ascii") as f:
                f.writelines(f"{n} 1\n" for n in found)
            s.counter.reset()
            asked = result(ask_names(s.site, s.site.c, s.path(part), 2 * len(found), rate=1000, mix="A:50,AAAA:50,HTTPS:0"))
            bar.exits(f"shared addresses, {part}", asked, s.counter.snap())


def flows_and_kills(bar, seconds, entries):
    with bars.Scene(entries=entries, ttl=2, element_min="2s") as s:
        result(ask_names(s.site, s.site.c, s.names, 300, rate=1000, learnt=s.path("learnt"), syn_every=0))
        s.counter.reset()
        held = result(hold_flows(s.site, s.site.c, s.path("learnt"), seconds, rate=400))
        counts = s.counter.snap()
        bar.row("open flows past their elements", "", sum(held["packets"].values()), counts["wrong"])
        bar.must(counts["wrong"] == 0 and counts["missed"] == 0, f"open flows: {counts['wrong']} wrong {counts['examples'][:3]}")
    with bars.Scene(entries=entries, ttl=60, element_min="10m") as s:
        result(ask_names(s.site, s.site.c, s.names, 2000, rate=1500, learnt=s.path("learnt"), syn_every=0))
        time.sleep(1.2)
        killed(bar, s, "enforcer killed", seconds, lambda: os.kill(s.gateway.children()["enforcer"], signal.SIGKILL))
        killed(bar, s, "server killed", seconds, lambda: os.kill(s.gateway.children()["server"], signal.SIGKILL))
        killed(bar, s, "daemon killed, restarted", seconds, lambda: kill_and_start(s))
        killed(bar, s, "daemon restarted", seconds, lambda: (s.gateway.stop(), s.gateway.start()))
        killed(bar, s, "reboot", seconds, lambda: reboot(s))


def kill_and_start(s):
    s.gateway.stop(signal.SIGKILL)
    time.sleep(0.5)
    s.gateway.start()


def reboot(s):
    """SIGTERM; then a kernel that knows nothing, and forwards only when the network comes up, after `--guard`."""
    s.gateway.stop()
    s.site.set(s.site.g, {"net/ipv4/ip_forward": 0, "net/ipv6/conf/all/forwarding": 0})
    s.site.sh(s.site.g, "nft flush ruleset; nft delete table inet nameway; for f in -4 -6; do ip $f rule flush; ip $f rule add pref 32766 lookup main; done; conntrack -F", check=False)
    s.gateway.guard()
    s.site.set(s.site.g, {"net/ipv4/ip_forward": 1, "net/ipv6/conf/all/forwarding": 1})
    time.sleep(0.3)
    s.gateway.start()


def killed(bar, s, what, seconds, act):
    """A client that asks, one that holds flows, one that opens new connections to what it learnt before; something dies in the middle."""
    s.counter.reset()
    asking = ask_names(s.site, s.site.c, s.names, 500 * seconds, rate=500, syn_every=0)
    holding = hold_flows(s.site, s.site.c, s.path("learnt"), seconds, rate=500)
    time.sleep(1)
    act()
    fresh = [result(hold_flows(s.site, s.site.c, s.path("learnt"), 0.4, rate=1500)) for _ in range(max(2, seconds - 3))]
    asked = merge(result(asking), *[{**f, "asked": 0, "unanswered": 0, "servfail": 0, "refused": 0, "other": 0, "malformed": 0, "examples": []} for f in [result(holding), *fresh]])
    counts = s.counter.snap()
    bar.exits(what, asked, counts, may_stay_unanswered=True, may_lose=True)
    s.counter.reset()
    after = result(ask_names(s.site, s.site.c, s.names, 1000, rate=1000, pass_number=3, syn_every=0))
    bar.exits("  after it", after, s.counter.snap())


def main():
    o = bars.options(__doc__)
    count, seconds, entries = (2000, 4, 2000) if o.quick else (20000, 12, 29239)
    bar = bars.Bar(f"first packet, harder: {entries} entries", bars.EXIT_COLUMNS)
    two_groups(bar, count, entries)
    without_ipv6(bar, count, entries)
    shared_addresses(bar, entries)
    flows_and_kills(bar, seconds, entries)
    return bar.finish()


if __name__ == "__main__":
    bars.main(main)
