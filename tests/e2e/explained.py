# SPDX-License-Identifier: GPL-3.0-or-later
"""`explain` asked by the control socket, and what it promises that a client will get, to be compared with what it does get."""
import json
import socket

import dns.exception

from site_net import IOT4, LAN4
from world import rcode, rdata

CLIENTS = {"lan": ("192.168.8.2", "br-lan"), "iot": ("192.168.20.2", "br-iot")}


def request(gateway, **kw):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(gateway.socket)
        s.sendall(json.dumps(kw).encode() + b"\n")
        data = b""
        while not data.endswith(b"\n"):
            part = s.recv(1 << 20)
            if not part:
                break
            data += part
    answer = json.loads(data)
    assert answer["ok"], answer
    return answer["result"]


def explain(w, name, rdtype="A", client="lan"):
    address, interface = CLIENTS[client]
    return request(w.gateway, verb="explain", name=name, type=rdtype, client=address, client_address=address, client_interface=interface)


def promised(e):
    """(response code, what it says) of an explanation: "empty", "zero", "own", "alias", "addresses"; None: no answer at all."""
    o = e["outcome"]
    if o.startswith("not answered"):
        return None, ""
    for begin, code, what in (("answered NXDOMAIN", "NXDOMAIN", ""), ("answered REFUSED", "REFUSED", ""), ("answered SERVFAIL", "SERVFAIL", ""), ("answered without records", "NOERROR", "empty"),
                              ("answered with the zero address", "NOERROR", "zero"), ("answered with addresses of the rule's own", "NOERROR", "own"), ("answered as an alias", "NOERROR", "alias")):
        if o.startswith(begin):
            return code, what
    assert o.startswith("answered; ") or o.startswith("answered when "), o
    if e.get("cache"):
        return {0: "NOERROR", 3: "NXDOMAIN"}[e["cache"]["rcode"]], "addresses"
    return None, "unknown"


def got(w, name, rdtype="A", client="lan"):
    try:
        return w.ask(name, rdtype, server=LAN4 if client == "lan" else IOT4, ns=w.site.c if client == "lan" else w.site.d, timeout=1.5)
    except dns.exception.Timeout:
        return None


def compare(w, name, rdtype="A", client="lan"):
    """Asks both, `explain` after the answer is known. Fails with both stories when they differ."""
    before = explain(w, name, rdtype, client)
    r = got(w, name, rdtype, client)
    e = explain(w, name, rdtype, client)
    code, what = promised(e)
    story = f"{name} {rdtype} from {client}: explain says `{e['outcome']}` ({json.dumps(e['filter'])}), before `{before['outcome']}`; the client got {r}"
    if before["filter"]["verdict"] == "block":
        assert promised(before) == (code, what), story
    if what == "unknown":
        assert r is not None and rcode(r) in ("NOERROR", "NXDOMAIN"), story
        return e, r
    assert (r is None) == (code is None), story
    if r is None:
        return e, r
    assert rcode(r) == code, story
    found = rdata(r)
    if what == "empty":
        assert not found, story
    elif what == "zero":
        assert found == (["0.0.0.0"] if rdtype == "A" else ["::"] if rdtype == "AAAA" else []), story
    elif what == "addresses":
        assert sorted(e["cache"]["addresses"]) == sorted(x for x in found if rdtype in ("A", "AAAA") and not x.endswith(".")) or rdtype not in ("A", "AAAA"), story
    elif what == "alias":
        assert found and found[0].rstrip(".") in e["outcome"], story
    return e, r
