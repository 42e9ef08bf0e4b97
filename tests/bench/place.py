# SPDX-License-Identifier: GPL-3.0-or-later
"""Where servers are measured: a place is a network namespace of its own, with the load and its upstream in it. It is gone when its processes are."""
import ctypes
import json
import os
import select
import signal
import subprocess
import time

SERVER_CPU, LOAD_CPU = 0, 1
UPSTREAM = ("127.0.0.2", 5310)
ANSWER_MAX_S = 120


class Failed(Exception):
    """What ends the run, to be shown to the user."""


def on_cpu(cpu):
    """For a child process: on this processor, and not outliving us."""
    libc = ctypes.CDLL(None, use_errno=True)

    def prepare():
        os.sched_setaffinity(0, {cpu})
        libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG

    return prepare


def stop_process(p):
    if p.poll() is None:
        p.send_signal(signal.SIGTERM)
    try:
        p.wait(20)
    except subprocess.TimeoutExpired:
        p.kill()
        p.wait()


class Place:
    """A namespace with loopback, a veth pair for a way to lead to, and the load."""

    def __init__(self, tools):
        self.tools = tools
        self.processes = []
        setup = "ip link set lo up && ip link add nwb0 type veth peer name nwb1 && ip addr add 10.99.0.1/24 dev nwb0 && ip link set nwb0 up && ip link set nwb1 up"
        argv = ["unshare", "--net", "--", "sh", "-c", f'{setup} && exec "$0" "$@"', tools.path("nw-bench-load"), UPSTREAM[0], str(UPSTREAM[1])]
        self.load = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, preexec_fn=on_cpu(LOAD_CPU))
        if self.load.stdout.readline() != "ready\n":
            raise Failed("the load could not be started in a network namespace")

    def command(self, line):
        """One command to the load, and its answer."""
        self.load.stdin.write(line + "\n")
        if not select.select([self.load.stdout], [], [], ANSWER_MAX_S)[0]:
            raise Failed(f"the load does not answer: {line}")
        answer = self.load.stdout.readline()
        r = json.loads(answer) if answer else {"error": "it has ended"}
        if "error" in r:
            raise Failed(f"load: {line}: {r['error']}")
        return r

    def start(self, argv, **kw):
        p = subprocess.Popen(["nsenter", f"--net=/proc/{self.load.pid}/ns/net", "--", *argv], preexec_fn=on_cpu(SERVER_CPU), **kw)
        self.processes.append(p)
        return p

    def stop(self, p):
        stop_process(p)
        if p in self.processes:
            self.processes.remove(p)

    def remove(self):
        for p in list(self.processes):
            self.stop(p)
        self.load.stdin.close()
        stop_process(self.load)


class Tools:
    """Our programs in a build directory."""

    def __init__(self, build):
        self.build = os.path.abspath(build)

    def path(self, name):
        for folder in ("", "src/cli", "src/daemon", "tests/bench"):
            path = os.path.join(self.build, folder, name)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return path
        raise Failed(f"{name} is not in {self.build}: run `make bench`")


# -- what processes have used ---------------------------------------------------------------------------------------------------------------
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
    """User and system time of all threads, those that have ended included, to the nanosecond: the kernel's CPU clocks of processes."""
    try:
        return sum(time.clock_gettime((~pid << 3) | 2) for pid in pids)
    except OSError as e:
        raise Failed("a server under test has ended") from e


def memory_bytes(pids):
    """Resident memory: of all with shared pages counted once (PSS), and the largest process's RSS."""
    pss = rss = 0
    for pid in pids:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
            fields = dict(line.split(":", 1) for line in f.read().splitlines()[1:])
        pss += int(fields["Pss"].split()[0]) * 1024
        rss = max(rss, int(fields["Rss"].split()[0]) * 1024)
    return pss, rss
