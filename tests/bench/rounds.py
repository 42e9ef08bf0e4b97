# SPDX-License-Identifier: GPL-3.0-or-later
"""Measuring in rounds: each server once a round, in turns forwards and backwards, so that whatever else happens on the machine meets all alike."""
import os
import shutil
import sys
import tempfile
from kinds import KINDS, STEERING_PAIRS, asked_names
from lists import write_names
from peers import PEERS
from place import Failed, Place
from servers import Echo, Nameway

TEN, PEERS_SIZE_MAX, WARM_S = 10, 1000000, 0.5


class Stand:
    """All servers for one list size. Nameway has a place of its own, because its packet rules are nobody else's cost (--table all: everybody's); a
    second nameway with ten names is what the first is compared with to see whether the size of the list matters."""

    def __init__(self, tools, source, size, options):
        self.size = size
        self.folder = tempfile.mkdtemp(prefix="nameway-bench-")
        os.chmod(self.folder, 0o755)
        self.places, self.servers = [], []
        try:
            self.list_kind = source.write(self.path("blocked"), size)
            for key, names in asked_names().items():
                write_names(self.path(key), names)
            self.build(tools, source, options)
        except BaseException:
            self.remove()
            raise

    def path(self, name):
        return os.path.join(self.folder, name)

    def place(self, tools, blocked):
        p = Place(tools)
        self.places.append(p)
        for key in ("cached", "steered"):
            p.command(f"names {key} {self.path(key)}")
        p.command(f"names blocked {blocked}")
        return p

    def build(self, tools, source, options):
        ours = self.place(tools, self.path("blocked"))
        others = ours if options.table == "all" else self.place(tools, self.path("blocked"))
        self.ours = Nameway(ours, self.folder, self.path("blocked"))
        self.start(self.ours)
        self.start(Echo(others, self.folder, None))
        for name in options.peers if self.size <= PEERS_SIZE_MAX else []:
            self.start(PEERS[name](others, self.folder, self.path("blocked")))
        if self.size != TEN:
            source.write(self.path("ten"), TEN)
            self.start(Nameway(self.place(tools, self.path("ten")), self.folder, self.path("ten"), "nameway-10"))

    def start(self, server):
        try:
            server.start()
            self.servers.append(server)
        except Failed as e:
            if isinstance(server, (Nameway, Echo)):
                raise
            print(f"note: {e}", file=sys.stderr)
            server.stop()

    def memory(self):
        out = []
        for s in self.servers:
            pss, rss = s.memory()
            if not s.is_echo and s.name != "nameway-10":
                out.append({"server": s.name, "size": self.size, "start_s": s.started_s, "pss": pss, "rss": rss})
        return out

    def remove(self):
        for p in self.places:
            p.remove()
        shutil.rmtree(self.folder, ignore_errors=True)


def in_rounds(parts, pairs, seconds):
    """`parts`: {name: (server, kind)}. Returns {name: [samples]}; a peer that fails is left out, with a note."""
    out = {}
    for name, (server, kind) in list(parts.items()):
        try:
            server.measure(kind, max(seconds, WARM_S) / KINDS[kind].seconds if KINDS[kind].window > 1 else seconds)
            out[name] = []
        except Failed as e:
            if isinstance(server, (Nameway, Echo)):
                raise
            print(f"note: {e}", file=sys.stderr)
    for i in range(pairs):
        for name in list(out) if i % 2 == 0 else reversed(list(out)):
            server, kind = parts[name]
            try:
                out[name].append(server.measure(kind, seconds))
            except Failed as e:
                if isinstance(server, (Nameway, Echo)):
                    raise
                print(f"note: {e}", file=sys.stderr)
                del out[name]
    return out


def measure_kind(stand, kind, options):
    parts = {s.name: (s, kind) for s in stand.servers}
    return {"size": stand.size, "kind": kind, "servers": in_rounds(parts, options.pairs, options.seconds)}


def measure_steering(stand, options):
    """Steered against unsteered on one nameway."""
    for steered, plain in STEERING_PAIRS:
        if steered not in options.kinds:
            continue
        r = in_rounds({"steered": (stand.ours, steered), "plain": (stand.ours, plain)}, options.pairs, options.seconds)
        yield {"size": stand.size, "kind": steered, "against": plain, **r}
