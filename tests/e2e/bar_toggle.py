#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bar "toggle, reload": a tunnel with kill switch goes down and up every 3 s, while 150 names are added to its list and 150 removed every 2 s.

It goes down by the verb, by the link, by the carrier, and by being deleted and made again. No packet may take a wrong exit, those of open flows neither; names of others
are answered and arrive; a new name is steered less than a second after the file is in place."""
import os
import threading
import time

import bars
import dnsclient
from site_net import LAN4, ask_names, hold_flows, result


def downs_and_ups(s):
    v6 = "addr replace 2001:db8:65::{}/64 dev {} nodad"
    return [("verb", lambda: s.gateway.verb("way", "down", "tunnel2"), lambda: s.gateway.verb("way", "up", "tunnel2")),
            ("link", lambda: s.site.batch(s.site.g, "link set wg2 down"), lambda: s.site.batch(s.site.g, "link set wg2 up\n" + v6.format(2, "wg2"))),
            ("carrier", lambda: s.site.batch(s.site.i, "link set t2 down"), lambda: s.site.batch(s.site.i, "link set t2 up\n" + v6.format(1, "t2"))),
            ("deleted", lambda: s.site.tunnel_delete(2), lambda: s.site.tunnel_make(2))]


class ListChanger(threading.Thread):
    """Every 2 s another 150 names; how long until the last of them is steered."""

    def __init__(self, s, seconds):
        super().__init__()
        self.s, self.seconds, self.times, self.wrong = s, seconds, [], []
        self.path = s.lists.vpn_path
        with open(self.path, encoding="ascii") as f:
            self.base = f.read()
        self.error = None

    def run(self):
        try:
            bars.every(2, self.seconds, self.change)
        except Exception as e:  # pylint: disable=broad-except
            self.error = e

    def change(self, round_number):
        names = [f"t2-round{round_number}-{i}.yard" for i in range(150)]
        with open(self.path + ".new", "w", encoding="ascii") as f:
            f.write(self.base + "\n".join(names) + "\n")
        os.rename(self.path + ".new", self.path)
        start = time.monotonic()
        while time.monotonic() - start < 5 and self.way_of(names[-1]) != "tunnel2":
            time.sleep(0.005)
        self.times.append(time.monotonic() - start)
        # And what the policy says is what happens; the tunnel may be down just now.
        _, addresses = dnsclient.ask(self.s.site, self.s.site.c, LAN4, names[-1], "A", timeout=0.5)
        seen = [x for x in (self.s.watch.exit_of(a, timeout=0.1) for a in addresses) if x not in (None, "2")]
        if seen:
            self.wrong.append(f"{names[-1]} left by {seen}")

    def way_of(self, name):
        return self.s.gateway.verb("explain", name, "--client", "192.168.8.2")["steer"].get("way")


def run(bar, seconds, entries, limit):
    with bars.Scene(entries=entries, element_min="5m") as s:
        result(ask_names(s.site, s.site.c, s.names, 1500, rate=1500, learnt=s.path("learnt"), mix="A:60,AAAA:40,HTTPS:0"))
        s.counter.reset()
        changer = ListChanger(s, seconds - 1)
        asking = ask_names(s.site, s.site.c, s.names, 800 * seconds, rate=800, tcp=5)
        holding = hold_flows(s.site, s.site.c, s.path("learnt"), seconds, rate=1000)
        changer.start()
        toggles = downs_and_ups(s)

        def toggle(i):
            _, down, up = toggles[i % len(toggles)]
            down()
            time.sleep(1.2)
            up()
        bars.every(3, seconds - 3, toggle)
        asked, held = result(asking), result(holding)
        changer.join()
        counts = s.counter.snap()
        for tag in "012x":
            asked["packets"][tag] += held["packets"][tag]
        bar.exits("toggles and changes", asked, counts, may_stay_unanswered=True, may_lose=True)
        for tag in "01":
            by = asked["by_exit"][tag]
            seen = sum(e[tag] for e in counts["udp"].values())
            bar.must(by["unanswered"] + by["servfail"] + by["refused"] == 0, f"names of exit {tag}: {by}")
            bar.must(seen == asked["packets"][tag], f"exit {tag}: {asked['packets'][tag] - seen} packets arrived nowhere")
        bar.must(asked["by_exit"]["2"]["unanswered"] == 0, f"names of the tunnel that toggles: {asked['by_exit']['2']['unanswered']} got no answer at all")
        bar.must(sum(counts["udp"]["2"].values()) > 0.3 * asked["packets"]["2"], "the tunnel hardly came back")
        bar.must(not changer.error, f"list changes: {changer.error}")
        worst = max(changer.times, default=9)
        bar.row(f"  {len(changer.times)} list changes: steered after {worst * 1000:.0f} ms at most")
        bar.must(not changer.wrong, f"new names: {changer.wrong[:3]}")
        bar.must(worst < limit, f"a new name was steered after {worst:.2f} s")
        bar.must(s.gateway.is_running(), "namewayd ended")
        if bar.missed:
            print(s.gateway.log_end())


def main():
    o = bars.options(__doc__, (["--seconds"], {"type": int, "default": 50}))
    seconds, entries = (14, 2000) if o.quick else (o.seconds, 29239)
    bar = bars.Bar(f"toggle every 3 s, 150 names every 2 s: {entries} entries, 800 queries/s, 1,000 packets/s of open flows", bars.EXIT_COLUMNS)
    run(bar, seconds, entries, bars.limit(o, 1))
    return bar.finish()


if __name__ == "__main__":
    bars.main(main)
