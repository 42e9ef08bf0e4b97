#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What names cost in memory, at rest and while a list changes.

    tests/bench/memory_bench.py [--names 1000000] [--changed 150] [--rounds 3] [--build build] [--quick]

Needs root (it makes a network namespace of its own, in which everything stays) and a release build (`make build`). One list to block, followed by inotify.
Counted are all processes of nameway: resident memory (RSS; peaks are VmHWM, set back before each step, so a sum of peaks that need not be simultaneous)
and what the kernel holds for them, from a memory cgroup made for the run; where none can be made, their page tables. Page cache does not count, nor what the kernel
needs for it: it is given up before the kernel's share is read. PSS (shared pages once) is shown beside them. Steps: ten names; all names, from a fresh start; a few names replaced, some times; all of them replaced, some times; a start with what
is in `state`. Each step lasts until the change is in force and nothing has used the processor for a while. The table goes to standard output, all figures and the
largest mappings to BUILD/memory_bench.json."""
import argparse
import json
import os
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bench  # noqa: E402

FEW = 10
PER_NAME_MAX, CHANGED_MAX, ALL_MAX = 20, 1.02, 2.1
SAMPLE_S, SNAPSHOT_SHARE, QUIET_S, SETTLE_MAX_S, IN_FORCE_MAX_S = 0.005, 1.05, 3, 90, 60
PAGE = os.sysconf("SC_PAGE_SIZE")
MIB = 2**20

CONFIG = """
server: {{ listen: ["{dns}"], allow: [127.0.0.0/8], workers: 1, state: {dir}/state, control: {dir}/control.sock, user: {user} }}
upstreams: {{ default: {{ servers: ["{upstream}"] }} }}
lists: {{ big: {{ files: [{dir}/big], shrink-limit: 100% }} }}
filter: [{{ names: [big], block: nxdomain }}]
"""


# -- names -----------------------------------------------------------------------------------------------------------------------------------
class Names:
    """A list of made-up names. Every name is of one round, so that none comes back."""

    def __init__(self, count):
        self.rng = random.Random(count)
        self.round = 0
        self.names = [self.fresh(i) for i in range(count)]

    def fresh(self, i):
        return f"{self.rng.getrandbits(28):x}{self.round}.{self.rng.choice(bench.WORDS)}{i % 10007}.{self.rng.choice(('com', 'net', 'example'))}"

    def replace(self, count):
        """Replaces names all over the list; returns the last one that went and the last that came."""
        self.round += 1
        places = sorted(self.rng.sample(range(len(self.names)), count))
        gone = self.names[places[-1]]
        for i in places:
            self.names[i] = self.fresh(i)
        return gone, self.names[places[-1]]

    def wire_len(self):
        """Bytes of a name in wire form, on average: a length byte more than the text, and the root's."""
        return sum(len(n) for n in self.names) / len(self.names) + 2

    def write(self, path):
        with open(path + ".new", "w", encoding="ascii") as f:
            f.writelines(n + "\n" for n in self.names)
        renamed = time.monotonic()
        os.rename(path + ".new", path)
        return renamed


def rcode(name):
    query = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + b"".join(bytes([len(x)]) + x.encode() for x in name.split(".")) + b"\x00\x00\x01\x00\x01"
    host, port = bench.DNS.split("@")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(1)
        s.connect((host, int(port)))
        try:
            s.send(query)
            return s.recv(512)[3] & 15
        except (TimeoutError, ConnectionRefusedError):
            return None


def wait_in_force(gone, come, start):
    while rcode(come) != 3 or (gone and rcode(gone) == 3):
        if time.monotonic() - start > IN_FORCE_MAX_S:
            raise bench.Failed(f"{come} is not blocked, or {gone} still is, {IN_FORCE_MAX_S} s after the list changed")
        time.sleep(0.01)
    return time.monotonic() - start


# -- what is used ----------------------------------------------------------------------------------------------------------------------------
class Cgroup:
    """A memory cgroup for what is started, of either version; `path` is None where none can be made."""

    def __init__(self):
        self.path, self.is_v2 = None, False
        for root in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup"):
            control = os.path.join(root, "cgroup.subtree_control")
            self.is_v2 = os.path.exists(control)
            try:
                if self.is_v2:
                    with open(control, encoding="ascii") as f:
                        if "memory" not in f.read().split():
                            continue
                path = os.path.join(root, f"nameway-bench-{os.getpid()}")
                os.mkdir(path)
                self.path = path
                self.stat()
                return
            except (OSError, KeyError):
                self.remove()

    def enter(self):
        """In the child, before it becomes what is measured."""
        if self.path:
            with open(os.path.join(self.path, "cgroup.procs"), "w", encoding="ascii") as f:
                f.write("0")

    def stat(self):
        """Bytes the kernel holds, and bytes of shared memory, mapped or not."""
        with open(os.path.join(self.path, "memory.stat"), encoding="ascii") as f:
            stat = dict(line.split() for line in f)
        if self.is_v2:
            return int(stat["kernel"]), int(stat["shmem"])
        with open(os.path.join(self.path, "memory.kmem.usage_in_bytes"), encoding="ascii") as f:
            return int(f.read()), int(stat["shmem"])

    def remove(self):
        if self.path:
            os.rmdir(self.path)
        self.path = None


def status_kib(pid, *keys):
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
        fields = dict(line.rstrip().split(":", 1) for line in f)
    return [int(fields[k].split()[0]) for k in keys]


def resident(pids):
    pages = 0
    for pid in pids:
        with open(f"/proc/{pid}/statm", encoding="ascii") as f:
            pages += int(f.read().split()[1])
    return pages * PAGE


def largest_mappings(pid, count=8):
    """(name, KiB resident) of a process, mappings of one name together but for anonymous ones."""
    found, name = {}, None
    with open(f"/proc/{pid}/smaps", encoding="utf-8", errors="replace") as f:
        for line in f:
            head = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+\s*(.*)$", line)
            if head:
                size = (int(head[2], 16) - int(head[1], 16)) // 1024
                name = head[4] or f"anonymous {head[1]} of {size} KiB"
            elif line.startswith("Rss:"):
                found[name] = found.get(name, 0) + int(line.split()[1])
    return sorted(((n, k) for n, k in found.items() if k), key=lambda x: -x[1])[:count]


def give_up_cache(folder):
    """Writes a folder's files out and drops their pages, so that the kernel keeps nothing for them."""
    for where, _, files in os.walk(folder):
        for name in files:
            try:
                fd = os.open(os.path.join(where, name), os.O_RDONLY)
            except OSError:
                continue  # gone meanwhile
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


class Usage:
    """The processes of a running nameway, and what they use."""

    def __init__(self, pid, cgroup, folder):
        self.pids, self.cgroup, self.folder = bench.process_tree(pid), cgroup, folder
        self.tables_peak = self.resident_peak = self.snapshot_of = 0
        self.snapshot = None
        self.stopping = threading.Event()
        self.thread = None

    def page_tables(self):
        return sum(status_kib(p, "VmPTE")[0] for p in self.pids) * 1024

    def sample(self):
        while not self.stopping.wait(SAMPLE_S):
            now = resident(self.pids)
            self.resident_peak = max(self.resident_peak, now)
            self.tables_peak = max(self.tables_peak, self.page_tables())
            if now > self.snapshot_of * SNAPSHOT_SHARE:
                self.snapshot_of, self.snapshot = now, largest_mappings(max(self.pids, key=lambda p: resident([p])))

    def begin(self):
        """Peaks count from here."""
        for pid in self.pids:
            with open(f"/proc/{pid}/clear_refs", "w", encoding="ascii") as f:
                f.write("5")
        self.tables_peak = self.resident_peak = self.snapshot_of = 0
        self.stopping.clear()
        self.thread = threading.Thread(target=self.sample)
        self.thread.start()

    def settle(self):
        """Until no process has used the processor for a while."""
        end = time.monotonic() + SETTLE_MAX_S
        used, since = bench.cpu_seconds(self.pids), time.monotonic()
        while time.monotonic() - since < QUIET_S:
            if time.monotonic() > end:
                raise bench.Failed(f"still at work after {SETTLE_MAX_S} s")
            time.sleep(0.1)
            # A tick or two is the loop's turns.
            if bench.cpu_seconds(self.pids) - used > 2 / bench.TICK:
                used, since = bench.cpu_seconds(self.pids), time.monotonic()

    def end(self, step, in_force_s):
        self.stopping.set()
        self.thread.join()
        give_up_cache(self.folder)
        each = {}
        rss = hwm = 0
        for pid in self.pids:
            now, peak, tables = (k * 1024 for k in status_kib(pid, "VmRSS", "VmHWM", "VmPTE"))
            with open(f"/proc/{pid}/comm", encoding="utf-8") as f:
                each[f.read().strip()] = {"rss": now, "peak": peak, "page_tables": tables, "mappings": largest_mappings(pid)}
            rss, hwm = rss + now, hwm + peak
        kernel, shmem = self.cgroup.stat() if self.cgroup.path else (self.page_tables(), None)
        # Of what the kernel holds, page tables are what grows with a peak.
        kernel_peak = kernel + max(0, self.tables_peak - self.page_tables())
        return {"step": step, "rss": rss, "pss": bench.memory_bytes(self.pids)[0], "kernel": kernel, "total": rss + kernel, "peak": hwm + kernel_peak,
                "peak_sampled": self.resident_peak + kernel_peak, "in_force_s": in_force_s, "shmem": shmem, "processes": each, "mappings_near_peak": self.snapshot}


# -- the steps -------------------------------------------------------------------------------------------------------------------------------
class Run:
    def __init__(self, world, cgroup):
        self.w, self.cgroup, self.process, self.usage, self.steps = world, cgroup, None, None, []

    def start(self, is_fresh):
        if is_fresh:
            shutil.rmtree(self.w.path("state"), ignore_errors=True)
        with open(self.w.path("nameway.yaml"), "w", encoding="utf-8") as f:
            f.write(CONFIG.format(dns=bench.DNS, dir=self.w.dir, user=bench.bench_user(), upstream="%s@%d" % bench.UPSTREAM))
        with open(self.w.path("nameway.log"), "a", encoding="utf-8") as log:
            self.process = subprocess.Popen([self.w.tool("namewayd"), "-c", self.w.path("nameway.yaml")], preexec_fn=self.cgroup.enter, stdout=subprocess.PIPE, stderr=log, text=True)
        self.w.processes.append(self.process)
        if not select.select([self.process.stdout], [], [], 300)[0] or self.process.stdout.readline() != "ready\n":
            raise bench.Failed("namewayd did not become ready; its log ends:\n" + self.log_end())
        self.usage = Usage(self.process.pid, self.cgroup, self.w.dir)

    def log_end(self):
        with open(self.w.path("nameway.log"), encoding="utf-8", errors="replace") as log:
            return log.read()[-3000:]

    def stop(self):
        self.w.stop(self.process)

    def rest(self, step):
        """Measures what it needs when nothing happens."""
        self.usage.settle()
        self.usage.begin()
        time.sleep(0.1)
        return self.keep(self.usage.end(step, None))

    def change(self, step, names, count):
        gone, come = names.replace(count)
        if rcode(come) == 3 or rcode(gone) != 3:
            raise bench.Failed(f"{gone} should be blocked and {come} not, before the change")
        self.usage.begin()
        in_force_s = wait_in_force(gone, come, names.write(self.w.path("big")))
        self.usage.settle()
        return self.keep(self.usage.end(step, in_force_s))

    def keep(self, m):
        self.steps.append(m)
        in_force = f"{m['in_force_s']:8.2f}" if m["in_force_s"] is not None else "        "
        each = ", ".join(f"{name} {p['rss'] / MIB:.1f}" for name, p in m["processes"].items())
        print(f"{m['step']:24} {m['rss'] / MIB:8.1f} {m['pss'] / MIB:8.1f} {m['kernel'] / MIB:7.1f} {m['total'] / MIB:8.1f} {m['peak'] / MIB:8.1f} "
              f"{m['peak_sampled'] / MIB:8.1f} {in_force}  {each}", flush=True)
        return m


def measure(run, o):
    few, names = Names(FEW), Names(o.names)
    print(f"{'MiB':24} {'RSS':>8} {'PSS':>8} {'kernel':>7} {'sum':>8} {'peak':>8} {'sampled':>8} {'in force':>8}  RSS of each process", flush=True)
    few.write(run.w.path("big"))
    run.start(True)
    base = run.rest(f"{FEW} names")
    run.stop()
    names.write(run.w.path("big"))
    wire_len = names.wire_len()
    run.start(True)
    wait_in_force(None, names.names[-1], time.monotonic())
    steady = run.rest(f"{o.names} names")
    some = [run.change(f"{o.changed} changed, {i + 1}", names, o.changed) for i in range(o.rounds)]
    everything = [run.change(f"all changed, {i + 1}", names, o.names) for i in range(o.rounds)]
    run.stop()
    run.start(False)
    restarted = run.rest("started with `state`")
    run.stop()
    return {"base": base, "steady": steady, "wire_len": wire_len, "some": some, "everything": everything, "restarted": restarted}


def judge(o, m):
    """(what, value, limit) of each bar, the worst of its rounds."""
    base, steady = m["base"]["total"], m["steady"]["total"]
    each = lambda x: (x - base) / (o.names - FEW) - m["wire_len"]  # noqa: E731
    return [
        (f"bytes a name beyond its {m['wire_len']:.1f} in wire form, fresh start", each(steady), PER_NAME_MAX),
        ("the same after all changed", each(max(x["total"] for x in m["everything"])), PER_NAME_MAX),
        ("the same, started with `state`", each(m["restarted"]["total"]), PER_NAME_MAX),
        (f"{o.changed} changed: peak / steady", max(x["peak"] for x in m["some"]) / steady, CHANGED_MAX),
        (f"{o.changed} changed: afterwards / steady", max(x["total"] for x in m["some"]) / steady, CHANGED_MAX),
        ("all changed: (peak - base) / (steady - base)", (max(x["peak"] for x in m["everything"]) - base) / (steady - base), ALL_MAX),
    ]


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default=os.environ.get("NAMEWAY_BUILD", os.path.join(bench.ROOT, "build")))
    p.add_argument("--names", type=bench.size_parse, default=1000000)
    p.add_argument("--changed", type=int, default=150)
    p.add_argument("--rounds", type=int, default=3, help="of each kind of change; the worst counts")
    p.add_argument("--quick", action="store_true", help="200,000 names, one round: fixed costs weigh more, so the bars are harder")
    p.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    o = p.parse_args()
    if o.quick:
        o.names, o.rounds = 200000, 1
    if o.names <= max(o.changed, FEW) or o.changed < 1 or o.rounds < 1:
        p.error("--names is more than --changed, and all are positive")
    return o


def run_all(o):
    cgroup, w = Cgroup(), bench.World(o.build)
    if not cgroup.path:
        print("note: no memory cgroup can be made here; of the kernel only page tables are counted")
    try:
        w.setup()
        m = measure(Run(w, cgroup), o)
    finally:
        w.remove()
        cgroup.remove()
    bars = judge(o, m)
    missed = [b for b in bars if b[1] > b[2]]
    print()
    for what, value, most in bars:
        print(f"{'MISSED' if value > most else 'held':6}  {value:6.2f}  of at most {most:5.2f}  {what}")
    with open(os.path.join(w.build, "memory_bench.json"), "w", encoding="utf-8") as f:
        json.dump({"names": o.names, "changed": o.changed, "kernel": os.uname().release, **m, "bars": [{"what": b[0], "value": b[1], "max": b[2]} for b in bars]}, f, indent=1)
    return 1 if missed else 0


def main():
    o = options()
    why = bench.impossible()
    if why:
        print(f"memory_bench: {why}", file=sys.stderr)
        return 77
    if not o.inside:
        os.execvp("unshare", ["unshare", "--net", "--", sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--inside"])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        return run_all(o)
    except bench.Failed as e:
        print(f"memory_bench: {e}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
