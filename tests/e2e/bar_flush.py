#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bar "flush": an outsider flushes the ruleset and deletes the table every 2 s, under load.

With `table-protect: auto` no packet may notice (where the kernel can; else the second demand holds). With `off`: no packet at a wrong exit, the sets refilled within 100 ms
after the event, traffic stopped for 150 ms at most. Beside the client that asks, another only sends to addresses it asked before."""
import time

import bars
from site_net import ask_names, hold_flows, result

FLUSH = "nft flush ruleset; nft delete table inet nameway 2>/dev/null; true"


def refilled(scene, address):
    """Milliseconds until a new connection to an address in a set is steered again."""
    start = time.monotonic()
    while time.monotonic() - start < 3:
        if scene.watch.exit_of(address, timeout=0.01) == "2":
            break
    return (time.monotonic() - start) * 1000


def run(bar, o, protect, seconds, entries):
    with bars.Scene(entries=entries, protect=protect, element_min="5m") as s:
        warm = result(ask_names(s.site, s.site.c, s.names, 2000, rate=2000, learnt=s.path("learnt"), mix="A:100,AAAA:0,HTTPS:0"))
        with open(s.path("learnt"), encoding="ascii") as f:
            lines = [line for line in f if line.split()[1] == "2"]
        with open(s.path("held"), "w", encoding="ascii") as f:
            f.writelines(lines)
        address = lines[0].split()[0]
        bar.must(warm["unanswered"] == 0, f"{protect}: {warm['unanswered']} unanswered before anything happened")
        s.counter.reset()
        asking = ask_names(s.site, s.site.c, s.names, 1000 * seconds, rate=1000, tcp=5)
        holding = hold_flows(s.site, s.site.c, s.path("held"), seconds, rate=1000)
        times = []

        def flush(_):
            s.site.sh(s.site.g, FLUSH)
            times.append(refilled(s, address))
        time.sleep(0.5)
        bars.every(2, seconds - 1.5, flush)
        asked, held = result(asking), result(holding)
        counts = s.counter.snap()
        for tag in "012x":
            asked["packets"][tag] += held["packets"][tag]
        is_auto = protect == "auto"
        bar.exits(f"protect {protect}", asked, counts, may_lose=not is_auto, may_refuse=not is_auto)
        gap = counts["gap_ms"]["2"]
        bar.row(f"  {len(times)} flushes: element back after {max(times):.0f} ms at most, longest silence of a tunnel's packets {gap:.0f} ms")
        bar.must(max(times) <= bars.limit(o, 100), f"{protect}: refilled after {max(times):.0f} ms")
        bar.must(is_auto or gap <= bars.limit(o, 150), f"{protect}: traffic stopped for {gap:.0f} ms")
        bar.must(s.gateway.is_running(), f"{protect}: namewayd ended")
        if bar.missed:
            print(s.gateway.log_end())


def main():
    o = bars.options(__doc__, (["--seconds"], {"type": int, "default": 20}))
    seconds, entries = (6, 2000) if o.quick else (o.seconds, 29239)
    bar = bars.Bar(f"flush every 2 s: {entries} entries, 1,000 queries/s and 1,000 packets/s to known addresses", bars.EXIT_COLUMNS)
    for protect in ("auto", "off"):
        run(bar, o, protect, seconds, entries)
    return bar.finish()


if __name__ == "__main__":
    bars.main(main)
