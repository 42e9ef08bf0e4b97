# SPDX-License-Identifier: GPL-3.0-or-later
"""A world whose upstreams are told what to do: silent, failing, slow, shut, and back again."""
import os
import socket

import dns.rdatatype

from site_net import DNS_T1, DNS_T2, DNS_WAN, LAN4, Failed
from world import World

SECOND, SPLIT = "198.51.100.53", "198.51.100.54"  # the internet has all of 198.51.100.0/24


class Upstream:
    """One nw-upstream: what it is told, what it was asked."""

    def __init__(self, site, name, log_questions=True, **kw):
        self.site, self.name = site, name
        self.log_path, self.control = os.path.join(site.dir, name + ".log"), os.path.join(site.dir, name + ".sock")
        self.p = site.upstream(log=self.log_path if log_questions else None, control=self.control, **kw)

    def tell(self, line):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.control)
            s.sendall(line.encode() + b"\n")
            if s.recv(8) != b"ok\n":
                raise Failed(f"the upstream does not know `{line}`")

    def asked(self, name=None):
        """(name, type, transport, address) of each question so far, but for probes of the root."""
        with open(self.log_path, encoding="ascii") as f:
            lines = [line.rstrip("\n").split(" ") for line in f if line.endswith("\n")]
        found = [(n.rstrip("."), dns.rdatatype.to_text(int(t)), how, where) for n, t, how, where in lines]
        return [x for x in found if x[0] and (name is None or x[0] == name)]

    def count(self, name=None, rdtype=None):
        return sum(1 for x in self.asked(name) if rdtype is None or x[1] == rdtype)


class ForwardWorld(World):
    """`first` answers for the ways' resolvers too; `second` and `split` by themselves, when asked for."""

    def begin(self, ttl=60, second=False, split=False, **kw):
        self.first = Upstream(self.site, "first", ttl=ttl, addresses=(DNS_WAN, DNS_T1, DNS_T2))
        self.second = Upstream(self.site, "second", ttl=ttl, addresses=(SECOND,)) if second else None
        self.split = Upstream(self.site, "split", ttl=ttl, addresses=(SPLIT,)) if split else None
        if second:
            kw.setdefault("servers", f"{DNS_WAN}, {SECOND}")
        return self.start(upstream=False, **kw)

    def counters(self):
        return self.gateway.verb("status")["counters"]

    def kdig(self, *args, timeout=8):
        """What kdig prints, the answers' order and all."""
        return self.site.sh(self.site.c, f"kdig @{LAN4} +edns=0 +timeout={timeout} +retry=0 {' '.join(args)}", check=False)
