# SPDX-License-Identifier: GPL-3.0-or-later
"""What the bars share: their options, their table, their verdict."""
import argparse
import json
import os
import sys
import time

from gateway import Gateway, config_text
from lists import Lists
from site_net import Counter, Failed, Site, permitted
from watch import Watch


class Bar:
    """Rows of a table with a verdict each."""

    is_quick = False

    def __init__(self, title, columns):
        self.title, self.columns, self.rows, self.missed = title, columns, [], []

    def row(self, name, *values):
        self.rows.append([name, *[str(v) for v in values]])

    def must(self, condition, text):
        """A demand of the bar; one not met fails it at the end."""
        if not condition:
            self.missed.append(text)
        return condition

    def finish(self):
        table = [["", *self.columns], *self.rows]
        widths = [max(len(r[i]) for r in table if i < len(r)) for i in range(len(table[0]))]
        print(self.title)
        for r in table:
            print("  " + "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(r, widths))))
        for m in self.missed:
            print("  MISSED:", m)
        print("  bar held" if not self.missed else "  BAR MISSED", flush=True)
        return 1 if self.missed else 0

    def exits(self, name, asked, counts, may_stay_unanswered=False, may_lose=False, may_refuse=False):
        """One load and what was seen at the exits. An answer that the kernel does not acknowledge within 50 ms is SERVFAIL by design; a quick run, with
        sanitizers on a machine that may do other things, allows a few of these. Wrong exits are never allowed."""
        packets = sum(v for k, v in asked["packets"].items() if k != "x")
        seen = sum(sum(e.values()) for e in counts["udp"].values())
        vanished = sum(asked["packets"].values()) - seen
        bad = asked["servfail"] + asked["refused"] + asked["other"]
        late = asked["asked"] * LATE_SHARE if Bar.is_quick else 0
        ms = asked["latency_ms"]
        self.row(name, asked["asked"], packets, counts["wrong"], vanished, asked["unanswered"], bad, f"{ms['p50']:.2f}", f"{ms['p99']:.1f}", f"{ms['max']:.0f}")
        for e in counts["examples"][:6]:
            self.rows.append(["    " + e])
        for e in asked["examples"][:4]:
            if asked["unanswered"] or bad:
                self.rows.append(["    " + e])
        self.must(counts["missed"] == 0, f"{name}: the counter lost {counts['missed']} packets, the run says nothing")
        self.must(packets > 0, f"{name}: no packet was sent")
        self.must(counts["wrong"] == 0, f"{name}: {counts['wrong']} packets at the wrong exit")
        self.must(may_lose or vanished == 0, f"{name}: {vanished} packets arrived nowhere")
        self.must(may_stay_unanswered or (asked["unanswered"] == 0 and (bad <= late or may_refuse) and asked["malformed"] == 0),
                  f"{name}: {asked['unanswered']} unanswered, {bad} SERVFAIL or REFUSED, {asked['malformed']} malformed")


LATE_SHARE = 0.05


class Scene:
    """A site with lists of the size of scenario A, an upstream, nameway and the counter, ready to be loaded."""

    def __init__(self, entries=29239, names=20000, ttl=60, site_options=None, start=True, **config):
        self.site = Site(**(site_options or {}))
        self.lists = Lists(os.path.join(self.site.dir, "lists"), entries)
        self.names = self.lists.write_asked(os.path.join(self.site.dir, "asked"), names)
        self.site.upstream(ttl=ttl)
        self.gateway = Gateway(self.site, self.config(**config))
        self.ready_s = self.gateway.start(120) if start else None
        self.counter = Counter(self.site)
        self.watch = Watch(self.site)

    def config(self, **kw):
        return config_text(self.site, os.path.join(self.site.dir, "lists"), **kw)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.watch.close()
        self.site.remove()

    def set_of(self, address):
        """The set of nameway's table that holds an address now, or None."""
        found = json.loads(self.site.sh(self.site.g, "nft -j list sets inet"))["nftables"]
        for x in (x["set"] for x in found if x.get("set", {}).get("table") == "nameway"):
            if self.is_in_set(x["name"], address):
                return x["name"]
        return None

    def is_in_set(self, name, address):
        return self.site.ok(self.site.g, f"nft get element inet nameway {name} '{{ {address} }}' 2>/dev/null")

    def path(self, name):
        return os.path.join(self.site.dir, name)


def limit(o, value):
    """A time that the bar allows. The short form runs beside other tests and under sanitizers, and only finds what is wrong by far."""
    return value * 5 if o.quick else value


def every(seconds, duration, fn):
    """Calls fn(i) every so often, for a duration; late calls do not pile up."""
    start = time.monotonic()
    i = 0
    while (now := time.monotonic()) - start < duration:
        fn(i)
        i += 1
        time.sleep(max(0.0, seconds - (time.monotonic() - now)))


EXIT_COLUMNS = ("asked", "packets", "wrong exit", "vanished", "unanswered", "failed", "p50 ms", "p99 ms", "max ms")


def options(doc, *more):
    p = argparse.ArgumentParser(description=doc.strip().splitlines()[0], epilog="NAMEWAY_BUILD names the build directory; the default is build/.")
    p.add_argument("--quick", action="store_true", help="a shorter run, for `make test`")
    for names, kw in more:
        p.add_argument(*names, **kw)
    o = p.parse_args()
    Bar.is_quick = o.quick
    return o


def main(fn):
    """Runs a bar: its exit code, 2 when it could not be run, 77 when it cannot be run here."""
    why = permitted()
    if why:
        print(f"skipped: {why}")
        sys.exit(77)
    try:
        sys.exit(fn())
    except Failed as e:
        print(f"could not run: {e}", file=sys.stderr)
        sys.exit(2)
