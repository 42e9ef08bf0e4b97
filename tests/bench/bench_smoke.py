#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The benchmark's own parts, on loopback and without root: the load counts right and wrong answers apart, its upstream answers, the figures follow
their definitions, the plot is an SVG.

    bench_smoke.py NW-BENCH-LOAD NW-ECHO"""
import json
import os
import socket
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import figures  # noqa: E402
import lists  # noqa: E402
import plot  # noqa: E402


def free_port(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind((address, 0))
        return s.getsockname()[1]


class Load:
    def __init__(self, program, port):
        self.p = subprocess.Popen([program, "127.0.0.2", str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        assert self.p.stdout.readline() == "ready\n"

    def ask(self, line):
        self.p.stdin.write(line + "\n")
        return json.loads(self.p.stdout.readline())

    def end(self):
        self.p.stdin.close()
        assert self.p.wait(20) == 0


def run(load, address, port, what, right, window=64, ms=200, rate=0):
    r = load.ask(f"run {address} {port} {what} {right} {window} 2 {ms} {rate}")
    assert r["sent"] == r["answered"] + r["wrong"] + r["lost"], r
    return r


def check_load(program, echo_program):
    upstream, echo = free_port("127.0.0.2"), free_port("127.0.0.1")
    load = Load(program, upstream)
    with subprocess.Popen([echo_program, "-a", "127.0.0.1", str(echo)], stdout=subprocess.DEVNULL) as e, tempfile.TemporaryDirectory() as folder:
        try:
            names = os.path.join(folder, "names")
            lists.write_names(names, ["a.example", "b.c.example", "not..a.name"])
            assert load.ask(f"names some {names}") == {}
            assert "error" in load.ask(f"names other {folder}/none")
            assert "error" in load.ask("run 127.0.0.1 1 @nothing 0 0 1 1 10 0")
            assert "error" in load.ask("run")
            while not load.ask(f"run 127.0.0.1 {echo} @some -1 0 1 1 20 0")["answered"]:
                pass
            r = run(load, "127.0.0.1", echo, "@some", "-1 0")
            assert r["answered"] > 100 and not r["wrong"] and not r["late"], r
            # An echo has RCODE 0 and no record: it is wrong where another RCODE or a record is due.
            assert not run(load, "127.0.0.1", echo, "www.*.lan", "3 0")["answered"]
            assert not run(load, "127.0.0.1", echo, "www.*.lan", "0 1")["answered"]
            # The upstream stands in the same process.
            r = run(load, "127.0.0.2", upstream, "m#.example", "0 1")
            assert r["answered"] > 100 and not r["wrong"], r
            r = run(load, "127.0.0.2", upstream, "c1.example", "0 1", ms=500, rate=2000)
            assert 900 <= r["sent"] <= 1000 and not r["wrong"], r
            # Nobody there: all is lost, and said to be.
            r = run(load, "127.0.0.1", free_port("127.0.0.1"), "@some", "-1 0", window=4)
            assert not r["answered"] and r["lost"], r
        finally:
            e.terminate()
            load.end()


def sample(us):
    return {"us": us, "qps": 1e6 / us, "busy": 1.0, "median_us": us, "p99_us": us}


def measured(kind, size, **servers):
    return {"size": size, "kind": kind, "servers": {n.replace("_", "-"): [sample(us * k) for k in (1.0, 1.1, 0.9, 1.0, 1.2)] for n, us in servers.items()}}


def check_figures():
    i = figures.interval([1.0, 2.0, 3.0])
    assert i["median"] == 2.0 and i["low"] == 1.0 and i["high"] == 3.0, i
    packaged = ["dnsmasq", "unbound"]
    costs = [figures.row(measured("blocked", 326000, echo=4.0, unbound=8.0, dnsmasq=9.0, dnsdist_64=3.0, nameway=ours, nameway_10=5.0), packaged) for ours in (5.0, 7.9)]
    assert costs[0]["best_peer"] == "unbound"
    verdicts = [[b["is_met"] for b in figures.bars([c], [])] for c in costs]
    assert verdicts == [[True, True], [False, False]], verdicts
    flat = figures.bars([figures.row(measured("local", 1000000, echo=4.0, nameway=5.6, nameway_10=5.0), [])], [])
    assert [b["is_met"] for b in flat] == [False] and abs(flat[0]["median"] - 1.12) < 1e-6, flat
    # The upper end of the interval counts, not the median.
    wide = {"size": 326000, "kind": "cached", "servers": {"echo": [sample(1.0)] * 5, "nameway": [sample(x) for x in (1.0, 1.1, 1.2, 1.9, 2.0)]}}
    assert [b["is_met"] for b in figures.bars([figures.row(wide, [])], [])] == [False]


def check_plot():
    rows = [figures.row(measured(k, s, echo=4.0, unbound=8.0, nameway=5.0), ["unbound"]) for k in ("blocked", "miss") for s in (10, 326000)]
    result = {"rows": rows, "pairs": 5, "machine": {"versions": {"nameway": "1", "unbound": "2"}, "cpu": "a < b", "kernel": "6.1.0-1"}}
    xml.etree.ElementTree.fromstring(plot.make(result))


def check_names():
    made = list(lists.made_names(3000))
    labels = [tuple(n.split(".")) for n in made]
    assert len(set(made)) == 3000 and not any(a != b and b[-len(a):] == a for a in set(labels) for b in labels[:50])


def main():
    check_figures()
    check_plot()
    check_names()
    check_load(*sys.argv[1:3])
    print("the benchmark's parts do what they say")


if __name__ == "__main__":
    main()
