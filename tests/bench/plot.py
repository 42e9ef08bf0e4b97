#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plot of a benchmark: bars of CPU time a query for each kind and server, with the 95 % interval of each, and below them nameway's by the size of its list.
Colours stand out on a light and on a dark page alike; the background is left open.

    tests/bench/plot.py BENCH.json OUT.svg"""
import json
import sys
from xml.sax.saxutils import escape

COLOURS = {"echo": "#8b949e", "dnsmasq": "#d9822b", "unbound": "#4a90d9", "dnsdist": "#a374d5", "dnsdist-64": "#c3a3e5", "nameway": "#2fa36b"}
TITLES = {"blocked": "blocked name", "local": "local NXDOMAIN", "cached": "cached answer", "miss": "forwarded miss"}
TEXT, LINE = "#7d8590", "#7d859055"
WIDTH, LEFT, TOP, BAR_H, GAP, GROUP_GAP, LABEL = 860, 120, 74, 15, 3, 26, 130
SIZE_PREFERRED = 326000


class Svg:
    def __init__(self):
        self.parts = []

    def text(self, x, y, s, anchor="start", size=12, weight="normal", fill=TEXT):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" fill="{fill}">{escape(s)}</text>')

    def rect(self, x, y, w, h, fill):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" rx="1.5" fill="{fill}"/>')

    def line(self, x1, y1, x2, y2, stroke=LINE, width=1.0):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}" stroke-width="{width}"/>')

    def whole(self, height):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}" '
                f'font-family="system-ui, sans-serif">\n' + "\n".join(self.parts) + "\n</svg>\n")


def size_text(n):
    return f"{n:,}"


def draw_bar(svg, y, name, f, scale):
    is_ours = name == "nameway"
    svg.text(LEFT - 8, y + BAR_H - 3.5, name, "end", 12, "bold" if is_ours else "normal", COLOURS[name] if is_ours else TEXT)
    svg.rect(LEFT, y, f["us"] * scale, BAR_H, COLOURS[name])
    i, mid = f["us_interval"], y + BAR_H / 2
    svg.line(LEFT + i["low"] * scale, mid, LEFT + i["high"] * scale, mid, TEXT, 1.5)
    for end in (i["low"], i["high"]):
        svg.line(LEFT + end * scale, mid - 3, LEFT + end * scale, mid + 3, TEXT, 1.5)
    by_echo = f"  ({f['by_echo']['median']:.2f} × echo)" if "by_echo" in f else ""
    svg.text(LEFT + max(f["us"], i["high"]) * scale + 6, y + BAR_H - 3.5, f"{f['us']:.1f}{by_echo}", size=11)


def draw_kind(svg, r, y):
    """One kind, on a scale of its own: the numbers stand beside the bars."""
    names = [n for n in COLOURS if n in r["servers"]]
    most = max(max(r["servers"][n]["us"], r["servers"][n]["us_interval"]["high"]) for n in names)
    svg.text(LEFT, y + 10, TITLES[r["kind"]], size=13, weight="bold")
    y += 16
    for name in names:
        draw_bar(svg, y, name, r["servers"][name], (WIDTH - LEFT - LABEL) / most)
        y += BAR_H + GAP
    svg.line(LEFT, y - len(names) * (BAR_H + GAP) - 2, LEFT, y)
    return y + GROUP_GAP - GAP


def draw_sizes(svg, rows, sizes, y):
    """A small table of nameway's cost by the number of names, as multiples of the echo."""
    kinds = [k for k in TITLES if any(r["kind"] == k and "by_echo" in r["servers"].get("nameway", {}) for r in rows)]
    if len(sizes) < 2 or not kinds:
        return y
    column = (WIDTH - LEFT - LABEL) / max(len(sizes), 1)
    svg.text(LEFT, y, "nameway by the number of names in its lists (× echo)", size=13, weight="bold")
    for i, size in enumerate(sizes):
        svg.text(LEFT + column * (i + 0.5), y + 20, size_text(size), "middle", 11)
    for k, kind in enumerate(kinds):
        svg.text(LEFT - 8, y + 38 + 18 * k, TITLES[kind], "end", 12)
        for i, size in enumerate(sizes):
            found = [r for r in rows if r["kind"] == kind and r["size"] == size]
            if found and "by_echo" in found[0]["servers"]["nameway"]:
                svg.text(LEFT + column * (i + 0.5), y + 38 + 18 * k, f"{found[0]['servers']['nameway']['by_echo']['median']:.2f}", "middle", 12, fill=COLOURS["nameway"])
    return y + 38 + 18 * len(kinds)


def make(result):
    svg = Svg()
    sizes = sorted({r["size"] for r in result["rows"]})
    size = SIZE_PREFERRED if SIZE_PREFERRED in sizes else max(s for s in sizes if s <= 1000000 or s == min(sizes))
    rows = [r for k in TITLES for r in result["rows"] if r["size"] == size and r["kind"] == k]
    m = result["machine"]
    svg.text(LEFT, 22, f"µs of CPU time for a query, {size_text(size)} blocked names, one worker", size=16, weight="bold")
    versions = ", ".join(f"{name} {v}" for name, v in m["versions"].items() if name != "nameway")
    svg.text(LEFT, 40, f"{versions}; {m['cpu']}, Linux {m['kernel'].split('-')[0]}; {result['pairs']} interleaved rounds, 95 % intervals", size=11)
    svg.text(LEFT, 55, "all with nameway's packet rules loaded" if result.get("table") == "all" else "nameway with its packet rules loaded, the others without", size=11)
    y = TOP
    for r in rows:
        y = draw_kind(svg, r, y)
    return svg.whole(draw_sizes(svg, result["rows"], sizes, y + 8) + 12)


def write(result, path):
    with open(path, "w", encoding="utf-8") as f:
        f.write(make(result))


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as source:
        write(json.load(source), sys.argv[2])
