#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What names cost in memory, at rest and while a list changes.

    tests/bench/memory_bench.py [--names 1M] [--changed 150] [--rounds 3] [--build build] [--quick] [--check]

Needs what bench.py needs, and a release build (`make build`). Counted are all processes of nameway: resident memory (RSS; peaks are VmHWM, set back before each
step, so a sum of peaks that need not be simultaneous) and what the kernel holds for them, from a memory cgroup made for the run; where none can be made, their page
tables. Page cache does not count, nor what the kernel needs for it: it is given up before the kernel's share is read. PSS (shared pages once) is shown beside them.
Steps: ten names; all names, from a fresh start; a few names replaced, some times; all of them replaced, some times; a start with what is in `state`. Each step
lasts until the change is in force and the compiler thread has slept for a while. The table goes to standard output, all figures and the largest mappings to
BUILD/memory_bench.json. --check is the test of `make test`: as --quick, with limits wide enough for a sanitizer without its quarantine."""
import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
from bench import ROOT, impossible, size_parse  # noqa: E402
from kinds import NXDOMAIN  # noqa: E402
from lists import WORDS, write_names  # noqa: E402
from place import Failed, Place, Tools, memory_bytes  # noqa: E402
from servers import Nameway  # noqa: E402

FEW = 10
PER_NAME_MAX, CHANGED_MAX, ALL_MAX = 20, 1.02, 2.1
CHECK_PER_NAME_MAX, CHECK_CHANGED_MAX, CHECK_ALL_MAX = 40, 1.05, 2.6
SAMPLE_S, SNAPSHOT_SHARE, LOOK_S, QUIET_LOOKS, SETTLE_MAX_S, IN_FORCE_MAX_S, ANSWER_MAX_S = 0.005, 1.05, 0.05, 40, 120, 120, 10
PAGE, MIB = os.sysconf("SC_PAGE_SIZE"), 2**20


class Names:
    """A list of made-up names. Every name is of one round, so that none comes back."""

    def __init__(self, count):
        self.rng = random.Random(count)
        self.round = 0
        self.names = [self.fresh(i) for i in range(count)]

    def fresh(self, i):
        return f"{self.rng.getrandbits(28):x}{self.round}.{self.rng.choice(WORDS)}{i % 10007}.{self.rng.choice(('com', 'net', 'example'))}"

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
                self.kernel_bytes()
                return
            except (OSError, KeyError):
                self.remove()

    def kernel_bytes(self):
        if not self.is_v2:
            with open(os.path.join(self.path, "memory.kmem.usage_in_bytes"), encoding="ascii") as f:
                return int(f.read())
        with open(os.path.join(self.path, "memory.stat"), encoding="ascii") as f:
            return int(dict(line.split() for line in f)["kernel"])

    def remove(self):
        if self.path:
            os.rmdir(self.path)
        self.path = None


def status_bytes(pid, *keys):
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
        fields = dict(line.rstrip().split(":", 1) for line in f)
    return [int(fields[k].split()[0]) * 1024 for k in keys]


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
                continue  # gone meanwhile, or a socket
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


class Usage:
    """What a nameway that runs uses: at rest, or at most during a step."""

    def __init__(self, server, cgroup):
        self.pids, self.cgroup, self.folder = server.pids, cgroup, server.folder
        self.tables_peak = self.resident_peak = self.snapshot_of = 0
        self.snapshot = None
        self.stopping = threading.Event()
        self.thread = None

    def page_tables(self):
        return sum(status_bytes(p, "VmPTE")[0] for p in self.pids)

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
        self.thread = threading.Thread(target=self.sample)
        self.thread.start()

    def is_compiling(self):
        """Whether the thread that does all work on lists does any. Processor time would not tell: it is what others leave."""
        for pid in self.pids:
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/stat", encoding="ascii", errors="replace") as f:
                    name, state = re.match(r"\d+ \((.*)\) (\S)", f.read()).groups()
                if name == "nw-compiler" and state != "S":
                    return True
        return False

    def settle(self):
        """Until the compiler thread slept at many looks in succession."""
        end, quiet = time.monotonic() + SETTLE_MAX_S, 0
        while quiet < QUIET_LOOKS:
            if time.monotonic() > end:
                raise Failed(f"still at work after {SETTLE_MAX_S} s")
            time.sleep(LOOK_S)
            quiet = 0 if self.is_compiling() else quiet + 1

    def end(self, step, in_force_s):
        self.stopping.set()
        self.thread.join()
        give_up_cache(self.folder)
        each, rss, hwm = {}, 0, 0
        for pid in self.pids:
            now, peak, tables = status_bytes(pid, "VmRSS", "VmHWM", "VmPTE")
            with open(f"/proc/{pid}/comm", encoding="utf-8") as f:
                each[f.read().strip()] = {"rss": now, "peak": peak, "page_tables": tables, "mappings": largest_mappings(pid)}
            rss, hwm = rss + now, hwm + peak
        kernel = self.cgroup.kernel_bytes() if self.cgroup.path else self.page_tables()
        # Of what the kernel holds, page tables are what grows with a peak.
        kernel_peak = kernel + max(0, self.tables_peak - self.page_tables())
        return {"step": step, "rss": rss, "pss": memory_bytes(self.pids)[0], "kernel": kernel, "total": rss + kernel, "peak": hwm + kernel_peak,
                "peak_sampled": self.resident_peak + kernel_peak, "in_force_s": in_force_s, "processes": each, "mappings_near_peak": self.snapshot}


# -- the steps -------------------------------------------------------------------------------------------------------------------------------
class Measured(Nameway):
    """A nameway in the cgroup, which can be started again with the `state` it left."""

    def __init__(self, place, folder, cgroup):
        super().__init__(place, folder, os.path.join(folder, "blocked"))
        self.cgroup, self.is_fresh = cgroup, True

    def spawn(self, argv, **kw):
        enter = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', os.path.join(self.cgroup.path, "cgroup.procs")] if self.cgroup.path else []
        return super().spawn([*enter, *argv], **kw)

    def launch(self):
        if self.is_fresh:
            return super().launch()
        return self.spawn([self.place.tools.path("namewayd"), "-c", self.path("yaml")], stdout=subprocess.PIPE, text=True)

    def is_blocked(self, name):
        """Asks for two milliseconds; where the processors were somebody else's meanwhile, again."""
        end = time.monotonic() + ANSWER_MAX_S
        while time.monotonic() < end:
            r = self.place.command(f"run 127.0.0.1 {self.port} {name} {NXDOMAIN} 0 1 1 2 0")
            if r["answered"] + r["wrong"]:
                return r["answered"] > 0
        raise Failed(f"nameway does not answer; {self.log()}")

    def wait_in_force(self, gone, come, since):
        while not self.is_blocked(come) or (gone and self.is_blocked(gone)):
            if time.monotonic() - since > IN_FORCE_MAX_S:
                raise Failed(f"{come} is not blocked, or {gone} still is, {IN_FORCE_MAX_S} s after the list changed")
            time.sleep(0.005)
        return time.monotonic() - since


class Run:
    def __init__(self, place, folder, cgroup):
        self.server, self.cgroup = Measured(place, folder, cgroup), cgroup

    def start(self, names, is_fresh):
        if is_fresh:
            write_names(self.server.blocked, names.names)
        self.server.is_fresh = is_fresh
        self.server.start()
        self.server.wait_in_force(None, names.names[-1], time.monotonic())
        # What a worker takes for its first forwarded query is no part of a step.
        self.server.is_blocked("unlisted.example")

    def rest(self, step):
        """Measures what it needs when nothing happens."""
        usage = Usage(self.server, self.cgroup)
        usage.settle()
        usage.begin()
        time.sleep(0.1)
        return self.keep(usage.end(step, None))

    def change(self, step, names, count):
        gone, come = names.replace(count)
        if self.server.is_blocked(come) or not self.server.is_blocked(gone):
            raise Failed(f"{gone} should be blocked and {come} not, before the change")
        write_names(self.server.blocked + ".new", names.names)
        usage = Usage(self.server, self.cgroup)
        usage.begin()
        since = time.monotonic()
        os.rename(self.server.blocked + ".new", self.server.blocked)
        in_force_s = self.server.wait_in_force(gone, come, since)
        usage.settle()
        return self.keep(usage.end(step, in_force_s))

    def keep(self, m):
        in_force = f"{m['in_force_s']:8.2f}" if m["in_force_s"] is not None else "        "
        each = ", ".join(f"{name} {p['rss'] / MIB:.1f}" for name, p in m["processes"].items())
        print(f"{m['step']:24} {m['rss'] / MIB:8.1f} {m['pss'] / MIB:8.1f} {m['kernel'] / MIB:7.1f} {m['total'] / MIB:8.1f} {m['peak'] / MIB:8.1f} "
              f"{m['peak_sampled'] / MIB:8.1f} {in_force}  {each}", flush=True)
        return m


def measure(run, o):
    few, names = Names(FEW), Names(o.names)
    print(f"{'MiB':24} {'RSS':>8} {'PSS':>8} {'kernel':>7} {'sum':>8} {'peak':>8} {'sampled':>8} {'in force':>8}  RSS of each process", flush=True)
    run.start(few, True)
    base = run.rest(f"{FEW} names")
    run.server.stop()
    wire_len = names.wire_len()
    run.start(names, True)
    steady = run.rest(f"{o.names} names")
    some = [run.change(f"{o.changed} changed, {i + 1}", names, o.changed) for i in range(o.rounds)]
    everything = [run.change(f"all changed, {i + 1}", names, o.names) for i in range(o.rounds)]
    run.server.stop()
    run.start(names, False)
    restarted = run.rest("started with `state`")
    run.server.stop()
    return {"base": base, "steady": steady, "wire_len": wire_len, "some": some, "everything": everything, "restarted": restarted}


def judge(o, m):
    """(what, value, limit) of each bar, the worst of its rounds."""
    per_name, changed, everything = (CHECK_PER_NAME_MAX, CHECK_CHANGED_MAX, CHECK_ALL_MAX) if o.check else (PER_NAME_MAX, CHANGED_MAX, ALL_MAX)
    base, steady = m["base"]["total"], m["steady"]["total"]
    each = lambda x: (x - base) / (o.names - FEW) - m["wire_len"]  # noqa: E731
    return [
        (f"bytes a name beyond its {m['wire_len']:.1f} in wire form, fresh start", each(steady), per_name),
        ("the same after all changed", each(max(x["total"] for x in m["everything"])), per_name),
        ("the same, started with `state`", each(m["restarted"]["total"]), per_name),
        (f"{o.changed} changed: peak / steady", max(x["peak"] for x in m["some"]) / steady, changed),
        (f"{o.changed} changed: afterwards / steady", max(x["total"] for x in m["some"]) / steady, changed),
        ("all changed: (peak - base) / (steady - base)", (max(x["peak"] for x in m["everything"]) - base) / (steady - base), everything),
    ]


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default=os.environ.get("NAMEWAY_BUILD", os.path.join(ROOT, "build")))
    p.add_argument("--names", type=size_parse, default=1000000)
    p.add_argument("--changed", type=int, default=150)
    p.add_argument("--rounds", type=int, default=3, help="of each kind of change; the worst counts")
    p.add_argument("--quick", action="store_true", help="200,000 names, one round: fixed costs weigh more, so the bars are harder")
    p.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    o = p.parse_args()
    if o.quick or o.check:
        o.names, o.rounds = 200000, 1
    if o.names <= max(o.changed, FEW) or o.changed < 1 or o.rounds < 1:
        p.error("--names is more than --changed, and all are positive")
    o.peers = []
    return o


def run_all(o):
    tools, cgroup, folder = Tools(o.build), Cgroup(), tempfile.mkdtemp(prefix="nameway-bench-")
    os.chmod(folder, 0o755)
    if not cgroup.path:
        print("note: no memory cgroup can be made here; of the kernel only page tables are counted")
    place = Place(tools)
    try:
        m = measure(Run(place, folder, cgroup), o)
    finally:
        place.remove()
        shutil.rmtree(folder, ignore_errors=True)
        cgroup.remove()
    bars = judge(o, m)
    print()
    for what, value, most in bars:
        print(f"{'MISSED' if value > most else 'held':6}  {value:6.2f}  of at most {most:5.2f}  {what}")
    with open(os.path.join(tools.build, "memory_bench.json"), "w", encoding="utf-8") as f:
        json.dump({"names": o.names, "changed": o.changed, "kernel": os.uname().release, **m, "bars": [{"what": b[0], "value": b[1], "max": b[2]} for b in bars]}, f, indent=1)
    return 1 if any(value > most for _, value, most in bars) else 0


def main():
    o = options()
    why = impossible(o)
    if why:
        print(f"memory_bench: {why}", file=sys.stderr)
        return 77
    try:
        return run_all(o)
    except Failed as e:
        print(f"memory_bench: {e}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
