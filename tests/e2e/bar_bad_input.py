#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bar "bad input": mutated list texts, hosts files and configurations, offered to a running server one after another: nothing ends, and the last good one stays in force.

To be run with a build with sanitizers as well. The texts are ours, the fuzzers' corpora, and where it is at hand ../shared/data."""
import glob
import gzip
import os
import random
import subprocess

import bars
import dnsclient
from gateway import Gateway, config_text
from site_net import LAN4, ROOT, Site, shared, tool
from test_filter import ADBLOCK, DNSMASQ, DOMAINS, HOSTS

STEADY, KEPT = "steady.test", 120
PIECES = [b"", b"\0", b"\xff", b"\xc3\x28", b"\r", b"\n", b"\n\n\n", b"!", b"@@", b"||", b"^", b"$important", b"$dnstype=", b"$client=", b"/", b"/(/", b"/((((a*)*)*)*)*/", b"*", b"..", b".", b"#",
          b"address=/", b"server=/", b"0.0.0.0 ", b"::1 ", b"fe80::1%", b"a" * 5000, b"." * 300, b"xn--", b"\xef\xbb\xbf", b"1.2.3.4/99", b"[", b"]", b"{", b"}", b": ", b"- ", b"&a ", b"*a", b"!!binary ", b"'",
          b"\"", b"\t", b"99999999999999999999", b"-1", b"include: ", b"  ", b"<<: ", b"? "]


def mutate(r, texts):
    m = bytearray(r.choice(texts))
    if len(m) > 60000:
        start = r.randrange(len(m) - 60000)
        m = m[start:start + 60000]
    for _ in range(r.choice((0, 1, 1, 2, 3, 8, 40))):
        at = r.randrange(len(m) + 1)
        kind = r.randrange(7)
        if kind == 0 and at < len(m):
            m[at] = r.randrange(256)
        elif kind == 1:
            m[at:at] = r.choice(PIECES)
        elif kind == 2:
            del m[at:at + r.choice((1, 3, 50, 2000))]
        elif kind == 3:
            other = r.choice(texts)
            begin = r.randrange(len(other) + 1)
            m[at:at] = other[begin:begin + r.randrange(400)]
        elif kind == 4:
            lines = m.split(b"\n")
            r.shuffle(lines)
            m = bytearray(b"\n".join(lines))
        elif kind == 5:
            m[at:at] = m[at:at + r.randrange(300)] * r.randrange(1, 6)
        else:
            m[at:at] = bytes(r.randrange(256) for _ in range(r.randrange(40)))
    return bytes(m)


def corpus(*names):
    found = []
    for name in names:
        for path in glob.glob(os.path.join(ROOT, "tests", "fuzz", "corpus", name, "*")):
            with open(path, "rb") as f:
                found.append(f.read())
    return [t for t in found if t]


def published(folder, most=40000):
    found = []
    for path in sorted(glob.glob(shared("lists", folder, "*.gz"))):
        with gzip.open(path) as f:
            found.append(f.read(most))
    return found


class Scene:
    def __init__(self, site):
        self.site, self.lists = site, os.path.join(site.dir, "lists")
        os.mkdir(self.lists)
        for name, text in (("vpn1", b"vpn1.test\n"), ("vpn", b"vpn.test\n"), ("steady", b"steady.test\n"), ("mut", b"first.test\n"), ("hosts", b"192.168.8.20 fixed.lan\n"), ("hosts2", b"192.168.8.21 other.lan\n")):
            self.write(name, text)
        site.upstream()
        self.gateway = Gateway(site, self.config())
        self.gateway.start(120)
        self.server = self.gateway.children()["server"]
        self.trouble = None

    def config(self):
        return config_text(self.site, self.lists, log_level="error", local=f", hosts: [{self.lists}/hosts, {self.lists}/hosts2]",
                           more_lists=f"  steady: {{ files: [{self.lists}/steady] }}\n  mut: {{ files: [{self.lists}/mut] }}\n", filter="filter:\n  - { names: [steady, mut], block: nxdomain }\n")

    def write(self, name, text):
        path = os.path.join(self.lists, name)
        with open(path + ".new", "wb") as f:
            f.write(text)
        os.rename(path + ".new", path)

    def code(self, name):
        return dnsclient.ask(self.site, self.site.c, LAN4, name, "A", timeout=10)

    def is_well(self, what, text):
        """After each text: the rest stands as before, in the same process."""
        if self.code(STEADY)[0] != "NXDOMAIN":
            self.trouble = f"{what}: {STEADY} is not blocked any more"
        elif self.code("fixed.lan")[1] != ["192.168.8.20"]:
            self.trouble = f"{what}: a local name has gone"
        elif self.gateway.children().get("server") != self.server:
            self.trouble = f"{what}: the server was started again"
        if self.trouble:
            with open(os.path.join(os.environ.get("TMPDIR", "/tmp"), "nameway-bad-input"), "wb") as f:
                f.write(text)
            self.trouble += f"; the text is kept in {f.name}"
        return not self.trouble


def offer_lists(bar, s, r, texts, count):
    """Half of a text is lines that stay, so that some are accepted and some are held; whatever was accepted last is in force while the next is refused."""
    accepted = refused = 0
    marker = "first.test"
    for i in range(count):
        mine = f"marker{i}.test"
        steady = "".join(f"kept{k}.test\n" for k in range(KEPT)) if r.random() < 0.6 else ""
        text = mutate(r, texts)
        body = steady.encode() + mine.encode() + b"\n" + text
        s.write("mut", body)
        p = s.gateway.verb("list", "reload", "mut", check=False)
        blocked = s.code(mine)[0] == "NXDOMAIN"
        accepted += p.returncode == 0
        refused += p.returncode != 0
        if p.returncode == 0 and blocked:
            marker = mine
        elif p.returncode != 0 and not bar.must(not blocked and (marker is None or s.code(marker)[0] == "NXDOMAIN"), f"text {i} was refused, but what was in force before is not: {p.stderr[:200]}"):
            return
        elif p.returncode == 0:
            marker = None  # what it says stands otherwise than as a line of its own
        if not s.is_well(f"list text {i}", body):
            bar.must(False, s.trouble)
            return
    bar.row("list texts", count, accepted, refused)
    bar.must(accepted and refused, f"{accepted} accepted, {refused} refused: the mutants are too tame or too wild")
    s.write("mut", b"last.test\nmore.test\n")
    s.gateway.verb("list", "reload", "mut", "--accept", check=False)
    bar.must(s.code("last.test")[0] == "NXDOMAIN" and s.code("kept1.test")[0] != "NXDOMAIN", "a good text after all of them is not in force")


def offer_hosts(bar, s, r, texts, count):
    for i in range(count):
        text = mutate(r, texts)
        text += b"\n192.168.8.99 mark%d.lan\n" % i
        s.write("hosts2", text)
        deadline = 400
        while s.code(f"mark{i}.lan")[1] != ["192.168.8.99"] and deadline:
            deadline -= 1
            bars.time.sleep(0.02)
        if not bar.must(deadline > 0, f"hosts text {i}: its last line is not answered within 8 s") or not bar.must(s.is_well(f"hosts text {i}", text), s.trouble):
            return
    bar.row("hosts files", count, count, 0)


def offer_configs(bar, s, r, texts, count):
    """What --check refuses, the running one must refuse too, and stay as it is. What it accepts is not put in force: it may well listen elsewhere."""
    accepted = refused = 0
    good = s.config()
    for i in range(count):
        text = mutate(r, [good.encode()] * 6 + texts)
        s.gateway.write("")
        with open(s.gateway.config_path, "wb") as f:
            f.write(text)
        p = s.gateway.check()
        if not bar.must(p.returncode in (0, 2) and "Sanitizer" not in p.stdout and "runtime error" not in p.stdout, f"configuration {i}: --check ends with {p.returncode}: {p.stdout[-1500:]}"):
            s.is_well("configuration", text)
            return
        accepted += p.returncode == 0
        refused += p.returncode == 2
        if p.returncode == 2 and i % 3 == 0:
            v = s.gateway.verb("reload", check=False)
            if not bar.must(v.returncode != 0, f"configuration {i}: --check refuses it, reload takes it") or not bar.must(s.is_well(f"configuration {i}", text), s.trouble):
                return
    bar.row("configurations", count, accepted, refused)
    # Over a restart, too: the last good one is started with.
    s.gateway.write("server: [\n" + good)
    s.gateway.stop(timeout=60)
    s.gateway.start(60)
    s.server = s.gateway.children()["server"]
    bar.must(s.is_well("a restart with a broken configuration", b"") and any(a["key"] == "config" for a in s.gateway.verb("status")["alarms"]), s.trouble or "nobody was told")
    s.gateway.write(good)
    s.gateway.verb("reload")
    bar.must(not s.gateway.verb("status")["alarms"], "an alarm stays")


def run_tools(bar, s, r, texts, count):
    """The converter and `list diff` read what people have, too."""
    path = os.path.join(s.site.dir, "text")
    for i in range(count):
        with open(path, "wb") as f:
            f.write(mutate(r, texts))
        argv = [tool("nameway"), "import", "dnsmasq", path] if i % 2 else [tool("nameway"), "-s", s.gateway.socket, "list", "diff", "mut", path]
        p = subprocess.run(argv, stdout=-1, stderr=-1, timeout=60)
        if not bar.must(p.returncode in (0, 1, 2) and b"Sanitizer" not in p.stderr and b"runtime error" not in p.stderr, f"{argv[1:4]} {i}: {p.returncode}: {p.stderr[-1500:]}"):
            return
    bar.row("import dnsmasq, list diff", count, "", "")
    bar.must(s.is_well("tools", b""), s.trouble)


def main():
    o = bars.options(__doc__, (["--count"], {"type": int, "default": 2000}), (["--seed"], {"type": int, "default": 1}))
    count = 80 if o.quick else o.count
    bar = bars.Bar("bad input: mutants of list texts, hosts files and configurations", ("texts", "accepted", "refused"))
    r = random.Random(o.seed)
    ours = [HOSTS, ADBLOCK, DNSMASQ, DOMAINS]
    lists = ours + corpus("list_hosts", "list_adblock", "list_dnsmasq", "list_domains") + published("hosts") + published("adblock") + published("dnsmasq") + published("domains") + published("rpz")
    if len(lists) < 20 or not published("hosts"):
        bar.row("no ../shared/data: our own texts and the fuzzers'")
    confs = []
    for path in glob.glob(shared("conf", "dnsmasq", "*")):
        with open(path, "rb") as f:
            confs.append(f.read(40000))
    with Site() as site:
        s = Scene(site)
        offer_lists(bar, s, r, lists, count)
        if not bar.missed:
            offer_hosts(bar, s, r, [HOSTS] + corpus("local_hosts", "list_hosts"), count // 4)
        if not bar.missed:
            offer_configs(bar, s, r, corpus("config_parse") or ours, count)
        if not bar.missed:
            run_tools(bar, s, r, lists + confs * 3, count // 2)
        log = s.gateway.log_end(100000)
        bar.must("Sanitizer" not in log and "runtime error" not in log and "started again" not in log, f"the log tells of a fault:\n{log[-3000:]}")
        if bar.missed:
            print(s.gateway.log_end())
    return bar.finish()


if __name__ == "__main__":
    bars.main(main)
