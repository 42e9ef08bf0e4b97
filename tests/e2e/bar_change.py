#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bar "a change": 150 of 1,000,000 names are replaced every few seconds; no query may notice, and each change is in force within 150 ms of the rename.

Windows of idling and of changing alternate under the same open load; in the idle ones the same file is written beside the list, where nobody follows it, and the same questions
are asked, so that only nameway's own work differs. The p99.9 of the middle window of the changing ones may be 1.2 times that of the idle ones, the largest latency the largest
idle one and 5 ms more; nothing is lost. It needs a machine that does nothing else."""
import os
import threading
import time

import bars
import dnsclient
from site_net import LAN4, result, tool

FILTER = "filter:\n  - { names: [big], block: nxdomain }\n"
CHANGED = 150


class Changer(threading.Thread):
    def __init__(self, s, path, base, seconds, first_round):
        super().__init__()
        self.s, self.path, self.base, self.seconds, self.round = s, path, base, seconds, first_round
        self.times, self.error = [], None

    def run(self):
        try:
            bars.every(3, self.seconds, self.change)
        except Exception as e:  # pylint: disable=broad-except
            self.error = e

    def write(self, path):
        with open(path + ".new", "w", encoding="ascii") as f:
            f.write(self.base)
            f.writelines(f"fresh{i}.round{self.round}.test\n" for i in range(CHANGED))
        os.rename(path + ".new", path)
        return time.monotonic()

    def wait_for(self, name, is_listed, start, limit=5):
        while time.monotonic() - start < limit:
            rcode, _ = dnsclient.ask(self.s.site, self.s.site.c, LAN4, name, "A")
            if (rcode == "NXDOMAIN") == is_listed:
                return
            time.sleep(0.001)

    def change(self, _):
        before, self.round = self.round, self.round + 1
        start = self.write(self.path)
        self.wait_for(f"fresh{CHANGED - 1}.round{self.round}.test", True, start)
        self.wait_for(f"fresh{CHANGED - 1}.round{before}.test", False, start)
        self.times.append(time.monotonic() - start)


class Idler(Changer):
    """The same but for the list."""

    def change(self, _):
        start = self.write(self.path + ".beside")
        self.wait_for("d-never.yard", True, start, 0.04)
        self.times.append(0.0)


def load(s, rate, seconds):
    return s.site.start(s.site.c, [tool("nameway"), "load", "flood", "--server", f"{LAN4}@53", "--names", s.path("asked-plain"), "--rate", str(rate), "--duration", f"{seconds}s", "--json"])


def main():
    o = bars.options(__doc__, (["--entries"], {"type": int, "default": 1000000}), (["--windows"], {"type": int, "default": 5}), (["--seconds"], {"type": int, "default": 60}),
                     (["--rate"], {"type": int, "default": 2000}))
    entries, windows, seconds = (50000, 1, 8) if o.quick else (o.entries, o.windows, o.seconds)
    bar = bars.Bar(f"150 of {entries} names change every 3 s: {windows} windows of {seconds} s each way, {o.rate} queries/s", ("sent", "lost", "p50 ms", "p99.9 ms", "max ms", "in force ms"))
    with bars.Scene(entries=2000, names=2000, start=False) as s:
        path = s.path("big")
        base = "".join(f"ad{i}.banner{i % 7919}.test\n" for i in range(entries))
        with open(path, "w", encoding="ascii") as f:
            f.write(base)
        with open(s.path("asked-plain"), "w", encoding="ascii") as f:
            f.writelines(f"ad{i * 37 % entries}.banner{i * 37 % entries % 7919}.test\n" if i % 2 else f"d-n{i}.yard\n" for i in range(2000))
        s.gateway.write(s.config(more_lists=f"  big: {{ files: [{path}] }}\n", filter=FILTER))
        s.gateway.start(120)
        result(load(s, 1000, 4))
        found = {"idle": [], "changing": []}
        in_force = []
        for _ in range(windows):
            for kind, all_of_kind in found.items():
                changer = (Changer if kind == "changing" else Idler)(s, path, base, seconds - 3, 1000 * len(in_force))
                p = load(s, o.rate, seconds)
                changer.start()
                r = result(p, seconds + 60)
                changer.join()
                bar.must(not changer.error and changer.times, f"the changes failed: {changer.error}")
                in_force += changer.times
                all_of_kind.append(r)
                ms = {k: r["latency_us"][k] / 1000 for k in ("median", "p99_9", "max")}
                bar.row(kind, r["sent"], r["lost"], f"{ms['median']:.2f}", f"{ms['p99_9']:.2f}", f"{ms['max']:.1f}", f"{max(changer.times) * 1000:.0f}" if kind == "changing" else "")
                bar.must(r["lost"] == 0, f"{kind}: {r['lost']} lost")
        worst = max(in_force, default=9)
        bar.must(worst < bars.limit(o, 0.15), f"in force after {worst * 1000:.0f} ms")
        if not o.quick:
            idle, changing = [sorted(r["latency_us"]["p99_9"] for r in found[k]) for k in ("idle", "changing")]
            middle = len(idle) // 2
            bar.must(changing[middle] <= 1.2 * idle[middle], f"p99.9 {changing[middle] / 1000:.2f} ms against {idle[middle] / 1000:.2f} idle")
            idle_max, changing_max = [max(r["latency_us"]["max"] for r in found[k]) / 1000 for k in ("idle", "changing")]
            bar.must(changing_max <= idle_max + 5, f"the longest answer took {changing_max:.1f} ms against {idle_max:.1f} idle")
        if bar.missed:
            print(s.gateway.log_end())
    return bar.finish()


if __name__ == "__main__":
    bars.main(main)
