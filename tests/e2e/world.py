# SPDX-License-Identifier: GPL-3.0-or-later
"""A small world for one functional test: a site, an upstream, lists of a few names, nameway, and short ways to ask and to look."""
import json
import os
import socket
import time

import dns.edns
import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype

from gateway import STEER, Gateway, config_text
from site_net import LAN4, Failed, Site
from watch import Watch

VPN = ["t2-two.test", "both.test", "listed.example", "zonka", "!d-free.listed.example", "198.51.100.0/28", "2001:db8:e000::/48"]


class World:
    def __init__(self, iot=True, **site_options):
        self.site = Site(iot=iot, **site_options)
        self.lists_dir = os.path.join(self.site.dir, "lists")
        os.mkdir(self.lists_dir)
        self.upstream_log = os.path.join(self.site.dir, "asked-upstream")
        self.write_list("vpn1", ["t1-one.test", "both.test"])
        self.write_list("vpn", VPN)
        self.watch = Watch(self.site)
        self.gateway = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.watch.close()
        self.site.remove()

    def write_list(self, name, lines):
        path = os.path.join(self.lists_dir, name)
        with open(path + ".new", "w", encoding="utf-8") as f:
            f.write("\n".join(lines) + "\n")
        os.rename(path + ".new", path)

    def config(self, **kw):
        return config_text(self.site, self.lists_dir, **kw)

    def start(self, ttl=60, records=None, upstream=True, **kw):
        """Upstream and nameway, ready."""
        if upstream:
            self.upstream = self.site.upstream(ttl=ttl, log=self.upstream_log, records=records)
        self.gateway = Gateway(self.site, self.config(**kw))
        self.gateway.start()
        return self.gateway

    # -- asking ------------------------------------------------------------------------------------------------------------------------------

    def ask(self, name, rdtype="A", tcp=False, server=LAN4, ns=None, timeout=6.0, do=False):
        """One question from a client; the answer as dnspython has it."""
        q = dns.message.make_query(name, rdtype, use_edns=0, want_dnssec=do)
        family = socket.AF_INET6 if ":" in server else socket.AF_INET
        with self.site.socket(ns or self.site.c, family, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM) as s:
            if tcp:
                s.settimeout(timeout)
                s.connect((server, 53))
                return dns.query.tcp(q, server, timeout, sock=s)
            s.setblocking(False)
            return dns.query.udp(q, server, timeout, sock=s)

    def addresses(self, name, rdtype="A", **kw):
        r = self.ask(name, rdtype, **kw)
        return sorted(d.address for rr in r.answer if rr.rdtype == dns.rdatatype.from_text(rdtype) for d in rr)

    def asked_upstream(self):
        """What reached the upstream so far: (name, type, transport, address)."""
        with open(self.upstream_log, encoding="ascii") as f:
            return [(n, dns.rdatatype.to_text(int(t)), how, where) for n, t, how, where in (line.split() for line in f)]

    # -- looking -----------------------------------------------------------------------------------------------------------------------------

    def exit_of(self, address, **kw):
        return self.watch.exit_of(address, **kw)

    def forget_watchers(self):
        self.watch.close()

    def set_of(self, address):
        """The nft sets of nameway's table that hold the address now."""
        found = []
        for name in self.sets():
            if self.site.ok(self.site.g, f"nft get element inet nameway {name} '{{ {address} }}' 2>/dev/null"):
                found.append(name)
        return found

    def sets(self):
        """Address sets of nameway's table."""
        found = json.loads(self.site.sh(self.site.g, "nft -j list sets inet") or "{}")["nftables"]
        return [x["set"]["name"] for x in found if x.get("set", {}).get("table") == "nameway" and x["set"]["type"] in ("ipv4_addr", "ipv6_addr")]

    def wait(self, condition, timeout=3.0, step=0.02):
        """The seconds until it held, or None."""
        start = time.monotonic()
        while True:
            if condition():
                return time.monotonic() - start
            if time.monotonic() - start > timeout:
                return None
            time.sleep(step)


def rcode(response):
    return dns.rcode.to_text(response.rcode())


def ede(response):
    """The code of the extended error, or None; nameway puts one on every answer of its own."""
    for o in response.options:
        if o.otype == dns.edns.EDE:
            return int(o.code)
    return None


def rdata(response, section="answer"):
    return [d.to_text() for rr in getattr(response, section) for d in rr]


__all__ = ["World", "VPN", "STEER", "Failed", "rcode", "ede", "rdata"]
