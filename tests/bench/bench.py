#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a query costs: nameway beside a bare UDP echo, in one run, as the ratio of interleaved pairs.

    tests/bench/bench.py [--sizes 10,30k,1M] [--pairs 10] [--seconds 1.5] [--kinds blocked,miss,...] [--build build]

Needs root (it makes a network namespace of its own, in which everything stays), two processors and a build with nw-echo and nw-upstream
(`make bench` does all of it). Server and echo run on the first processor, the load generator and the scripted upstream on the second. The load
is `nameway load flood` with a window, so that the server always has queries waiting and loses none. CPU time is user and system time of all
processes of a server, from /proc/PID/stat. Each pair is one measurement of the server and one of the echo, in alternating order; the figure is
the median of the pairs' ratios, with a 95 % interval by bootstrap. A measurement whose answers are not what the kind demands ends the run.
The table goes to standard output, all figures to BUILD/bench.json."""
import argparse
import json
import os
import random
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SERVER_CPU, LOAD_CPU = 0, 1
DNS, UPSTREAM, ECHO_PORT = "127.0.0.1@5300", ("127.0.0.2", 5301), 5302
TICK = os.sysconf("SC_CLK_TCK")
WINDOW, LOSS_MAX_PERCENT, SAMPLE, CACHED_NAMES = 256, 0.5, 50000, 100


class Failed(Exception):
    pass


# -- what is asked ---------------------------------------------------------------------------------------------------------------------------
# kind: what the load asks, and the only RCODE that counts as right.
KINDS = {
    "blocked": {"title": "blocked", "load": lambda w: ["--names", w.path("ask-blocked")], "rcode": "NXDOMAIN"},
    "local": {"title": "local NXDOMAIN", "load": lambda w: ["--name", "www.<10>.lan"], "rcode": "NXDOMAIN"},
    "cached": {"title": "cached answer", "load": lambda w: ["--names", w.path("ask-cached")], "rcode": "NOERROR"},
    "steered": {"title": "steered cached answer", "load": lambda w: ["--names", w.path("ask-steered")], "rcode": "NOERROR"},
    "miss": {"title": "forwarded miss", "load": lambda w: ["--name", f"m{w.next_run()}x<#>.miss.example"], "rcode": "NOERROR"},
}


class World:
    """The files, the namespace's link and the upstream that every server shares."""

    def __init__(self, build):
        self.build = os.path.abspath(build)
        self.dir = tempfile.mkdtemp(prefix="nameway-bench-")
        os.chmod(self.dir, 0o755)
        self.processes = []
        self.runs = 0
        self.size = 0

    def path(self, name):
        return os.path.join(self.dir, name)

    def tool(self, name):
        for folder in ("", "src/cli", "src/daemon", "tests/bench", "tests/e2e"):
            path = os.path.join(self.build, folder, name)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return path
        raise Failed(f"{name} is not in {self.build}: run `make bench`")

    def next_run(self):
        """Misses must be new names in every measurement."""
        self.runs += 1
        return self.runs

    def start(self, argv, cpu, **kw):
        p = subprocess.Popen(argv, preexec_fn=lambda: os.sched_setaffinity(0, {cpu}), **kw)
        self.processes.append(p)
        return p

    def stop(self, p):
        if p.poll() is None:
            p.send_signal(signal.SIGTERM)
        try:
            p.wait(20)
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()
        if p in self.processes:
            self.processes.remove(p)

    def setup(self):
        for line in ("link set lo up", "link add nwb0 type veth peer name nwb1", "addr add 10.99.0.1/24 dev nwb0", "link set nwb0 up", "link set nwb1 up"):
            subprocess.run(["ip", *line.split()], check=True)
        self.start([self.tool("nw-upstream"), "-a", UPSTREAM[0], "-p", str(UPSTREAM[1]), "-t", "3600"], LOAD_CPU, stdout=subprocess.DEVNULL)
        with open(self.path("ask-cached"), "w", encoding="ascii") as f:
            f.writelines(f"c{i}.cached.example\n" for i in range(CACHED_NAMES))

    def make_lists(self, size):
        """Two lists of `size` names each, one to block and one to steer by, and samples of them to ask for."""
        self.size = size
        for list_name, tld in (("blocked", "com"), ("steered", "net")):
            rng = random.Random(f"{list_name}{size}")
            names = [f"{rng.getrandbits(40):x}{i:x}.{rng.choice(WORDS)}{rng.getrandbits(12)}.{tld}" for i in range(size)]
            with open(self.path(list_name), "w", encoding="ascii") as f:
                f.writelines(n + "\n" for n in names)
            few = rng.sample(names, min(len(names), SAMPLE if list_name == "blocked" else CACHED_NAMES))
            with open(self.path(f"ask-{list_name}"), "w", encoding="ascii") as f:
                f.writelines(n + "\n" for n in few)

    def remove(self):
        for p in list(self.processes):
            self.stop(p)
        shutil.rmtree(self.dir, ignore_errors=True)


WORDS = ("ads", "track", "metrics", "cdn", "pixel", "static", "media", "shop", "news", "mail", "video", "img", "click", "stat", "api", "edge")


# -- who is measured -------------------------------------------------------------------------------------------------------------------------
NAMEWAY_CONFIG = """
server: {{ listen: ["{dns}"], allow: [127.0.0.0/8], workers: 1, state: {dir}/state, control: {dir}/control.sock, user: {user} }}
upstreams: {{ default: {{ servers: ["{upstream}"] }} }}
cache: {{ size: 256MiB }}
local: {{ domain: lan }}
lists: {{ blocked: {{ files: [{dir}/blocked] }}, steered: {{ files: [{dir}/steered] }} }}
ways: {{ tunnel: {{ interface: nwb0, mark: 0x1000 }} }}
filter: [{{ names: [blocked], block: nxdomain }}]
steer: [{{ names: [steered], way: tunnel }}]
"""


def bench_user():
    """A user for the process that parses packets; root only where there is no other."""
    with open("/etc/passwd", encoding="utf-8", errors="replace") as f:
        users = {line.split(":")[0] for line in f}
    return next((u for u in ("nameway", "nobody") if u in users), "root")


def start_nameway(w):
    shutil.rmtree(w.path("state"), ignore_errors=True)
    with open(w.path("nameway.yaml"), "w", encoding="utf-8") as f:
        f.write(NAMEWAY_CONFIG.format(dns=DNS, dir=w.dir, user=bench_user(), upstream="%s@%d" % UPSTREAM))
    with open(w.path("nameway.log"), "w", encoding="utf-8") as log:
        p = w.start([w.tool("namewayd"), "-c", w.path("nameway.yaml")], SERVER_CPU, stdout=subprocess.PIPE, stderr=log, text=True)
    if not select.select([p.stdout], [], [], 300)[0] or p.stdout.readline() != "ready\n":
        with open(w.path("nameway.log"), encoding="utf-8", errors="replace") as log:
            raise Failed("namewayd did not become ready; its log ends:\n" + log.read()[-3000:])
    return p


# name, how it is started (returns its first process, serving), where it answers, what it is measured with. Peers are further lines.
SERVERS = [
    {"name": "nameway", "start": start_nameway, "server": DNS, "kinds": ["blocked", "local", "cached", "steered", "miss"]},
]


def start_echo(w):
    p = w.start([w.tool("nw-echo"), "-a", "127.0.0.1", str(ECHO_PORT)], SERVER_CPU, stdout=subprocess.DEVNULL)
    time.sleep(0.2)
    return p


# -- measuring -------------------------------------------------------------------------------------------------------------------------------
def process_tree(pid):
    """A process and all that came from it."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as f:
                    parents[int(entry)] = int(f.read().rsplit(")", 1)[1].split()[1])
            except OSError:
                pass
    tree = [pid]
    for p in tree:
        tree += [child for child, parent in parents.items() if parent == p]
    return tree


def cpu_seconds(pids):
    ticks = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / TICK


def memory_bytes(pids):
    """Resident memory: of the whole tree with shared pages counted once (PSS), and the largest process's RSS."""
    pss = rss = 0
    for pid in pids:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
            fields = dict(line.split(":", 1) for line in f.read().splitlines()[1:])
        pss += int(fields["Pss"].split()[0]) * 1024
        rss = max(rss, int(fields["Rss"].split()[0]) * 1024)
    return pss, rss


def flood(w, server, kind, seconds):
    argv = [w.tool("nameway"), "load", "flood", "--server", server, "--rate", "1000000", "--window", str(WINDOW), "--duration", f"{int(seconds * 1000)}ms",
            "--timeout", "3s", "--json", *KINDS[kind]["load"](w)]
    p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=lambda: os.sched_setaffinity(0, {LOAD_CPU}), timeout=seconds + 60)
    if p.returncode:
        raise Failed(f"{' '.join(argv)}: {p.stderr.strip() or 'nothing was answered'}")
    return json.loads(p.stdout)


def measure(w, pids, server, kind, seconds, is_echo):
    """CPU-us per answered query and queries a second."""
    before = cpu_seconds(pids)
    r = flood(w, server, kind, seconds)
    used = cpu_seconds(pids) - before
    lost = r["lost"] - r["unsent"]
    if lost > LOSS_MAX_PERCENT / 100 * r["sent"]:
        raise Failed(f"{kind}: {lost} of {r['sent']} queries were lost; rcodes {r['rcodes']}")
    wrong = 0 if is_echo else r["answered"] - r["rcodes"].get(KINDS[kind]["rcode"], 0)
    if wrong > LOSS_MAX_PERCENT / 100 * r["answered"]:
        raise Failed(f"{kind}: {wrong} of {r['answered']} answers were not {KINDS[kind]['rcode']}: {r['rcodes']}")
    return {"us": used * 1e6 / r["answered"], "qps": r["answered_per_second"], "busy": used / r["elapsed_s"], "lost": lost, "p99_us": r["latency_us"]["p99"]}


def interval(ratios):
    """The median and its 95 % interval by bootstrap, with a fixed seed."""
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(4000))
    return statistics.median(ratios), medians[100], medians[3899]


def compare(w, server, pids, echo_pids, kind, o):
    flood(w, server["server"], kind, 0.5)
    pairs = []
    for i in range(o.pairs):
        both = {}
        for who in ("server", "echo") if i % 2 == 0 else ("echo", "server"):
            both[who] = measure(w, pids, server["server"], kind, o.seconds, False) if who == "server" else \
                measure(w, echo_pids, f"127.0.0.1@{ECHO_PORT}", kind, o.seconds, True)
        pairs.append(both)
    ratio, low, high = interval([p["server"]["us"] / p["echo"]["us"] for p in pairs])
    middle = lambda who, key: statistics.median(p[who][key] for p in pairs)  # noqa: E731
    return {"server": server["name"], "size": w.size, "kind": kind, "us": middle("server", "us"), "echo_us": middle("echo", "us"), "ratio": ratio, "ratio_low": low,
            "ratio_high": high, "qps": middle("server", "qps"), "echo_qps": middle("echo", "qps"), "busy": middle("server", "busy"), "pairs": pairs}


def print_row(row):
    print(f"{row['server']:10} {size_text(row['size']):>5}  {KINDS[row['kind']]['title']:22} {row['us']:8.2f} {row['echo_us']:8.2f}  "
          f"{row['ratio']:6.2f} [{row['ratio_low']:.2f}, {row['ratio_high']:.2f}]  {row['qps']:9.0f} {row['busy'] * 100:5.0f} %", flush=True)


def run_server(w, server, echo_pids, o, result):
    start = time.monotonic()
    p = server["start"](w)
    started = time.monotonic() - start
    try:
        pids = process_tree(p.pid)
        pss, rss = memory_bytes(pids)
        result["memory"].append({"server": server["name"], "size": w.size, "names": 2 * w.size, "start_s": started, "pss": pss, "rss": rss})
        for kind in [k for k in o.kinds if k in server["kinds"]]:
            row = compare(w, server, pids, echo_pids, kind, o)
            result["rows"].append(row)
            print_row(row)
    finally:
        w.stop(p)


def print_memory(memory):
    print(f"\n{'server':10} {'names':>9} {'start s':>8} {'PSS MiB':>8} {'RSS MiB':>8}  bytes a name, over the smallest list")
    base = {}
    for m in memory:
        least = base.setdefault(m["server"], m)
        more = m["names"] - least["names"]
        each = f"{(m['rss'] - least['rss']) / more:.1f}" if more > 0 else "-"
        print(f"{m['server']:10} {m['names']:9} {m['start_s']:8.2f} {m['pss'] / 2**20:8.1f} {m['rss'] / 2**20:8.1f}  {each}")


# -- the run ---------------------------------------------------------------------------------------------------------------------------------
def size_parse(text):
    unit = {"k": 1000, "M": 1000000}.get(text[-1:], 1)
    return int(text[:-1] if unit > 1 else text) * unit


def size_text(n):
    return f"{n // 1000000}M" if n and n % 1000000 == 0 else f"{n // 1000}k" if n and n % 1000 == 0 else str(n)


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default=os.path.join(ROOT, "build"))
    p.add_argument("--sizes", default="10,30k,1M", help="names in each of two lists, one blocked and one steered by (10,30k,1M; 10M works and takes minutes)")
    p.add_argument("--pairs", type=int, default=10)
    p.add_argument("--seconds", type=float, default=1.5, help="of each measurement")
    p.add_argument("--kinds", default=",".join(KINDS))
    p.add_argument("--quick", action="store_true", help="three pairs of half a second, without the million")
    p.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    o = p.parse_args()
    if o.quick:
        o.sizes, o.pairs, o.seconds = "10,30k", 3, 0.5
    o.sizes = [size_parse(s) for s in o.sizes.split(",")]
    o.kinds = o.kinds.split(",")
    if set(o.kinds) - set(KINDS):
        p.error(f"kinds are {', '.join(KINDS)}")
    return o


def impossible():
    """Why it cannot run here, or None."""
    if os.geteuid() != 0:
        return "it needs root, for a network namespace and nftables"
    if not {SERVER_CPU, LOAD_CPU} <= os.sched_getaffinity(0):
        return "it needs two processors: one for the server, one for the load"
    if not shutil.which("ip") or not shutil.which("unshare"):
        return "it needs ip(8) and unshare(1)"
    return None


def run_all(o):
    result = {"sizes": o.sizes, "pairs": o.pairs, "seconds": o.seconds, "window": WINDOW, "kernel": os.uname().release, "load_before": os.getloadavg()[0],
              "rows": [], "memory": []}
    if result["load_before"] > 0.5:
        print(f"note: the load average is {result['load_before']:.1f}: other work here makes the figures noisy")
    w = World(o.build)
    try:
        w.setup()
        echo_pids = [start_echo(w).pid]
        print(f"{'server':10} {'names':>5}  {'kind':22} {'CPU-us':>8} {'echo':>8}   ratio [95 %]          queries/s  busy")
        for size in o.sizes:
            w.make_lists(size)
            for server in SERVERS:
                run_server(w, server, echo_pids, o, result)
        print_memory(result["memory"])
    finally:
        w.remove()
    with open(os.path.join(w.build, "bench.json"), "w", encoding="utf-8") as f:
        json.dump(result, f, indent=1)


def main():
    o = options()
    why = impossible()
    if why:
        print(f"bench: {why}", file=sys.stderr)
        return 77
    if not o.inside:
        os.execvp("unshare", ["unshare", "--net", "--", sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--inside"])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        run_all(o)
    except Failed as e:
        print(f"bench: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
