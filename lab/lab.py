#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab: nameway as the gateway of a small site in network namespaces, with two tunnels, an upstream and lists.

    lab/lab.py [--once]

It asks a few names as a client would, connects, and shows by which exit each connection really came out. Then it stays up to be played with, until
Ctrl-C, which removes every trace. --once: no stay; the exit code says whether everything went the right way."""
import argparse
import os
import shutil
import signal
import socket
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tests", "e2e"))

from gateway import Gateway, server_user  # noqa: E402
from site_net import LAN4, Failed, Site, permitted, tool  # noqa: E402
import dnsclient  # noqa: E402

SERVER = """include: policy.yaml
server:
  listen: [br-lan@53, "127.0.0.1@53"]
  state: {dir}/state
  control: {dir}/control.sock
  user: {user}
  element-min: 1m
"""
CAME_FROM = {"203.0.113.2": "direct", "10.64.0.2": "tunnel 1", "10.65.0.2": "tunnel 2",
             "2001:db8:113::2": "direct", "2001:db8:64::2": "tunnel 1", "2001:db8:65::2": "tunnel 2"}
SHOW = [  # name, type, the exit it must take, why
    ("www.shop.example", "A", "direct", "in no list"),
    ("www.shop.example", "AAAA", "direct", "in no list, IPv6"),
    ("intranet.corp.example", "A", "tunnel 1", "in list tunnel1"),
    ("watch.video.example", "A", "tunnel 2", "under video.example in list tunnel2"),
    ("watch.video.example", "AAAA", "tunnel 2", "the same, IPv6"),
    ("films.example", "A", "tunnel 2", "listed, its address belongs to an unlisted alias"),
    ("my-player.example", "A", "tunnel 2", "unlisted, but an alias of a listed name"),
    ("seeds.yonder", "A", "tunnel 2", "under a listed top-level domain"),
    ("rsync.mirror.test", "A", "tunnel 2", "under mirror.test"),
    ("downloads.mirror.test", "A", "direct", "excepted from mirror.test"),
    ("no-name-known.example", "A", "tunnel 2", "unlisted, but its address is in 198.51.100.0/26"),
    ("tracker.example", "A", "blocked", "in list ads"),
    ("www.qwertzuiop.lan", "A", "local", "the local domain is answered here"),
]


class Internet(threading.Thread):
    """Port 80 of every address: says by which exit the connection came."""

    def __init__(self, site):
        super().__init__(daemon=True)
        self.sockets = []
        for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
            s = site.socket(site.i, family, socket.SOCK_STREAM)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            s.bind((address, 80))
            s.listen(64)
            self.sockets.append(s)

    def run(self):
        for s in self.sockets[1:]:
            threading.Thread(target=self.serve, args=(s,), daemon=True).start()
        self.serve(self.sockets[0])

    @staticmethod
    def serve(s):
        while True:
            try:
                c, peer = s.accept()
                with c:
                    c.sendall(f"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nyou came by {CAME_FROM.get(peer[0], peer[0])}\n".encode())
                    c.shutdown(socket.SHUT_WR)
                    c.settimeout(1)
                    c.recv(4096)
            except OSError:
                if s.fileno() < 0:
                    return


def exit_of(site, address):
    """By which exit a client's connection to the address came out."""
    with site.socket(site.c, socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM) as s:
        s.settimeout(3)
        try:
            s.connect((address, 80))
            text = b""
            while part := s.recv(4096):
                text += part
        except OSError as e:
            return f"nowhere ({e})"
    return text.decode().strip().rsplit("you came by ", 1)[-1]


def show(site):
    """The table; how many lines are not as they must be."""
    wrong = 0
    rows = [("a client asks", "", "is answered", "in", "and connects by", "")]
    for name, rdtype, expected, why in SHOW:
        start = time.monotonic()
        rcode, addresses = dnsclient.ask(site, site.c, LAN4, name, rdtype)
        took = (time.monotonic() - start) * 1000
        if addresses:
            came = exit_of(site, addresses[-1])
            answer = addresses[-1]
        else:
            answer = rcode
            came = {"blocked": "blocked", "local": "local"}.get(expected, "no address") if rcode == "NXDOMAIN" else "no address"
        is_right = came == expected
        wrong += not is_right
        rows.append((name, rdtype, answer, f"{took:.1f} ms", "-" if came in ("blocked", "local") else came, why if is_right else f"WRONG, it had to be {expected}: {why}"))
    widths = [max(len(r[i]) for r in rows) for i in range(5)]
    for r in rows:
        print("  " + "  ".join(c.ljust(w) for c, w in zip(r, widths)) + "  " + r[5])
    return wrong


def what_to_try(site, gateway):
    client, nameway = f"ip netns exec {site.c}", f"{tool('nameway')} -s {gateway.socket}"
    tries = [("ask as the client", f"{client} dig @{LAN4} watch.video.example"),
             ("connect, and be told by which exit you came", f"{client} bash -c 'exec 3<>/dev/tcp/watch.video.example/80; cat <&3'"),
             ("how nameway is", f"{nameway} status"),
             ("why a name goes where it goes", f"{nameway} explain watch.video.example --client 192.168.8.2"),
             ("the policy, with counters", f"{nameway} rules"),
             ("a live edit: connect to www.shop.example before and after", f"{nameway} list add tunnel1 www.shop.example"),
             ("a kill switch does not leak: connect while it is down", f"{nameway} way down tunnel2"),
             ("and back", f"{nameway} way up tunnel2"),
             ("the same by hand", f"ip netns exec {site.g} ip link set wg2 down"),
             ("and back", f"ip netns exec {site.g} ip link set wg2 up"),
             ("what the kernel holds", f"ip netns exec {site.g} nft list table inet nameway"),
             ("an administrator's flush passes our table by (the lab's own NAT goes, so direct connections then show the client's address)", f"ip netns exec {site.g} nft flush ruleset")]
    print("\nThe lab stays up. To try from another terminal, as root:\n")
    for what, command in tries:
        print(f"  # {what}\n  {command}")
    print(f"\nLists, which are followed: {site.dir}/lists/\nPolicy, then `reload`:      {site.dir}/policy.yaml\nThe log:                   {gateway.log_path}\n"
          "Ctrl-C ends the lab and removes every trace.", flush=True)


def give_resolver(site):
    """/etc/resolv.conf of the client's namespace, which `ip netns exec` puts in place."""
    directory = f"/etc/netns/{site.c}"
    os.makedirs(directory, exist_ok=True)
    site.traces.append(directory)
    with open(os.path.join(directory, "resolv.conf"), "w", encoding="ascii") as f:
        f.write(f"nameserver {LAN4}\n")


def run(is_once):
    print("Building the site: a client, a gateway with three exits, an internet that answers at each of them ...", flush=True)
    with Site() as site:
        give_resolver(site)
        # A link that is taken down by hand keeps its IPv6 addresses, or its way would have no IPv6 when it is back.
        site.sh(site.g, "for i in wg1 wg2; do echo 1 >/proc/sys/net/ipv6/conf/$i/keep_addr_on_down; done")
        site.upstream(ttl=30, records=os.path.join(HERE, "records"))
        Internet(site).start()
        shutil.copytree(os.path.join(HERE, "lists"), os.path.join(site.dir, "lists"))
        shutil.copy(os.path.join(HERE, "policy.yaml"), site.dir)
        gateway = Gateway(site, SERVER.format(dir=site.dir, user=server_user()))
        ready = gateway.start()
        print(f"nameway was ready {ready * 1000:.0f} ms after its start. The client asks, and connects in the moment it has the answer:\n", flush=True)
        wrong = show(site)
        print(f"\n{len(SHOW)} names, all the right way." if not wrong else f"\n{wrong} of {len(SHOW)} went the WRONG way; nameway's log ends:\n{gateway.log_end()}", flush=True)
        if not is_once:
            what_to_try(site, gateway)
            try:
                while gateway.is_running():
                    time.sleep(0.5)
                print(f"nameway has ended; its log ends:\n{gateway.log_end()}")
                wrong += 1
            except KeyboardInterrupt:
                print("\nRemoving the lab ...", flush=True)
        gateway.stop()
    return 1 if wrong else 0


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--once", action="store_true", help="show, then end; the exit code says whether all went the right way")
    o = p.parse_args()
    why = permitted()
    if why:
        print(f"The lab needs root and network namespaces: {why}.", file=sys.stderr)
        return 1
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return run(o.once)
    except Failed as e:
        print(f"The lab could not be built: {e}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
