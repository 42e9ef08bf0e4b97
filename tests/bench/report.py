# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables on standard output."""
from kinds import KINDS


def size_text(n):
    return f"{n // 1000000}M" if n and n % 1000000 == 0 else f"{n // 1000}k" if n and n % 1000 == 0 else str(n)


def with_interval(f):
    return f"{f['median']:.2f} [{f['low']:.2f}, {f['high']:.2f}]" if f else "-"


def print_head():
    print(f"{'names':>5}  {'kind':22} {'server':11} {'CPU-us':>7}  {'× echo [95 %]':20} {'queries/s':>9} {'busy':>5}  nameway by it")


def print_row(row, measured, ratio):
    """One line a server, ours last."""
    names = sorted(row["servers"], key=lambda n: (n.startswith("nameway"), n != "echo", n))
    for name in names:
        f = row["servers"][name]
        against = with_interval(ratio(measured["servers"]["nameway"], measured["servers"][name])) if name != "nameway" and "nameway" in names else ""
        print(f"{size_text(row['size']):>5}  {KINDS[row['kind']].title:22} {name:11} {f['us']:7.2f}  {with_interval(f.get('by_echo')):20} {f['qps']:9.0f} "
              f"{f['busy'] * 100:4.0f}%  {against}{'  <- best peer' if name == row['best_peer'] else ''}", flush=True)


def print_steering(row):
    print(f"{size_text(row['size']):>5}  {KINDS[row['kind']].title:28} {row['us']:7.2f} CPU-us, unsteered {row['plain_us']:.2f}: {with_interval(row['ratio'])}; {row['qps']:.0f}/s; "
          f"median latency {row['latency_us']:.0f} us, unsteered {row['plain_latency_us']:.0f}", flush=True)


def print_memory(memory):
    print(f"\n{'server':11} {'names':>9} {'start s':>8} {'PSS MiB':>8} {'RSS MiB':>8}  bytes a name, over the smallest list")
    least = {}
    for m in sorted(memory, key=lambda m: (m["server"], m["size"])):
        base = least.setdefault(m["server"], m)
        more = m["size"] - base["size"]
        each = f"{(m['pss'] - base['pss']) / more:.1f}" if more > 0 else "-"
        print(f"{m['server']:11} {m['size']:9} {m['start_s']:8.2f} {m['pss'] / 2**20:8.1f} {m['rss'] / 2**20:8.1f}  {each}")


def print_bars(bars):
    if bars:
        print("\nbars (the upper end of the 95 % interval counts)")
    for b in bars:
        print(f"  {'met   ' if b['is_met'] else 'MISSED'} {b['bar']}: {with_interval(b)} {b['unit']}, at most {b['most']:.2f}")
