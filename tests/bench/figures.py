# SPDX-License-Identifier: GPL-3.0-or-later
"""From samples to figures: ratios of what was measured in the same round, their 95 % intervals, and whether the bars are met.

The interval is a bootstrap of the median: 4,000 draws of as many rounds, with a fixed seed. A bar is met when the interval's upper end is below it."""
import random
import statistics

COST_SIZE, COST_KINDS, ECHO_MAX, PEER_MAX = 326000, ("blocked", "local", "cached"), 1.3, 0.9
FLAT_MAX = {1000000: 1.10, 10000000: 1.20}
STEERED_MAX, STEERED_QPS_MIN, SINGLE_MAX_US = 1.3, 10000, 60.0


def interval(values, draws=4000):
    """Median and its 95 % interval."""
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(draws))
    return {"median": statistics.median(values), "low": medians[draws * 25 // 1000], "high": medians[draws * 975 // 1000 - 1]}


def ratio(above, below, key="us"):
    """Of two servers' samples, round by round."""
    return interval([a[key] / b[key] for a, b in zip(above, below)])


def middle(samples, key):
    return statistics.median(s[key] for s in samples)


def best_peer(servers, peers):
    """The name of the peer whose median cost is the least, or None."""
    there = [p for p in peers if p in servers]
    return min(there, key=lambda p: middle(servers[p], "us"), default=None)


def row(measured, peers):
    """What the table shows of one kind at one size. `measured`: {"size", "kind", "servers": {name: [samples]}}."""
    servers = measured["servers"]
    out = {"size": measured["size"], "kind": measured["kind"], "servers": {}, "best_peer": best_peer(servers, peers)}
    for name, samples in servers.items():
        figures = {key: middle(samples, key) for key in ("us", "qps", "busy", "median_us", "p99_us")}
        figures["us_interval"] = interval([s["us"] for s in samples])
        if "echo" in servers and name != "echo":
            figures["by_echo"] = ratio(samples, servers["echo"])
        out["servers"][name] = figures
    if "nameway" in servers:
        if out["best_peer"]:
            out["by_best_peer"] = ratio(servers["nameway"], servers[out["best_peer"]])
        if "nameway-10" in servers:
            out["by_ten_names"] = ratio(servers["nameway"], servers["nameway-10"])
        if "dnsdist" in servers:
            out["by_dnsdist"] = ratio(servers["nameway"], servers["dnsdist"])
    return out


def steering_row(measured):
    """Steered against unsteered: {"size", "kind", "against", "steered": [samples], "plain": [samples]}."""
    added = interval([s["median_us"] - p["median_us"] for s, p in zip(measured["steered"], measured["plain"])])
    return {"size": measured["size"], "kind": measured["kind"], "against": measured["against"], "us": middle(measured["steered"], "us"),
            "plain_us": middle(measured["plain"], "us"), "qps": middle(measured["steered"], "qps"), "ratio": ratio(measured["steered"], measured["plain"]),
            "latency_us": middle(measured["steered"], "median_us"), "plain_latency_us": middle(measured["plain"], "median_us"), "added_us": added}


def bar(what, figure, most, unit="×"):
    return {"bar": what, "most": most, "unit": unit, **figure, "is_met": figure["high"] <= most}


def bars(rows, steering):
    """Every bar that this run can judge."""
    out = []
    for r in rows:
        ours = r["servers"].get("nameway", {})
        where = f"{r['kind']}, {r['size']} names"
        if r["size"] == COST_SIZE and r["kind"] in COST_KINDS and "by_echo" in ours:
            out.append(bar(f"cost: {where}, by the echo", ours["by_echo"], ECHO_MAX))
        if r["size"] == COST_SIZE and r["kind"] in COST_KINDS and "by_best_peer" in r:
            out.append(bar(f"cost: {where}, by {r['best_peer']}", r["by_best_peer"], PEER_MAX))
        if r["size"] == COST_SIZE and r["kind"] == "miss" and "by_dnsdist" in r:
            out.append(bar(f"miss: {where}, by dnsdist", r["by_dnsdist"], 1.0))
        if r["kind"] in COST_KINDS and r["size"] in FLAT_MAX and "by_ten_names" in r:
            out.append(bar(f"flat: {where}, by ten names", r["by_ten_names"], FLAT_MAX[r["size"]]))
    for s in steering:
        if s["kind"] in ("steered-miss", "paced-steered-miss"):
            b = bar(f"steering: {s['kind']}, by {s['against']}, at {s['qps']:.0f}/s", s["ratio"], STEERED_MAX)
            b["is_met"] = b["is_met"] and s["qps"] >= STEERED_QPS_MIN
            out.append(b)
        if s["kind"] == "single-steered-miss":
            out.append(bar("steering: one in flight, added latency", s["added_us"], SINGLE_MAX_US, "µs"))
    return out
