# SPDX-License-Identifier: GPL-3.0-or-later
"""A site in network namespaces: clients, a gateway with three exits, and an internet that answers every address at every exit, so that a packet
that takes the wrong exit is seen there instead of being lost.

    client c (192.168.8.2)  -- br-lan                      wan -- wan \\
    client d (192.168.20.2) -- br-iot   gateway g          wg1 -- t1   > internet i: 198.18.0.0/15, 198.51.100.0/24, 192.0.2.0/24,
                                                           wg2 -- t2  /  2001:db8:e000::/35, all local, and the resolvers

Everything is removed at exit, also after an exception or a signal; what a killed run left is removed by the next one. Namespaces bear the
process's number, so runs beside each other never meet. Only ip(8) and nft(8) are needed, and root."""
import atexit
import contextlib
import ctypes
import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXITS = {"wan": "0", "t1": "1", "t2": "2"}
LAN4, LAN6 = "192.168.8.1", "2001:db8:8::1"
IOT4, IOT6 = "192.168.20.1", "2001:db8:20::1"
DNS_WAN, DNS_T1, DNS_T2 = "203.0.113.1", "10.64.0.1", "10.65.0.1"
_libc = ctypes.CDLL(None, use_errno=True)


class Failed(Exception):
    """The site could not be built, or a tool in it failed: not a verdict about nameway."""


def build_dir():
    return os.environ.get("NAMEWAY_BUILD", os.path.join(ROOT, "build"))


def tool(name):
    """A program of the build: the daemon and the tool from its top, what tests use from tests/."""
    for folder in ("", "tests/e2e", "tests/bench", "src/daemon", "src/cli"):
        path = os.path.join(build_dir(), folder, name)
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    raise Failed(f"{name} is not in {build_dir()}; build first (`make build`), or set NAMEWAY_BUILD to a build directory")


def shared(*path):
    """A path of the real inputs beside the project; it need not exist. NAMEWAY_SHARED says where else they are."""
    return os.path.join(os.environ.get("NAMEWAY_SHARED", os.path.join(os.path.dirname(ROOT), "shared")), "data", *path)


def run(argv, check=True, **kw):
    p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kw)
    if check and p.returncode:
        raise Failed(f"`{' '.join(argv)}` failed: {p.stdout.strip()}")
    return p


def _die_with_parent():
    _libc.prctl(1, signal.SIGKILL)


def _raise_exit(number, frame):
    sys.exit(128 + number)


def permitted():
    """None, or why sites cannot be built here."""
    if os.geteuid() != 0:
        return "not root"
    name = f"nw{os.getpid()}-try"
    if run(["ip", "netns", "add", name], check=False).returncode:
        return "network namespaces are not permitted"
    run(["ip", "netns", "del", name], check=False)
    return None


class Site:
    def __init__(self, iot=False, tunnel_ipv6=(True, True), rp_filter=None, tunnel_type="veth"):
        self.id = f"nw{os.getpid()}"
        self.c, self.d, self.g, self.i = (f"{self.id}-{x}" for x in "cdgi")
        self.has_iot = iot
        self.tunnel_ipv6 = tunnel_ipv6
        self.rp_filter = rp_filter
        self.tunnel_type = tunnel_type
        self.processes = []
        self.traces = []  # directories outside of self.dir that go with the site
        self.is_removed = False
        self.dir = tempfile.mkdtemp(prefix=f"nameway-e2e-{os.getpid()}-")
        os.chmod(self.dir, 0o755)
        atexit.register(self.remove)
        signal.signal(signal.SIGTERM, _raise_exit)
        signal.signal(signal.SIGHUP, _raise_exit)
        _sweep()
        self._build()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()

    # -- building ------------------------------------------------------------------------------------------------------------------------------

    def batch(self, ns, text):
        """Lines of ip(8) commands in a namespace, in one process."""
        lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
        run(["ip", "-n", ns, "-batch", "-"], input="\n".join(lines) + "\n")

    def _build(self):
        for ns in (self.c, self.d, self.g, self.i):
            run(["ip", "netns", "add", ns])
        for ns in (self.c, self.d, self.g, self.i):
            self.set(ns, {"net/ipv6/conf/all/accept_dad": 0, "net/ipv6/conf/default/accept_dad": 0})
            self.batch(ns, "link set lo up")
        self.set(self.g, {"net/ipv4/ip_forward": 1, "net/ipv6/conf/all/forwarding": 1, "net/ipv6/conf/default/forwarding": 1,
                          "net/netfilter/nf_conntrack_udp_timeout": 5, "net/netfilter/nf_conntrack_udp_timeout_stream": 20,
                          "net/netfilter/nf_conntrack_tcp_timeout_syn_sent": 5})
        if self.rp_filter is not None:
            self.set(self.g, {"net/ipv4/conf/all/rp_filter": self.rp_filter, "net/ipv4/conf/default/rp_filter": self.rp_filter})
        self._lan("br-lan", self.c, LAN4, LAN6)
        self._lan("br-iot", self.d, IOT4, IOT6)
        self._exit("wan", "wan", 0)
        self.tunnel_make(1)
        self.tunnel_make(2)
        self.batch(self.g, f"""
            route add default via {DNS_WAN} dev wan
            route add default via 2001:db8:113::1 dev wan""")
        self.batch(self.i, """
            route add local 198.18.0.0/15 dev lo
            route add local 198.51.100.0/24 dev lo
            route add local 192.0.2.0/24 dev lo
            route add local 2001:db8:e000::/35 dev lo
            route add 192.168.0.0/16 via 203.0.113.2 dev wan
            route add 2001:db8:8::/64 via 2001:db8:113::2 dev wan
            route add 2001:db8:20::/64 via 2001:db8:113::2 dev wan""")
        self.nft(self.g, "table inet site { chain post { type nat hook postrouting priority srcnat; oifname \"wan\" masquerade; }\n }")
        # Packets for the counters have been seen when they come this far; no answer is wanted.
        self.nft(self.i, "table inet quiet { chain in { type filter hook input priority 0; meta l4proto { tcp, udp } th dport 7000-7003 drop; }\n }")
        self._meet()

    def _meet(self):
        """Neighbours learn each other's addresses now: packets that wait for that can be lost, and that is no fault of nameway."""
        hops = {self.c: (LAN4, LAN6), self.d: (IOT4, IOT6), self.g: (DNS_WAN, DNS_T1, DNS_T2, "2001:db8:113::1", "2001:db8:64::1", "2001:db8:65::1", "192.168.8.2", "2001:db8:8::2"),
                self.i: ("203.0.113.2", "10.64.0.2", "10.65.0.2", "2001:db8:113::2", "2001:db8:64::2", "2001:db8:65::2")}
        for ns, addresses in hops.items():
            for a in addresses:
                with self.socket(ns, socket.AF_INET6 if ":" in a else socket.AF_INET) as s, contextlib.suppress(OSError):
                    s.sendto(b"", (a, 9))
        time.sleep(0.1)

    def _lan(self, name, ns, v4, v6):
        self.batch(self.g, f"""
            link add {name} type veth peer name eth0 netns {ns}
            addr add {v4}/24 dev {name}
            addr add {v6}/64 dev {name} nodad
            link set {name} up""")
        self.batch(ns, f"""
            addr add {v4[:-1]}2/24 dev eth0
            addr add {v6[:-1]}2/64 dev eth0 nodad
            link set eth0 up
            route add default via {v4}
            route add default via {v6}""")

    def _exit(self, name, peer, number, ipv6=True):
        v4 = f"10.{63 + number}.0." if number else "203.0.113."
        v6 = f"2001:db8:{63 + number}::" if number else "2001:db8:113::"
        six = [f"addr add {v6}{n}/64 dev {d} nodad" if ipv6 else "" for n, d in ((2, name), (1, peer))]
        self.batch(self.g, f"""
            link add {name} type veth peer name {peer} netns {self.i}
            addr add {v4}2/24 dev {name}
            {six[0]}
            link set {name} up""")
        self.batch(self.i, f"""
            addr add {v4}1/24 dev {peer}
            {six[1]}
            link set {peer} up""")

    def tunnel_make(self, number):
        self._exit(f"wg{number}", f"t{number}", number, self.tunnel_ipv6[number - 1])

    def tunnel_delete(self, number):
        self.batch(self.g, f"link del wg{number}")

    def set(self, ns, values):
        """Kernel settings of a namespace: those in /proc/sys belong to whoever opens them there."""
        with self.inside(ns):
            for name, value in values.items():
                with open("/proc/sys/" + name, "w", encoding="ascii") as f:
                    f.write(str(value))

    def get(self, ns, name):
        with self.inside(ns), open("/proc/sys/" + name, encoding="ascii") as f:
            return f.read().strip()

    @contextlib.contextmanager
    def inside(self, ns):
        """This thread in a namespace: sockets made here stay there."""
        with open("/proc/self/ns/net", "rb") as before, open(f"/run/netns/{ns}", "rb") as there:
            if _libc.setns(there.fileno(), 0x40000000):
                raise Failed(f"setns {ns}: {os.strerror(ctypes.get_errno())}")
            try:
                yield
            finally:
                _libc.setns(before.fileno(), 0x40000000)

    # -- running things in it ------------------------------------------------------------------------------------------------------------------

    def sh(self, ns, command, check=True):
        """A shell line in a namespace; its output."""
        return run(["ip", "netns", "exec", ns, "sh", "-c", command], check=check).stdout

    def ok(self, ns, command):
        return run(["ip", "netns", "exec", ns, "sh", "-c", command], check=False).returncode == 0

    def nft(self, ns, text):
        run(["ip", "netns", "exec", ns, "nft", "-f", "-"], input=text)

    def start(self, ns, argv, **kw):
        kw.setdefault("stdout", subprocess.PIPE)
        p = subprocess.Popen(["ip", "netns", "exec", ns, *argv], preexec_fn=_die_with_parent, text=True, **kw)
        self.processes.append(p)
        return p

    def upstream(self, ttl=60, records=None, log=None, addresses=(DNS_WAN, DNS_T1, DNS_T2), control=None):
        argv = [tool("nw-upstream"), "-t", str(ttl)]
        for a in addresses:
            argv += ["-a", a]
        argv += ["-f", records] if records else []
        argv += ["-l", log] if log else []
        argv += ["-c", control] if control else []
        p = self.start(self.i, argv)
        if p.stdout.readline() != "ready\n":
            raise Failed("the upstream did not start")
        return p

    def counter(self):
        return Counter(self)

    def stop(self, p, sig=signal.SIGTERM, timeout=10):
        """Ends a process that was started here, and waits for it. Its exit code."""
        if p.poll() is None:
            p.send_signal(sig)
        try:
            return p.wait(timeout)
        except subprocess.TimeoutExpired:
            p.kill()
            return p.wait()

    def socket(self, ns, family=socket.AF_INET, kind=socket.SOCK_DGRAM):
        with self.inside(ns):
            return socket.socket(family, kind)

    # -- the end -------------------------------------------------------------------------------------------------------------------------------

    def remove(self):
        if self.is_removed:
            return
        self.is_removed = True
        for p in self.processes:
            if p.poll() is None:
                p.kill()
        for p in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                p.wait(5)
        for ns in (self.c, self.d, self.g, self.i):
            _namespace_remove(ns)
        for directory in (self.dir, *self.traces):
            shutil.rmtree(directory, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rmdir("/etc/netns")
        atexit.unregister(self.remove)


def _namespace_remove(ns):
    if not os.path.exists(f"/run/netns/{ns}"):
        return
    for _ in range(20):
        pids = run(["ip", "netns", "pids", ns], check=False).stdout.split()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, ValueError):
                os.kill(int(pid), signal.SIGKILL)
        if not pids:
            break
        time.sleep(0.05)
    run(["ip", "netns", "del", ns], check=False)


def _sweep():
    """What runs that were killed have left behind."""
    for path in glob.glob(os.path.join(tempfile.gettempdir(), "nameway-e2e-*-*")):
        if not os.path.exists("/proc/" + os.path.basename(path).split("-")[2]):
            shutil.rmtree(path, ignore_errors=True)
    if not os.path.isdir("/run/netns"):
        return
    for ns in os.listdir("/run/netns"):
        pid = ns[2:].split("-")[0]
        if ns.startswith("nw") and "-" in ns and pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
            _namespace_remove(ns)
            shutil.rmtree(f"/etc/netns/{ns}", ignore_errors=True)


class Counter:
    """nw-exitcount on the far side of all exits."""

    def __init__(self, site):
        self.site = site
        self.start()

    def start(self):
        self.p = self.site.start(self.site.i, [tool("nw-exitcount")] + [f"{name}={tag}" for name, tag in EXITS.items()], stdin=subprocess.PIPE, bufsize=1)
        if not json.loads(self.p.stdout.readline() or "{}").get("ready"):
            raise Failed("nw-exitcount did not start")

    def _command(self, line):
        self.p.stdin.write(line + "\n")
        return json.loads(self.p.stdout.readline())

    def snap(self, settle=0.2):
        time.sleep(settle)
        return self._command("snap")

    def reset(self):
        self._command("reset")


def ask_names(site, ns, names, count, servers=(LAN4, LAN6), rate=1500, tcp=0, mix=None, pass_number=0, wait_ms=3000, syn_every=20, learnt=None):
    """Starts nw-exitclient; `result(p)` waits for it."""
    argv = [tool("nw-exitclient"), "-f", names, "-n", str(count), "-r", str(rate), "-T", str(tcp), "-P", str(pass_number), "-w", str(wait_ms), "-y", str(syn_every)]
    for s in servers:
        argv += ["-s", s]
    argv += ["-m", mix] if mix else []
    argv += ["-O", learnt] if learnt else []
    return site.start(ns, argv)


def hold_flows(site, ns, learnt, seconds, rate=200):
    """Packets to known addresses, no questions: what clients do who asked earlier."""
    return site.start(ns, [tool("nw-exitclient"), "-F", learnt, "-d", str(seconds), "-r", str(rate)])


def result(p, timeout=600):
    out, _ = p.communicate(timeout=timeout)
    if p.returncode:
        raise Failed(f"{' '.join(p.args)} failed with {p.returncode}: {out}")
    return json.loads(out)
