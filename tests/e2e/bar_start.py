#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bar "start": half a second from the start to the first right answer, with 1,000,000 compiled names and the sets restored, and no upstream to be reached.

The right answer is that of the last listed name of a filter rule; and a packet to an address that a client has held since before must take its tunnel. With the page cache
warm, and cold for all that nameway reads."""
import glob
import os
import time

import bars
import dnsclient
from site_net import LAN4, ask_names, result, tool

FILTER = "filter:\n  - { names: [blocked], block: nxdomain }\n"
LIST = "  blocked: {{ files: [{path}] }}\n"


def forget_pages(s):
    """The page cache gives up what nameway reads, and nothing else."""
    paths = [tool("namewayd"), s.gateway.config_path, s.path("blocked"), *glob.glob(s.path("lists/*")), *glob.glob(s.path("state/**"), recursive=True)]
    for path in paths:
        if os.path.isfile(path):
            with open(path, "rb") as f:
                os.fsync(f.fileno())
                os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def start_once(s, last, held):
    begin = time.monotonic()
    s.gateway.launch()
    answered = steered = None
    while time.monotonic() - begin < 20 and (answered is None or steered is None):
        if answered is None:
            rcode, _ = dnsclient.ask(s.site, s.site.c, LAN4, last, "A", timeout=0.02)
            answered = time.monotonic() - begin if rcode == "NXDOMAIN" else None
        if steered is None and s.watch.exit_of(held, timeout=0.01) == "2":
            steered = time.monotonic() - begin
    s.gateway.wait_ready()
    return answered or 99, steered or 99, time.monotonic() - begin


def main():
    o = bars.options(__doc__, (["--entries"], {"type": int, "default": 1000000}), (["--times"], {"type": int, "default": 5}))
    entries, times = (50000, 2) if o.quick else (o.entries, o.times)
    bar = bars.Bar(f"start with {entries} compiled names", ("first right answer", "held address steered", "ready"))
    with bars.Scene(entries=2000, names=2000, start=False, element_min="1h") as s:
        with open(s.path("blocked"), "w", encoding="ascii") as f:
            f.writelines(f"ad{i}.banner{i % 7919}.test\n" for i in range(entries))
        last = f"www.ad{entries - 1}.banner{(entries - 1) % 7919}.test"
        s.gateway.write(s.config(more_lists=LIST.format(path=s.path("blocked")), filter=FILTER, element_min="1h"))
        bar.row("first of all, compiling", "", "", f"{s.gateway.start(120):.2f} s")
        result(ask_names(s.site, s.site.c, s.names, 2000, rate=1500, learnt=s.path("learnt")))
        with open(s.path("learnt"), encoding="ascii") as f:
            held = next(line.split()[0] for line in f if line.split()[1] == "2" and line.startswith("198.19."))
        time.sleep(3)  # the compiled list is written beside the service
        s.site.batch(s.site.i, "addr del 203.0.113.1/24 dev wan")
        for how in ("warm", "cold"):
            found = []
            for _ in range(times):
                s.gateway.stop()
                if how == "cold":
                    forget_pages(s)
                found.append(start_once(s, last, held))
            worst = [max(x[i] for x in found) for i in range(3)]
            bar.row(f"page cache {how}, worst of {times}", *[f"{w:.3f} s" for w in worst])
            bar.must(worst[0] <= bars.limit(o, 0.5), f"{how}: first right answer after {worst[0]:.2f} s")
            bar.must(worst[1] <= bars.limit(o, 0.5), f"{how}: the held address was steered after {worst[1]:.2f} s")
        if bar.missed:
            print(s.gateway.log_end())
    return bar.finish()


if __name__ == "__main__":
    bars.main(main)
