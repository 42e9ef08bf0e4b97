# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is measured: the common part of a server under test, nameway, and the bare echo. peers.py has the others."""
import os
import select
import shutil
import subprocess
import time
from place import UPSTREAM, Failed, cpu_seconds, memory_bytes, process_tree
from kinds import KINDS, STEERED_DOMAIN

LOSS_MAX, TRIES = 0.005, 3
START_MAX_S = 600


class Server:
    """One server, started in a place for one list. `name` is what the tables call it, `port` where it answers on 127.0.0.1."""
    name, port, is_echo = "", 0, False

    def __init__(self, place, folder, blocked):
        self.place, self.folder, self.blocked = place, folder, blocked
        self.process, self.pids, self.started_s = None, [], 0.0

    def path(self, name):
        return os.path.join(self.folder, f"{self.name}-{name}")

    def write(self, name, text):
        with open(self.path(name), "w", encoding="ascii") as f:
            f.write(text)
        return self.path(name)

    def names(self):
        with open(self.blocked, encoding="ascii") as f:
            for line in f:
                yield line.rstrip("\n")

    def launch(self):
        """Starts the process and returns it."""
        raise NotImplementedError

    def start(self):
        begin = time.monotonic()
        self.process = self.launch()
        self.wait()
        self.started_s = time.monotonic() - begin
        self.pids = process_tree(self.process.pid)

    def wait(self):
        """Until it answers; one that loads a list before it opens its port takes a while."""
        line = f"run 127.0.0.1 {self.port} www.*.lan -1 0 1 1 20 0"
        end = time.monotonic() + START_MAX_S
        while not self.place.command(line)["answered"]:
            if self.process.poll() is not None or time.monotonic() > end:
                raise Failed(f"{self.name} did not begin to answer; {self.log()}")

    def log(self):
        path = self.path("log")
        if not os.path.exists(path):
            return "it has no log"
        with open(path, encoding="utf-8", errors="replace") as f:
            return "its log ends:\n" + f.read()[-2000:]

    def spawn(self, argv, **kw):
        with open(self.path("log"), "w", encoding="utf-8") as log:
            return self.place.start(argv, stderr=log, **{"stdout": log, **kw})

    def stop(self):
        if self.process:
            self.place.stop(self.process)
            self.process = None

    def memory(self):
        return memory_bytes(self.pids)

    def measure(self, kind, seconds):
        """One measurement: CPU-us of all its processes for an answered query, and what the load saw. Where other work on the machine made the kernel
        lose packets it is taken again."""
        k = KINDS[kind]
        for _ in range(TRIES):
            before = cpu_seconds(self.pids)
            r = self.place.command(k.command("127.0.0.1", self.port, seconds, self.is_echo))
            used_s = cpu_seconds(self.pids) - before
            if r["wrong"] > LOSS_MAX * r["sent"]:
                raise Failed(f"{self.name}, {k.title}: {r['wrong']} of {r['sent']} answers were wrong, the first with RCODE {r['wrong_rcode']}; {self.log()}")
            if r["answered"] and r["lost"] <= LOSS_MAX * r["sent"]:
                return {"us": used_s * 1e6 / r["answered"], "qps": r["answered"] / r["elapsed_s"], "busy": used_s / r["elapsed_s"], "lost": r["lost"],
                        "median_us": r["median_us"], "p99_us": r["p99_us"]}
        raise Failed(f"{self.name}, {k.title}: {r['lost']} of {r['sent']} queries were lost, and {TRIES - 1} times before; {self.log()}")


class Echo(Server):
    """The floor: a recvmmsg, a sendmmsg, no work."""
    name, port, is_echo = "echo", 5304, True

    def launch(self):
        return self.spawn([self.place.tools.path("nw-echo"), "-a", "127.0.0.1", str(self.port)])


NAMEWAY_CONFIG = """
server: {{ listen: ["127.0.0.1@{port}"], allow: [127.0.0.0/8], workers: 1, state: {state}, control: {folder}/{name}.sock, user: {user}, element-min: 5s }}
upstreams: {{ default: {{ servers: ["{upstream}"] }} }}
cache: {{ size: 256MiB }}
local: {{ domain: lan }}
lists: {{ blocked: {{ files: [{blocked}] }}, steered: {{ files: [{steered}] }} }}
ways: {{ tunnel: {{ interface: nwb0, mark: 0x1000 }} }}
filter: [{{ names: [blocked], block: nxdomain }}]
steer: [{{ names: [steered], way: tunnel }}]
"""


def bench_user():
    """A user for the process that parses packets; root only where there is no other."""
    with open("/etc/passwd", encoding="utf-8", errors="replace") as f:
        users = {line.split(":")[0] for line in f}
    return next((u for u in ("nameway", "nobody") if u in users), "root")


class Nameway(Server):
    """One worker, its table in the kernel, one steer rule."""
    port = 5300

    def __init__(self, place, folder, blocked, name="nameway"):
        super().__init__(place, folder, blocked)
        self.name = name

    def launch(self):
        state = self.path("state")
        shutil.rmtree(state, ignore_errors=True)
        steered = self.write("steered", f"{STEERED_DOMAIN}\n")
        config = self.write("yaml", NAMEWAY_CONFIG.format(port=self.port, state=state, folder=self.folder, name=self.name, user=bench_user(),
                                                          upstream="%s@%d" % UPSTREAM, blocked=self.blocked, steered=steered))
        return self.spawn([self.place.tools.path("namewayd"), "-c", config], stdout=subprocess.PIPE, text=True)

    def wait(self):
        out = self.process.stdout
        if not select.select([out], [], [], START_MAX_S)[0] or out.readline() != "ready\n":
            raise Failed(f"namewayd did not become ready; {self.log()}")
