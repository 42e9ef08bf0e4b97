# SPDX-License-Identifier: GPL-3.0-or-later
"""One DNS question with nothing but the standard library, for the lab, which must not need more than Python."""
import secrets
import socket
import struct

TYPES = {"A": 1, "AAAA": 28}
RCODES = {0: "NOERROR", 2: "SERVFAIL", 3: "NXDOMAIN", 5: "REFUSED"}


def _skip_name(m, at):
    while m[at]:
        if m[at] >= 0xc0:
            return at + 2
        at += 1 + m[at]
    return at + 1


def ask(site, ns, server, name, rdtype, timeout=5):
    """(response code, addresses) of one question over UDP from a namespace; ("no answer", []) after the timeout."""
    number = secrets.randbelow(65536)
    question = b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0" + struct.pack("!HH", TYPES[rdtype], 1)
    with site.socket(ns, socket.AF_INET6 if ":" in server else socket.AF_INET) as s:
        s.settimeout(timeout)
        s.connect((server, 53))
        s.send(struct.pack("!HHHHHH", number, 0x100, 1, 0, 0, 0) + question)
        try:
            m = s.recv(4096)
        except OSError:
            return "no answer", []
    _, flags, _, answers = struct.unpack("!HHHH", m[:8])
    at, found = 12 + len(question), []
    for _ in range(answers):
        at = _skip_name(m, at)
        kind, _, _, size = struct.unpack("!HHIH", m[at:at + 10])
        at += 10
        if kind == TYPES[rdtype]:
            found.append(socket.inet_ntop(socket.AF_INET if size == 4 else socket.AF_INET6, m[at:at + size]))
        at += size
    return RCODES.get(flags & 15, f"RCODE{flags & 15}"), found
