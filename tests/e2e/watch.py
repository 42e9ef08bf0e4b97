# SPDX-License-Identifier: GPL-3.0-or-later
"""One packet at a time: sent by a client, and looked for at every exit."""
import contextlib
import secrets
import select
import socket
import time

from site_net import EXITS

PORT = 7100


class Watch:
    def __init__(self, site):
        self.site = site
        self.exits = dict(EXITS)
        self.watchers = []

    def close(self):
        """Also to be called after an interface of the internet was made anew: the next packet opens the sockets again."""
        for w in self.watchers:
            w.close()
        self.watchers = []

    def open(self):
        with self.site.inside(self.site.i):
            for name, tag in self.exits.items():
                if any(w.tag == tag for w in self.watchers):
                    continue
                with contextlib.suppress(OSError):
                    w = Watcher(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
                    w.bind((name, 3))
                    w.tag = tag
                    self.watchers.append(w)

    def drain(self):
        self.open()
        for w in self.watchers:
            w.drain()

    def exit_of(self, address, ns=None, timeout=0.4, source=None, sender=None):
        """The exit at which a client's packet to the address is seen, or None. A new source port, so a new connection; or the socket given."""
        token = secrets.token_bytes(16)
        self.drain()
        s = sender or self.site.socket(ns or self.site.c, socket.AF_INET6 if ":" in address else socket.AF_INET)
        if source:
            s.bind((source, 0))
        with contextlib.suppress(OSError):
            s.sendto(token, (address, PORT))
        if not sender:
            s.close()
        return self.seen(token, timeout)

    def seen(self, token, timeout):
        end = time.monotonic() + timeout
        while (left := end - time.monotonic()) > 0:
            ready, _, _ = select.select(self.watchers, [], [], left)
            for w in ready:
                with contextlib.suppress(OSError):
                    if token in w.recv(2048):
                        return w.tag
        return None


class Watcher(socket.socket):
    tag = None

    def drain(self):
        self.setblocking(False)
        with contextlib.suppress(OSError):
            while True:
                self.recv(2048)
