#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a query costs: nameway beside a bare UDP echo, dnsmasq, unbound and dnsdist, all in the same rounds of one run.

    tests/bench/bench.py [--sizes 10,29k,326k,1M,10M] [--kinds blocked,miss,...] [--peers dnsmasq,unbound,dnsdist,dnsdist-64] [--pairs 20] [--seconds 0.25]
                         [--quick] [--table ours|all] [--names FILE] [--json FILE] [--plot FILE] [--build build]

Needs root, two processors and a build with nw-echo and nw-bench-load; `make bench` does all of it. Servers run on the first processor, load and
upstream on the second, in network namespaces made and removed here. A server always has queries waiting. CPU time is user and system time of all its
processes. docs/bench.md tells how each server is configured and how to read the figures."""
import argparse
import json
import os
import shutil
import signal
import sys
import time

import figures
import machine
import plot
import report
from kinds import KINDS, STEERING_PAIRS
from lists import Source
from peers import AS_PACKAGED, PEERS
from place import LOAD_CPU, SERVER_CPU, Failed, Tools
from rounds import Stand, measure_kind, measure_steering

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
REAL_NAMES = os.path.join(ROOT, "../shared/data/lists/merged/permissive-domains.txt.gz")
STEERING_SIZE_MAX = 326000


def size_parse(text):
    unit = {"k": 1000, "M": 1000000}.get(text[-1:], 1)
    return int(text[:-1] if unit > 1 else text) * unit


def subset(p, text, of, what):
    chosen = [t for t in text.split(",") if t]
    if set(chosen) - set(of):
        p.error(f"{what} are {', '.join(of)}")
    return chosen


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default=os.path.join(ROOT, "build"))
    p.add_argument("--sizes", default="10,29k,326k,1M,10M", help="blocked names; beyond 1M only nameway and the echo are measured")
    p.add_argument("--pairs", type=int, default=20, help="rounds: each server once in each")
    p.add_argument("--seconds", type=float, default=0.25, help="of each measurement")
    p.add_argument("--kinds", default=",".join(k for k in KINDS if not KINDS[k].is_ours or k in [s for s, _ in STEERING_PAIRS]))
    p.add_argument("--peers", default=",".join(PEERS), help="an empty one leaves only the echo")
    p.add_argument("--quick", action="store_true", help="29k names, ten rounds of 0.15 s: about three minutes")
    p.add_argument("--table", choices=("ours", "all"), default="ours", help="whose packets pass nameway's packet rules: its own, or those of echo and peers too")
    p.add_argument("--names", default=REAL_NAMES, help="a file of names, also .gz, to draw lists from; without it, or where it is too small, they are made")
    p.add_argument("--json", help="where the figures go, every sample included (BUILD/bench.json)")
    p.add_argument("--plot", help="where the plot goes, an SVG")
    o = p.parse_args()
    if o.quick:
        o.sizes, o.pairs, o.seconds = "29k", 10, 0.15
    o.sizes = [size_parse(s) for s in o.sizes.split(",")]
    o.kinds = subset(p, o.kinds, KINDS, "kinds")
    o.peers = subset(p, o.peers, PEERS, "peers")
    return o


def impossible(o):
    """Why it cannot run here, or None."""
    if os.geteuid() != 0:
        return "it needs root, for network namespaces and nftables"
    if not {SERVER_CPU, LOAD_CPU} <= os.sched_getaffinity(0):
        return "it needs two processors: one for the server, one for the load"
    missing = [t for t in ("ip", "unshare", "nsenter", "prlimit", *(PEERS[p].program for p in o.peers)) if not shutil.which(t)]
    return f"it needs {', '.join(missing)}" if missing else None


def run_size(tools, source, size, o, result):
    stand = Stand(tools, source, size, o)
    try:
        result["lists"][str(size)] = stand.list_kind
        result["memory"] += stand.memory()
        for kind in [k for k in o.kinds if not KINDS[k].is_ours]:
            measured = measure_kind(stand, kind, o)
            result["measured"].append(measured)
            row = figures.row(measured, AS_PACKAGED)
            result["rows"].append(row)
            report.print_row(row, measured, figures.ratio)
        if size == max([s for s in o.sizes if s <= STEERING_SIZE_MAX], default=min(o.sizes)):
            for measured in measure_steering(stand, o):
                result["measured_steering"].append(measured)
                result["steering"].append(figures.steering_row(measured))
                report.print_steering(result["steering"][-1])
    finally:
        stand.remove()


def run_all(o):
    tools, source = Tools(o.build), Source(o.names)
    result = {"machine": machine.facts(tools, o.peers), "sizes": o.sizes, "pairs": o.pairs, "seconds": o.seconds, "table": o.table, "lists": {}, "measured": [],
              "measured_steering": [], "rows": [], "steering": [], "memory": []}
    if result["machine"]["load_before"] > 0.5:
        print(f"note: the load average is {result['machine']['load_before']}: other work here makes the intervals wide")
    begin = time.monotonic()
    report.print_head()
    for size in o.sizes:
        run_size(tools, source, size, o, result)
    result["bars"] = figures.bars(result["rows"], result["steering"])
    result["took_s"] = round(time.monotonic() - begin)
    report.print_memory(result["memory"])
    report.print_bars(result["bars"])
    return result


def main():
    o = options()
    why = impossible(o)
    if why:
        print(f"bench: {why}", file=sys.stderr)
        return 77
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        result = run_all(o)
    except Failed as e:
        print(f"bench: {e}", file=sys.stderr)
        return 1
    path = o.json or os.path.join(o.build, "bench.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(result, f, indent=1)
    print(f"\nfigures: {path}; {result['took_s']} s")
    if o.plot:
        plot.write(result, o.plot)
        print(f"plot: {o.plot}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
