#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bar "expressions": 3,000 regular expressions in an adblock list cost at most twice what none cost, and can be switched off at once.

One namewayd, the same load of cached names again and again, the list in force and not by turns: CPU time (user and system) of all its processes for each query. A name that
matches is blocked, one that nearly does is not, and `filter off`, `list remove`, the file and a reload all end it at once. The worst names for the worst expressions are bounded."""
import os
import random
import statistics
import string

import bars
import dnsclient
from gateway import Gateway, config_text
from site_net import LAN4, Site, result, tool

COUNT, RATIO, WORST_MS = 3000, 2.0, 3.0
RULE = "filter:\n  - {{ name: content, names: [re], block: nxdomain{more} }}\n"


def word(r, letters=string.ascii_lowercase, least=4, most=9):
    return "".join(r.choice(letters) for _ in range(r.randint(least, most)))


def expressions(count):
    """Such as people have: a text, digits, alternatives, optional parts, classes; (line, a name that it matches)."""
    r = random.Random(11)
    found = []
    for i in range(count):
        w, x = word(r), word(r)
        kind = i % 6
        if kind == 0:
            found.append((f"/^{w}[0-9]{{2,4}}\\.{x}\\./", f"{w}{r.randint(10, 9999)}.{x}.yard"))
        elif kind == 1:
            found.append((f"/(^|\\.){w}-?{x}[0-9]*\\.(yard|test|example)$/", f"a.{w}{x}7.yard"))
        elif kind == 2:
            found.append((f"/{w}(ad|ads|adv|banner)s?\\.{x}/", f"q{w}banner.{x}.yard"))
        elif kind == 3:
            found.append((f"/^[a-z0-9]{{3,12}}\\.{w}\\.{x}\\.yard$/", f"abc123.{w}.{x}.yard"))
        elif kind == 4:
            found.append((f"/^(.+\\.)?{w}[-_.]?track(er|ing)?[0-9]?\\./", f"x.{w}-tracking3.yard"))
        else:
            found.append((f"/{w}.*{x}/", f"{w}middle{x}.yard"))
    return found


def worst_expressions(count):
    """All have the same fixed part, and each goes on from every place of the name."""
    return [f"/worst[a-z.]*[ab]+([a-z.]*[cd]+)*{'e' * (1 + i % 4)}[0-9]{{{1 + i // 4 % 20}}}$/" for i in range(count)] + ["/(a+)+b$/", "/((a|aa)+)+c$/", "/(.*a){20}z$/"]


def worst_names():
    label = ("worstabcdab" * 6)[:62]
    return [".".join([label, label, label, ("worst" * 12)[:40], f"a{i}"]) + ".yard" for i in range(40)] + [".".join(["a" * 62] * 3) + f".a{i}.yard" for i in range(40)]


def cpu_ns(gateway):
    """Run time of all threads of all processes."""
    total = 0
    for pid in [gateway.p.pid, *gateway.children().values()]:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as f:
                total += int(f.read().split()[0])
    return total


def write(path, lines):
    with open(path + ".new", "w", encoding="ascii") as f:
        f.write("\n".join(lines) + "\n")
    os.rename(path + ".new", path)


class Scene:
    def __init__(self, site):
        self.site = site
        self.lists = os.path.join(site.dir, "lists")
        os.mkdir(self.lists)
        for name in ("vpn1", "vpn"):
            write(os.path.join(self.lists, name), [f"{name}.test"])
        self.path = os.path.join(self.lists, "re")
        site.upstream(ttl=3600)
        self.gateway = None

    def config(self, more="", has_rule=True):
        return config_text(self.site, self.lists, workers="1", more_lists=f"  re: {{ files: [{self.path}], format: adblock, shrink-limit: 100% }}\n", filter=RULE.format(more=more) if has_rule else "")

    def start(self):
        self.gateway = Gateway(self.site, self.config())
        self.gateway.start(120)

    def use(self, **kw):
        self.gateway.write(self.config(**kw))
        self.gateway.verb("reload")

    def is_blocked(self, name):
        return dnsclient.ask(self.site, self.site.c, LAN4, name, "A")[0] == "NXDOMAIN"

    def cost_us(self, names, rate, seconds):
        """CPU time for each query, in microseconds, and the load's figures."""
        before = cpu_ns(self.gateway)
        r = result(self.site.start(self.site.c, [tool("nameway"), "load", "flood", "--server", f"{LAN4}@53", "--names", names, "--rate", str(rate), "--duration", f"{seconds}s", "--json"]), seconds + 60)
        return (cpu_ns(self.gateway) - before) / max(1, r["answered"]) / 1000, r


def switching(bar, s, found):
    """What is in force is so when the verb returns."""
    name = found[7][1]

    def must(is_blocked, what):
        bar.must(s.is_blocked(name) == is_blocked, f"{what}: {name} is {'not ' if is_blocked else ''}blocked")
    must(True, "in force")
    s.gateway.verb("filter", "off", "10m")
    must(False, "filter off")
    s.gateway.verb("filter", "on")
    must(True, "filter on")
    s.gateway.verb("filter", "off", "10m", "content")
    must(False, "filter off RULE")
    s.gateway.verb("filter", "on", "content")
    s.gateway.verb("list", "remove", "re", found[7][0])
    must(False, "list remove")
    s.gateway.verb("list", "add", "re", found[7][0])
    must(True, "list add")
    s.use(more=", enabled: false")
    must(False, "a rule that is not enabled, after a reload")
    s.use()
    must(True, "enabled again")
    write(s.path, ["||first.test^", "! nothing more"])
    s.gateway.verb("list", "reload", "re", "--accept", check=False)
    must(False, "a file without the expressions")
    write(s.path, [line for line, _ in found])
    s.gateway.verb("list", "reload", "re", "--accept", check=False)
    must(True, "the file again")


def main():
    o = bars.options(__doc__, (["--pairs"], {"type": int, "default": 10}), (["--seconds"], {"type": int, "default": 6}), (["--rate"], {"type": int, "default": 10000}))
    pairs, seconds, rate = (2, 2, 3000) if o.quick else (o.pairs, o.seconds, o.rate)
    bar = bars.Bar(f"{COUNT} regular expressions: {pairs} pairs of {seconds} s at {rate}/s, CPU time of all our processes", ("us/query none", "us/query list", "ratio", "p99 ms none", "p99 ms list"))
    found = expressions(COUNT)
    with Site() as site:
        s = Scene(site)
        # One that cannot be used is refused alone.
        write(s.path, [line for line, _ in found] + ["/(?=ahead)x/", "/(unclosed/"])
        s.start()
        text = s.gateway.verb("list", "re")["text"]
        bar.must(text["bad"] == 2, f"{text['bad']} lines are not understood, 2 expressions are broken")
        r = random.Random(12)
        missed = [n for line, n in r.sample(found, 200) if not s.is_blocked(n)]
        bar.must(not missed, f"{len(missed)} of 200 names that match are not blocked, the first {missed[:2]}")
        wrong = [n for _, n in r.sample(found, 100) if s.is_blocked(n.replace("yard", "yonder").replace("track", "trick").replace("banner", "bunner")[1:])]
        bar.must(not wrong, f"{len(wrong)} of 100 near misses are blocked, the first {wrong[:2]}")
        switching(bar, s, found)
        names = s.site.dir + "/asked"
        write(names, [f"{word(r)}{r.randint(1, 999)}.{word(r)}.d-{word(r)}.yard" for _ in range(900)] + [n for _, n in r.sample(found, 100)])
        s.cost_us(names, 1000, 3)
        ratios = []
        for _ in range(pairs):
            s.use(has_rule=False)
            s.cost_us(names, rate, 1)
            none, none_r = s.cost_us(names, rate, seconds)
            s.use()
            s.cost_us(names, rate, 1)
            ours, ours_r = s.cost_us(names, rate, seconds)
            ratios.append(ours / none)
            bar.row("pair", f"{none:.2f}", f"{ours:.2f}", f"{ours / none:.2f}", f"{none_r['latency_us']['p99'] / 1000:.2f}", f"{ours_r['latency_us']['p99'] / 1000:.2f}")
            bar.must(none_r["lost"] == 0 and ours_r["lost"] == 0, f"{none_r['lost']} and {ours_r['lost']} lost")
        middle = statistics.median(ratios)
        upper = middle if len(ratios) < 4 else statistics.mean(ratios) + 2.3 * statistics.stdev(ratios) / len(ratios) ** 0.5
        bar.row("all", "", "", f"{middle:.2f} (up to {upper:.2f})", "", "")
        bar.must(upper <= RATIO, f"a query costs {upper:.2f} times what it costs without expressions")
        write(s.path, worst_expressions(COUNT))
        s.gateway.verb("list", "reload", "re", "--accept", check=False)
        text = s.gateway.verb("list", "re")["text"]
        bar.must(text["bad"] < COUNT / 10, f"{text['bad']} of the worst expressions are refused, so they say nothing: {text['bad_lines'][:2]}")
        write(names, worst_names())
        s.cost_us(names, 200, 2)
        cost, worst = s.cost_us(names, 200, 2 if o.quick else 10)
        bar.row("worst names, worst expressions", "", f"{cost:.0f}", "", "", f"{worst['latency_us']['p99'] / 1000:.2f}")
        bar.must(worst["lost"] == 0 and cost < bars.limit(o, WORST_MS) * 1000, f"{worst['lost']} lost, {cost:.0f} us a query")
        bar.must(s.gateway.is_running() and "started again" not in s.gateway.log_end(1000), "the server ended")
        if bar.missed:
            print(s.gateway.log_end())
    return bar.finish()


if __name__ == "__main__":
    bars.main(main)
