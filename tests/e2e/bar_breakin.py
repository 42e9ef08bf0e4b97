#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bar "break-in": a stand-in for a broken packet process. It has the descriptors of the real one, which is stopped, and its user, and no capability; it is not even confined
by seccomp and landlock, so it can do more than the real one. With all that it must change no rule, mark, route, file or foreign address; after it nameway goes on."""
import contextlib
import ctypes
import hashlib
import json
import mmap
import os
import pwd
import random
import signal
import socket
import stat
import struct
import subprocess
import time

import bars
import dnsclient
from gateway import server_user
from site_net import LAN4

_libc = ctypes.CDLL(None, use_errno=True)
SO_DOMAIN, SO_TYPE, SO_MARK, IP_TRANSPARENT, IP_PKTINFO = 39, 3, 36, 19, 8
FORBIDDEN = ["192.168.8.1", "127.0.0.1", "10.65.0.1", "203.0.113.1", "224.0.0.1", "192.168.99.1", "169.254.1.1", "100.64.0.9", "::1", "fe80::1", "ff02::1", "fc00::9", "2001:db8:8::1"]


def descriptors(pid):
    """Copies of all descriptors of a process: {number there: number here}."""
    pidfd = os.pidfd_open(pid)
    found = {}
    for name in os.listdir(f"/proc/{pid}/fd"):
        fd = _libc.syscall(438, pidfd, int(name), 0)
        if fd >= 0:
            os.set_inheritable(fd, True)
            found[int(name)] = fd
    os.close(pidfd)
    return found


def snapshot(s):
    """Everything that must not change. Elements and counters are not in it."""
    ruleset = json.loads(s.site.sh(s.site.g, "nft -s -j list ruleset"))["nftables"]
    for item in ruleset:
        for what in item.values():
            if isinstance(what, dict):
                what.pop("elem", None)
                what.pop("handle", None)
                what.pop("packets", None)
                what.pop("bytes", None)
    kernel = s.site.sh(s.site.g, "ip rule; ip -6 rule; ip route show table all | sort; ip -6 route show table all | sort; ip -o addr | sed 's/valid_lft.*//'; ip -o link | sed 's/qlen.*//'; "
                                 "cat /proc/sys/net/ipv4/conf/*/rp_filter /proc/sys/net/ipv4/ip_forward; ss -Hlntu | awk '{print $1,$5}' | grep -v %wg | sort")  # it may ask for sockets of the ways

    files = {}
    for folder, _, names in os.walk(s.site.dir):
        if "/state" not in folder:
            for name in names:
                path = os.path.join(folder, name)
                if os.path.isfile(path) and not name.endswith(".log"):
                    with open(path, "rb") as f:
                        files[path] = (hashlib.sha256(f.read()).hexdigest(), os.stat(path).st_mode, os.stat(path).st_uid)
    return {"ruleset": json.dumps(ruleset, sort_keys=True), "kernel": kernel, "files": files}


def element(rule_id, address):
    raw = socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
    return struct.pack("=IIB3x16s", rule_id, 3600, 6 if ":" in address else 4, raw)


def forged_messages(rule_ids):
    """What the other ends know, and what they do not."""
    r = random.Random(5)
    for rule_id in [*rule_ids, 0, 0xffffffff, 0x12345678]:
        for a in FORBIDDEN:
            yield struct.pack("=HHI", 1, 1, 7) + element(rule_id, a)
        yield struct.pack("=HHI", 1, 200, 8) + element(rule_id, "198.18.0.1")
        yield struct.pack("=HHI", 1, 65535, 8) + element(rule_id, "198.18.0.1") * 200
        yield struct.pack("=HHIQII", 3, 65535, 9, 1 << 63, 1, 0) + element(rule_id, "198.18.0.1")
        yield struct.pack("=HHIIBBBB", 5, 65535, 10, rule_id, 9, 1, 1, 9) + b"\xff" * 64
    for kind in (100, 101, 102, 103, 104, 105):  # the parent's orders to the enforcer
        for name in (b"tunnel2", b"direct", b"x" * 64):
            yield struct.pack("=HHIHH64s", kind, 0, 1, 53, 0, name)
    for kind in range(0, 120):  # the parent's channel
        for text in (b"", b"/etc/shadow", b"../../etc/passwd", b"A" * 4096):
            yield struct.pack("=HHIiIII64s4096s", kind, r.choice((0, 1)), r.randrange(4), r.choice((0, -1)), r.randrange(5), r.randrange(5), r.randrange(4), r.choice((b"vpn", b"nolist", b"y" * 64)), text)
    for n in (0, 1, 2, 7, 8, 31, 32, 100, 4000, 8192, 60000):
        for _ in range(10):
            yield r.randbytes(n)


class StandIn:
    """Runs in a child, as the server's user. Says what it managed to do as a list of sentences."""

    def __init__(self, fds, parent, rule_ids, directory):
        self.fds, self.parent, self.rule_ids, self.directory, self.done = fds, parent, rule_ids, directory, []

    def try_it(self, what, fn):
        try:
            fn()
            self.done.append(what)
        except (OSError, ValueError, subprocess.CalledProcessError):
            pass

    def attack(self):
        for number, fd in self.fds.items():
            mode = os.fstat(fd).st_mode
            if stat.S_ISSOCK(mode):
                self.attack_socket(number, fd)
            elif stat.S_ISDIR(mode):
                self.attack_directory(number, fd)
            elif stat.S_ISREG(mode) and number > 2:
                self.attack_file(number, fd)
        self.attack_system()
        return self.done

    def attack_socket(self, number, fd):
        with socket.socket(fileno=os.dup(fd)) as s:
            domain, kind = s.getsockopt(socket.SOL_SOCKET, SO_DOMAIN), s.getsockopt(socket.SOL_SOCKET, SO_TYPE)
            if domain == socket.AF_NETLINK:
                self.done.append(f"has a netlink socket, {number}")
            elif domain == socket.AF_PACKET or kind == socket.SOCK_RAW:
                self.done.append(f"has a raw socket, {number}")
            elif domain == socket.AF_UNIX:
                s.setblocking(False)
                for message in forged_messages(self.rule_ids):
                    for _ in range(200):
                        try:
                            s.send(message, socket.MSG_NOSIGNAL)
                            break
                        except BlockingIOError:
                            time.sleep(0.002)
                            self.read_all(s)
                        except OSError:
                            break
            elif domain in (socket.AF_INET, socket.AF_INET6):
                before = s.getsockopt(socket.SOL_SOCKET, SO_MARK)
                self.try_it(f"set a mark on socket {number}", lambda: s.setsockopt(socket.SOL_SOCKET, SO_MARK, before ^ 0x1000))
                level = socket.IPPROTO_IP if domain == socket.AF_INET else socket.IPPROTO_IPV6
                self.try_it(f"made socket {number} transparent", lambda: s.setsockopt(level, IP_TRANSPARENT if level == socket.IPPROTO_IP else 75, 1))
                if kind == socket.SOCK_DGRAM and domain == socket.AF_INET:
                    foreign = struct.pack("=i4s4s", 0, socket.inet_aton("198.18.66.66"), b"\0" * 4)
                    self.try_it(f"sent from a foreign address by socket {number}", lambda: s.sendmsg([b"x" * 20], [(socket.IPPROTO_IP, IP_PKTINFO, foreign)], 0, ("192.168.8.2", 9)))

    @staticmethod
    def read_all(s):
        try:
            while True:
                s.recv(65536)
        except OSError:
            pass

    def attack_directory(self, number, fd):
        # What lies in the server's own directory is its own.
        if os.path.dirname(os.readlink(f"/proc/self/fd/{fd}")).startswith(os.path.join(self.directory, "state", "server")):
            return
        for path in ("../made-by-stand-in", "../nameway.yaml", "../lists/vpn", "../../made-by-stand-in"):
            self.try_it(f"wrote {path} by directory {number}", lambda p=path: os.close(os.open(p, os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=fd)))
        self.try_it(f"renamed the configuration by directory {number}", lambda: os.rename("../nameway.yaml", "../gone.yaml", src_dir_fd=fd, dst_dir_fd=fd))

    def attack_file(self, number, fd):
        path = os.readlink(f"/proc/self/fd/{fd}")
        if path.startswith(os.path.join(self.directory, "state")):
            return
        if "memfd" in path:
            self.try_it(f"mapped {path} for writing", lambda: mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_WRITE | mmap.PROT_READ).close())
            self.try_it(f"opened {path} for writing", lambda: os.close(os.open(f"/proc/self/fd/{fd}", os.O_RDWR)))
        self.try_it(f"wrote to {path}", lambda: os.pwrite(fd, b"x", 0))
        self.try_it(f"truncated {path}", lambda: os.ftruncate(fd, 0))

    def attack_system(self):
        for sig in (signal.SIGTERM, signal.SIGKILL):
            self.try_it("signalled the parent", lambda n=sig: os.kill(self.parent, n))
        self.try_it("wrote the parent's memory", lambda: os.close(os.open(f"/proc/{self.parent}/mem", os.O_RDWR)))
        for path in ("nameway.yaml", "lists/vpn", "new-file"):
            self.try_it(f"wrote {path}", lambda p=path: os.close(os.open(os.path.join(self.directory, p), os.O_WRONLY | os.O_CREAT, 0o644)))
        for command in ("nft add table inet broken-in", "nft delete table inet nameway", "ip rule add pref 1 lookup 99", "ip route add 198.18.9.0/24 dev wan", "ip addr add 198.18.77.77/32 dev lo",
                        "conntrack -F", "ip link set wg2 down", "echo 1 > /proc/sys/net/ipv4/conf/wg2/rp_filter"):
            self.try_it(command, lambda c=command: subprocess.run(c, shell=True, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))


def run_stand_in(s, server, parent, rule_ids):
    fds = descriptors(server)
    os.kill(server, signal.SIGSTOP)
    user = pwd.getpwnam(server_user())
    read_end, write_end = os.pipe()
    with s.site.inside(s.site.g):
        child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(read_end)
            os.setgroups([])
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)
            _libc.prctl(38, 1, 0, 0, 0)
            os.write(write_end, json.dumps(StandIn(fds, parent, rule_ids, s.site.dir).attack()).encode())
            code = 0
        except BaseException as e:  # pylint: disable=broad-except
            os.write(write_end, json.dumps([f"itself failed: {e!r}"]).encode())
        finally:
            os._exit(code)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as f:
        done = json.loads(f.read() or b"[]")
    os.waitpid(child, 0)
    for fd in fds.values():
        os.close(fd)
    return len(fds), done


def main():
    o = bars.options(__doc__)
    del o
    bar = bars.Bar("break-in", ("",))
    with bars.Scene(entries=2000, names=200) as s:
        dnsclient.ask(s.site, s.site.c, LAN4, "t2-x." + s.lists.vpn[0], "A")
        time.sleep(1.2)
        sets = [x["set"]["name"] for x in json.loads(s.site.sh(s.site.g, "nft -j list sets inet"))["nftables"] if x.get("set", {}).get("table") == "nameway"]
        rule_ids = sorted({int(n[1:9], 16) for n in sets if n[0] == "r"})
        children, before = s.gateway.children(), snapshot(s)
        count, done = run_stand_in(s, children["server"], s.gateway.p.pid, rule_ids)
        time.sleep(1)
        after = snapshot(s)
        bar.row(f"descriptors taken over: {count}; forged messages for each channel: {sum(1 for _ in forged_messages(rule_ids))}")
        for what in done:
            bar.must(False, f"the stand-in {what}")
        for part in before:
            if not bar.must(before[part] == after[part], f"changed: {part}"):
                old, new = str(before[part]).splitlines(), str(after[part]).splitlines()
                for line in [x for x in new if x not in old][:10]:
                    bar.row(f"  new: {line[:300]}")
                for line in [x for x in old if x not in new][:10]:
                    bar.row(f"  gone: {line[:300]}")
        for a in FORBIDDEN:
            held = [n for n in sets if n[0] == "r" and n.endswith("_6" if ":" in a else "_4") and s.is_in_set(n, a)]
            bar.must(not held, f"{a} was put into {held}")
        bar.must(s.gateway.is_running(), "the parent ended")
        bar.must(s.gateway.children().get("enforcer") == children["enforcer"], "the enforcer was brought down")
        with contextlib.suppress(ProcessLookupError):
            os.kill(children["server"], signal.SIGKILL)
        start = time.monotonic()
        rcode = ""
        while rcode != "NOERROR" and time.monotonic() - start < 10:
            rcode, found = dnsclient.ask(s.site, s.site.c, LAN4, "t2-after." + s.lists.vpn[1], "A", timeout=0.3)
        bar.must(rcode == "NOERROR" and all(s.watch.exit_of(a) == "2" for a in found), f"after it, with a new packet process: {rcode}")
        bar.row(f"a new packet process answered after {time.monotonic() - start:.2f} s")
        if bar.missed:
            print(s.gateway.log_end())
    return bar.finish()


if __name__ == "__main__":
    bars.main(main)
