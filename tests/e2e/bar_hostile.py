#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bar "hostile packets": the DNS corpora of ../shared/data/packets, and their mutants, over UDP and TCP from a client and from the upstream: no crash, no hang.

To be run with a build with sanitizers as well. Where the corpora are absent only what is made here is sent, and that is said."""
import gzip
import json
import os
import random
import socket
import struct
import threading
import time

import bars
import dnsclient
from site_net import LAN4, shared

DATA = shared("packets")


def corpora():
    """Payloads by file; empty where the data is absent."""
    found = {}
    for name in ("dns.jsonl.gz", "dns-tcp.jsonl.gz", "bind9-dns_message_parse.hex.tsv.gz", "c-ares.hex.tsv.gz"):
        path = os.path.join(DATA, name)
        if not os.path.exists(path):
            continue
        payloads = []
        with gzip.open(path, "rt", encoding="utf-8", errors="replace") as f:
            for line in f:
                text = line.rstrip("\n").split("\t")[-1]
                if text.startswith("#"):
                    continue
                if text.startswith("{"):
                    j = json.loads(text)
                    text = next((v for k, v in j.items() if isinstance(v, str) and k in ("hex", "payload", "data", "packet")), "")
                try:
                    payloads.append(bytes.fromhex(text))
                except ValueError:
                    pass
        found[name] = payloads
    return found


def made(count):
    """Our own: well-formed beginnings with every kind of end."""
    r = random.Random(7)
    result = []
    for i in range(count):
        q = b"\x03www\x04test\x00\x00\x01\x00\x01"
        m = bytearray(struct.pack("!HHHHHH", r.randrange(65536), r.choice((0x100, 0x8180, 0x2800, 0x7fff, 0)), r.choice((1, 1, 1, 0, 2, 65535)), r.choice((0, 0, 1, 65535)), 0, r.choice((0, 1, 65535))) + q)
        m += r.choice((b"", b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00", b"\xc0\x0c" * 40, r.randbytes(r.randrange(200)), b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\xff\xff" + r.randbytes(30)))
        for _ in range(i % 4):
            m[r.randrange(len(m))] = r.randrange(256)
        result.append(bytes(m[:r.choice((len(m), r.randrange(1, len(m) + 1)))]))
    return result


def mutants(payloads, count):
    r = random.Random(8)
    result = []
    for _ in range(count if payloads else 0):
        m = bytearray(r.choice(payloads)[:1400] or b"\0")
        for _ in range(r.randrange(1, 6)):
            m[r.randrange(len(m))] = r.choice((0, 1, 0x3f, 0x40, 0xc0, 0xff, r.randrange(256)))
        result.append(bytes(m))
    return result


def send_udp(s, payloads):
    c = s.site.socket(s.site.c)
    c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    for i, p in enumerate(payloads):
        c.sendto(p[:9000], (LAN4, 53))
        if i % 64 == 63:
            time.sleep(0.003)
    c.close()


def send_tcp(s, payloads):
    for i in range(0, len(payloads), 40):
        c = s.site.socket(s.site.c, kind=socket.SOCK_STREAM)
        c.settimeout(2)
        try:
            c.connect((LAN4, 53))
            for p in payloads[i:i + 40]:
                c.sendall(struct.pack("!H", min(len(p), 65535)) + p[:65535])
        except OSError:
            pass  # it may well close on us
        c.close()


class BadUpstream(threading.Thread):
    """Answers with the id and question asked and then anything."""

    def __init__(self, s, payloads):
        super().__init__(daemon=True)
        self.payloads, self.socket, self.answered = payloads, s.site.socket(s.site.i), 0
        self.socket.bind(("203.0.113.1", 53))

    def run(self):
        r = random.Random(9)
        while True:
            try:
                q, peer = self.socket.recvfrom(4096)
            except OSError:
                return
            p = bytearray(r.choice(self.payloads) or b"\0" * 12)
            end = 12
            while end < len(q) and q[end]:
                end += 1 + q[end]
            m = bytearray(q[:end + 5]) + p[min(len(p), r.choice((12, end + 5))):]
            m[2] |= 0x80
            m[6:12] = p[6:12].ljust(6, b"\1")
            m[4:6] = b"\0\1"
            self.socket.sendto(bytes(m[:4000]), peer)
            self.answered += 1


def main():
    o = bars.options(__doc__, (["--mutants"], {"type": int, "default": 60000}))
    count = 3000 if o.quick else o.mutants
    bar = bars.Bar("hostile packets", ("payloads", "answers a good question after"))
    found = corpora()
    if not found:
        bar.row("skipped: no corpora at ../shared/data/packets; only what is made here")
    found["made here"] = made(count // 3)
    found["mutants"] = mutants([p for v in found.values() for p in v], count)
    with bars.Scene(entries=2000, names=100, start=False) as s:
        s.gateway.start(60)
        for name, payloads in found.items():
            if o.quick:
                payloads = payloads[:4000]
            for how, send in (("UDP", send_udp), ("TCP", send_tcp)):
                send(s, payloads)
                start = time.monotonic()
                rcode, _ = dnsclient.ask(s.site, s.site.c, LAN4, "www.x.lan", "A", timeout=5)
                bar.row(f"{name}, {how}", len(payloads), f"{(time.monotonic() - start) * 1000:.0f} ms")
                if not bar.must(rcode == "NXDOMAIN" and s.gateway.is_running(), f"{name} over {how}: a good question got {rcode}; namewayd runs: {s.gateway.is_running()}"):
                    print(s.gateway.log_end(60))
                    return bar.finish()
        s.site.stop(s.site.processes[0])
        upstream = BadUpstream(s, [p for v in found.values() for p in v if len(p) > 12] or [b"\0" * 40])
        upstream.start()
        c = s.site.socket(s.site.c)
        asked = 1500 if o.quick else 15000
        for i in range(asked):
            name = f"d-bad{i}"
            c.sendto(struct.pack("!HHHHHH", i & 0xffff, 0x100, 1, 0, 0, 0) + bytes([len(name)]) + name.encode() + b"\4yard\0" + struct.pack("!HH", random.choice((1, 28, 65, 64, 5, 16)), 1), (LAN4, 53))
            if i % 32 == 31:
                time.sleep(0.004)
        time.sleep(1)
        rcode, _ = dnsclient.ask(s.site, s.site.c, LAN4, "www.y.lan", "A", timeout=5)
        bar.row("from the upstream", upstream.answered, "")
        bar.must(upstream.answered > asked // 2, f"the upstream was asked only {upstream.answered} times")
        bar.must(rcode == "NXDOMAIN" and s.gateway.is_running(), "after bad answers of the upstream no good question is answered")
        log = s.gateway.log_end(10000)
        bar.must("Sanitizer" not in log and "runtime error" not in log and "started again" not in log, f"the log tells of a fault:\n{log[-3000:]}")
        children = s.gateway.children()
        bar.must(set(children) == {"server", "enforcer"}, f"processes: {children}")
        c.close()
    return bar.finish()


if __name__ == "__main__":
    bars.main(main)
