#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bar "first packet": clients connect in the tick their answer arrives, and not one packet may take the wrong exit.

Asked are listed names, names under them, unlisted ones, aliases in both directions, names under bare TLDs, exceptions, and names whose address is in a
listed prefix; A, AAAA and HTTPS with hints, 12 % over TCP, over IPv4 and IPv6: cold, again, and after the elements' life."""
import os
import time

import bars
from gateway import Gateway, config_text
from lists import Lists
from site_net import Counter, Site, ask_names, result

LIFE_S = 8


def passes(bar, site, names, count, rate, label):
    counter = Counter(site)
    for name, pause, number in (("cold", 0, 0), ("again", 0, 0), ("other types", 0, 1), ("after the life", LIFE_S + 2, 0)):
        time.sleep(pause)
        counter.reset()
        asked = result(ask_names(site, site.c, names, count, rate=rate, tcp=12, pass_number=number))
        bar.exits(f"{label}{name}", asked, counter.snap())


def main():
    o = bars.options(__doc__, (["--entries"], {"type": int, "default": 29239}), (["--rate"], {"type": int, "default": 1500}), (["--count"], {"type": int, "default": 20000}))
    count, rate = (3000, 1500) if o.quick else (o.count, o.rate)
    bar = bars.Bar(f"first packet: {o.entries} entries, {count} names at {rate}/s, 12 % TCP", bars.EXIT_COLUMNS)
    with Site() as site:
        lists = Lists(os.path.join(site.dir, "lists"), o.entries)
        names = lists.write_asked(os.path.join(site.dir, "asked"), count)
        site.upstream(ttl=LIFE_S)
        gateway = Gateway(site, config_text(site, os.path.join(site.dir, "lists"), element_min=f"{LIFE_S}s"))
        bar.row(f"ready after {gateway.start(120):.2f} s")
        passes(bar, site, names, count, rate, "")
        bar.must(gateway.is_running(), "namewayd ended")
        if bar.missed:
            print(gateway.log_end())
    return bar.finish()


if __name__ == "__main__":
    bars.main(main)
