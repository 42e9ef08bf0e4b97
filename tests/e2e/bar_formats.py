#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bar "formats agree": the same published list in several formats gives one verdict, name for name, over DNS; and 2.6 million names load.

Each format is a list of its own with a rule of its own for one of the client's addresses, so a name asked from each address is judged by each format. Asked are the listed names,
names under them, the names above, siblings, and popular names. Published adblock cases are asked as well. Lists and cases lie in ../shared/data; without it there is nothing to do."""
import gzip
import os
import random
import select
import socket
import sys
import time

import bars
import dnsclient
from gateway import Gateway, config_text
from site_net import LAN4, Site, shared

TABLE = {"neodevhost": (("domains/neodevhost.domains", "domains"), ("hosts/neodevhost.hosts", "hosts"), ("dnsmasq/neodevhost.dnsmasq.conf", "dnsmasq"), ("adblock/neodevhost.adblock", "adblock")),
         "blp-tracking": (("domains/blp-tracking.domains", "domains"), ("adblock/blp-tracking.adblock", "adblock")),
         "nordic": (("hosts/nordic.hosts", "hosts"), ("hosts/nordic-ipv6.hosts", "hosts"), ("dnsmasq/nordic.dnsmasq.conf", "dnsmasq"), ("adblock/nordic-AGH.adblock", "adblock"))}
SAME_NAMES = ("neodevhost", "blp-tracking")  # nordic's texts hold different names: those in all of them are judged
WINDOW = 256


def read(name):
    with gzip.open(shared("lists", name + ".gz"), "rt", encoding="utf-8-sig", errors="replace") as f:
        return f.read()


def is_name(n):
    return "." in n and len(n) < 230 and all(c.isalnum() or c in "-_." for c in n) and not n.replace(".", "").isdigit() and n.isascii() and all(0 < len(x) < 64 for x in n.split("."))


def plain_names(text, form):
    """The names of a text, read as simply as can be: a second opinion."""
    found = []
    for line in text.splitlines():
        line = line.split("#")[0].strip().lower()
        if form == "hosts":
            found += line.split()[1:]
        elif form == "adblock":
            found += [line[2:-1]] if line.startswith("||") and line.endswith("^") else []
        elif form == "dnsmasq":
            found += line.split("/")[1:-1] if line.startswith(("address=", "server=", "local=")) else []
        elif line:
            found.append(line)
    return [n for n in found if is_name(n)]


def exempted(text):
    """What an adblock text takes out again, for which the other formats have no words."""
    return [line[4:-1] for line in text.split() if line.startswith("@@||") and line.endswith("^")]


class Asker:
    """Names from one address, many in flight: REFUSED is listed, an address is not."""

    def __init__(self, site, address):
        self.socket = site.socket(site.c)
        self.socket.bind((address, 0))
        self.socket.connect((LAN4, 53))
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)

    @staticmethod
    def question(number, name):
        q = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
        return bytes([number >> 8, number & 255]) + b"\1\0\0\1\0\0\0\0\0\0" + q + b"\0\0\1\0\1"

    def ask(self, names):
        """Whether each name is listed; a name without an answer is asked again, at most four times."""
        result, waiting = {}, list(names)
        for _ in range(4):
            self._once(waiting, result)
            waiting = [n for n in waiting if n not in result]
            if not waiting:
                return result
        raise AssertionError(f"{len(waiting)} names got no answer, the first {waiting[:3]}")

    def _once(self, names, result):
        out, at = {}, 0
        while at < len(names) or out:
            while at < len(names) and len(out) < WINDOW:
                number = at & 0xffff
                out[number] = names[at]
                try:
                    self.socket.send(self.question(number, names[at]))
                except BlockingIOError:
                    break
                at += 1
            if not select.select([self.socket], [], [], 1)[0]:
                if at >= len(names):
                    return
                out.clear()
            while True:
                try:
                    m = self.socket.recv(4096)
                except BlockingIOError:
                    break
                name = out.pop(m[0] << 8 | m[1], None)
                if name is not None and m[3] & 15 in (0, 3, 5):
                    result[name] = m[3] & 15 == 5


def variants(name):
    labels = name.split(".")
    return [name, "deep.under." + name, ".".join(labels[1:]) if len(labels) > 2 else name, "not" + name[:200] if len(labels[0]) < 60 else name, "zz-sibling." + ".".join(labels[1:])]


def agree(bar, o, name, formats):
    texts = [(read(path), form) for path, form in formats]
    members = [set(plain_names(text, form)) for text, form in texts]
    exempt = tuple(n for text, form in texts if form == "adblock" for n in exempted(text))
    common = sorted(n for n in set.intersection(*members) if not n.endswith(exempt) or not any(n == x or n.endswith("." + x) for x in exempt))
    r = random.Random(21)
    chosen = r.sample(common, min(len(common), 2000 if o.quick else o.names))
    with Site() as site:
        lists = os.path.join(site.dir, "lists")
        os.mkdir(lists)
        more_lists = rules = clients = ""
        for i, (text, _) in enumerate(texts):
            with open(os.path.join(lists, f"f{i}"), "w", encoding="utf-8") as f:
                f.write(text)
            site.batch(site.c, f"addr add 192.168.8.{100 + i}/24 dev eth0")
            more_lists += f"  f{i}: {{ files: [{lists}/f{i}]{', match: suffix' if formats[i][1] == 'hosts' else ''} }}\n"
            rules += f"  - {{ clients: [c{i}], names: [f{i}], block: refuse }}\n"
            clients += f"  c{i}: {{ networks: [192.168.8.{100 + i}] }}\n"
        for n in ("vpn1", "vpn"):
            with open(os.path.join(lists, n), "w", encoding="ascii") as f:
                f.write(f"{n}.test\n")
        text = config_text(site, lists, more_lists=more_lists, filter="filter:\n" + rules + "  - { answer: 192.0.2.99 }\n").replace("clients:\n", "clients:\n" + clients, 1)
        gateway = Gateway(site, text)
        took = gateway.start(120)
        for i, (_, form) in enumerate(formats):
            shown = gateway.verb("list", f"f{i}")["text"]
            found = shown["files"][0]["format"]
            bar.must(found == form, f"{formats[i][0]} is taken as {found}")
            bar.row(f"{formats[i][0]}", shown["entries"], shown["bad"], "", "", "")
        asked = sorted({v for n in chosen for v in (variants(n) if name in SAME_NAMES else variants(n)[:2])})
        popular = [n for n in read("query/top-100k-2016.txt").split() if is_name(n.lower())]
        if name in SAME_NAMES:
            asked += [n.lower() for n in r.sample(popular, min(len(popular), len(chosen)))]
        asked = list(dict.fromkeys(asked))
        start = time.monotonic()
        verdicts = [Asker(site, f"192.168.8.{100 + i}").ask(asked) for i in range(len(formats))]
        rate = len(asked) * len(formats) / (time.monotonic() - start)
        differ = [n for n in asked if len({v[n] for v in verdicts}) > 1]
        missing = [n for n in chosen if not all(v[n] and v["deep.under." + n] for v in verdicts)]
        listed = sum(verdicts[0].values())
        bar.row(f"{name}: {len(formats)} formats", len(asked), "", listed, len(differ), f"{took:.1f} s, {rate:.0f}/s")
        bar.must(not differ, f"{name}: {len(differ)} of {len(asked)} names have two verdicts, as {differ[:4]}")
        bar.must(not missing, f"{name}: {len(missing)} listed names are not blocked in every format, as {missing[:4]}")
        bar.must(name not in SAME_NAMES or 0 < listed < len(asked), f"{name}: {listed} of {len(asked)} are listed, which tests nothing")


def resident_mib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return [int(line.split()[1]) for line in f if line.startswith("VmRSS")][0] / 1024


def load_many(bar, o):
    names = read("merged/permissive-domains.txt").splitlines()
    if o.quick:
        names = names[:200000]
    with Site() as site:
        lists = os.path.join(site.dir, "lists")
        os.mkdir(lists)
        for n, lines in (("vpn1", ["vpn1.test"]), ("vpn", ["vpn.test"]), ("big", ["first.test"])):
            with open(os.path.join(lists, n), "w", encoding="utf-8") as f:
                f.write("\n".join(lines) + "\n")
        gateway = Gateway(site, config_text(site, lists, more_lists=f"  big: {{ files: [{lists}/big] }}\n", filter="filter:\n  - { names: [big], block: refuse }\n  - { answer: 192.0.2.99 }\n"))
        gateway.start(60)
        before = resident_mib(gateway.children()["server"])
        with open(f"{lists}/big.new", "w", encoding="utf-8") as f:
            f.write("\n".join(names) + "\n")
        start = time.monotonic()
        os.rename(f"{lists}/big.new", f"{lists}/big")
        last = [n for n in names[-50:] if is_name(n)][-1]
        while dnsclient.ask(site, site.c, LAN4, last, "A")[0] != "REFUSED":
            if time.monotonic() - start > 120:
                break
            time.sleep(0.02)
        took = time.monotonic() - start
        r = random.Random(22)
        # Special-use names are answered before any list is looked at.
        some = [n for n in r.sample(names, 3000) if is_name(n) and n.split(".")[-1] not in ("onion", "local", "lan", "localhost", "invalid", "alt", "arpa")]
        verdicts = Asker(site, "192.168.8.2").ask(some + ["not-" + n for n in some[:500] if len(n) < 200 and len(n.split(".")[0]) < 58])
        missing = [n for n in some if not verdicts[n]]
        j = gateway.verb("list")
        after = resident_mib(gateway.children()["server"])
        per_name = j["index"]["bytes_per_name"]
        bar.row(f"{len(names)} names loaded", len(some), "", len(some) - len(missing), "", f"{took:.1f} s, {after - before:.0f} MiB, {per_name:.1f} B/name")
        bar.must(not missing, f"{len(missing)} of {len(some)} names are not blocked, as {missing[:3]}")
        bar.must(took < bars.limit(o, 20), f"{took:.1f} s until the last name is in force")
        gateway.stop(timeout=60)
        again = gateway.start(60)
        bar.row("started again", "", "", "", "", f"{again:.1f} s")
        bar.must(dnsclient.ask(site, site.c, LAN4, last, "A")[0] == "REFUSED", "not there after a restart")
        bar.must(again < bars.limit(o, 5), f"{again:.1f} s until ready with the compiled list")


def main():
    o = bars.options(__doc__, (["--names"], {"type": int, "default": 20000, "help": "listed names asked of each list, and as many of each kind beside them"}))
    if not os.path.isdir(shared("lists")):
        print(f"skipped: no {shared('lists')}")
        return 77
    bar = bars.Bar("one list in several formats, by DNS", ("asked or entries", "bad", "listed", "two verdicts", "took"))
    for name, formats in TABLE.items():
        agree(bar, o, name, formats)
    load_many(bar, o)
    sys.modules.setdefault("run", __import__("run"))
    import test_filter
    try:
        test_filter.test_published_adblock_cases()
        bar.row("published adblock cases", "", "", "", "", "all right")
    except AssertionError as e:
        bar.must(False, f"published adblock cases: {e}")
    return bar.finish()


if __name__ == "__main__":
    bars.main(main)
