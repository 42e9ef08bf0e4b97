# SPDX-License-Identifier: GPL-3.0-or-later
"""Tunnel 2 as a real WireGuard tunnel (wireguard-go, so no kernel module is needed): a point-to-point interface without Ethernet, whose life is told by its handshakes."""
import contextlib
import os
import shutil
import socket
import subprocess
import time

from gateway import Gateway
from test_steer import leaves_by
from world import World, ede, rcode


class Tunnel:
    """Both ends. The names are this process's own: the control sockets of wireguard-go lie in one directory for all namespaces."""

    def __init__(self, w):
        self.w, self.site = w, w.site
        self.names = {self.site.g: f"wg{os.getpid()}g", self.site.i: f"wg{os.getpid()}i"}
        self.keys = {ns: self.key() for ns in self.names}
        # The interface goes with its program, and so does the socket.
        for ns, name in self.names.items():
            self.site.start(ns, ["env", "WG_PROCESS_FOREGROUND=1", "LOG_LEVEL=silent", "wireguard-go", "-f", name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for ns, name in self.names.items():
            assert w.wait(lambda n=name: os.path.exists(f"/var/run/wireguard/{n}.sock"), 5) is not None, "wireguard-go did not start"
            self.wg(ns, f"listen-port 51820 private-key {self.write('private', self.keys[ns][0])}")
        self.peers()
        for ns, n in ((self.site.g, 2), (self.site.i, 1)):
            self.site.batch(ns, f"link set {self.names[ns]} mtu 1380 up\n addr add 10.65.0.{n}/24 dev {self.names[ns]}\n addr add 2001:db8:65::{n}/64 dev {self.names[ns]} nodad")

    def key(self):
        private = subprocess.run(["wg", "genkey"], stdout=subprocess.PIPE, text=True, check=True).stdout
        return private.strip(), subprocess.run(["wg", "pubkey"], input=private, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()

    def write(self, name, text):
        path = os.path.join(self.site.dir, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as f:
            f.write(text + "\n")
        return path

    def wg(self, ns, text):
        self.site.sh(ns, f"wg set {self.names[ns]} {text}")

    def peers(self):
        """Introduces the ends to each other; a handshake follows."""
        for ns, other, address in ((self.site.g, self.site.i, "203.0.113.1"), (self.site.i, self.site.g, "203.0.113.2")):
            self.wg(ns, f"peer {self.keys[other][1]} remove")
            self.wg(ns, f"peer {self.keys[other][1]} endpoint {address}:51820 allowed-ips 0.0.0.0/0,::/0 persistent-keepalive 1")

    def remove(self):
        for name in self.names.values():
            with contextlib.suppress(OSError):
                os.unlink(f"/var/run/wireguard/{name}.sock")


@contextlib.contextmanager
def world(way=""):
    if not shutil.which("wireguard-go") or not shutil.which("wg") or not os.path.exists("/dev/net/tun"):
        import run
        raise run.Skipped("wireguard-go is not installed, or there is no /dev/net/tun")
    with World() as w:
        w.site.tunnel_delete(2)
        tunnel = Tunnel(w)
        try:
            w.watch.exits = {"wan": "0", "t1": "1", tunnel.names[w.site.i]: "2"}
            w.upstream = w.site.upstream(log=w.upstream_log)
            text = w.config().replace('interface: wg2, mark: 0x1000, upstream: t2dns, gateway: [10.65.0.1, "2001:db8:65::1"], masquerade: true', f"interface: {tunnel.names[w.site.g]}, mark: 0x1000, upstream: t2dns{way}")
            assert tunnel.names[w.site.g] in text
            w.gateway = Gateway(w.site, text)
            w.gateway.start()
            yield w, tunnel
        finally:
            tunnel.remove()


def test_steering_into_it():
    with world() as (w, _):
        for name, tag in (("t2-two.test", "2"), ("t1-one.test", "1"), ("d-x.yard", "0"), ("c2.t2-x.listed.example.via.d-alias.yard", "2")):
            leaves_by(w, name, tag)
        assert w.exit_of("198.51.100.3") == "2" and w.exit_of("2001:db8:e000::3") == "2"


def test_answers_come_back_and_segments_are_clamped():
    """Masquerading and the MSS clamp are on by themselves on a point-to-point interface."""
    with world() as (w, _):
        (a,) = w.addresses("ip-c6130191.t2-two.test")
        server = w.site.socket(w.site.i, kind=socket.SOCK_STREAM)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((a, 7500))
        server.listen()
        server.settimeout(3)
        client = w.site.socket(w.site.c, kind=socket.SOCK_STREAM)
        client.settimeout(3)
        client.connect((a, 7500))
        there, peer = server.accept()
        assert peer[0] == "10.65.0.2", f"not masqueraded: {peer}"
        assert there.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG) <= 1340, f"segments of {there.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)} bytes into a tunnel of 1380"
        there.sendall(b"x" * 300000)
        got = 0
        while got < 300000:
            part = client.recv(65536)
            assert part, "the connection broke"
            got += len(part)
        for s in (server, client, there):
            s.close()


def test_endpoint_and_upstream_never_enter_a_set():
    with world() as (w, _):
        for a in ("ip-cb007101", "ip-0a410001"):
            assert rcode(w.ask(f"{a}.t2-two.test")) == "NOERROR"
        for a in ("203.0.113.1", "10.65.0.1"):
            assert not w.set_of(a), f"{a} is in a set: the tunnel would go through itself"


def test_way_whose_handshake_is_old_is_down():
    with world(", check: { handshake-age: 10s }") as (w, tunnel):
        assert w.wait(lambda: w.ask("t2-two.test").answer, 4, 0.2) is not None
        leaves_by(w, "t2-two.test", "2")
        # Nothing new is said for two minutes, so by this limit it grows too old.
        took = w.wait(lambda: rcode(r := w.ask("t2-two.test")) == "SERVFAIL" and ede(r) == 23, 20, 0.3)
        assert took is not None, "the handshake is older than the limit, and the way still counts as up"
        assert w.exit_of("198.51.100.3") is None, "it leaked"
        time.sleep(0.5)
        tunnel.peers()
        assert w.wait(lambda: w.ask("t2-two.test").answer, 8, 0.2) is not None, "a new handshake does not bring it back"
        leaves_by(w, "t2-two.test", "2")
