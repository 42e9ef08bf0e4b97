#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bar "a dead upstream": one of two dies without a word under 5,000 new names a second; and a dead split domain is asked 300 times a second beside others.

The first is asked when it dies (`ordered`), so all that is under way is lost. At most 10 queries may take longer than 300 ms or fail, all must go to the other within a second,
and back to the first after it has returned. It dies twice over: its process is stopped (SIGSTOP), and its packets are dropped on the way. A window in which nobody dies says
what this machine does by itself. With a dead split domain, windows of others alone and beside it alternate: none of the others may fail, and their p99 stays where it was."""
import os
import signal
import statistics
import threading
import time

import bars
from explained import request
from forward import SECOND, SPLIT, Upstream
from gateway import Gateway, config_text
from site_net import DNS_WAN, LAN4, Site, result, tool

DROP = "table inet dead {{ chain in {{ type filter hook input priority -5; ip daddr {address} udp dport 53 drop; ip daddr {address} tcp dport 53 drop; }}\n }}"
SLOW_MS, FEW = "300", 10


def flood(site, name, rate, seconds, timeout="5s"):
    return site.start(site.c, [tool("nameway"), "load", "flood", "--server", f"{LAN4}@53", "--name", name, "--rate", str(rate), "--duration", f"{seconds}s", "--timeout", timeout, "--json"])


def failed(r):
    return r["lost"] + sum(n for code, n in r["rcodes"].items() if code != "NOERROR")


class Sent(threading.Thread):
    """How many questions each upstream was sent and whether it is well, seen again and again while a load runs."""

    def __init__(self, gateway):
        super().__init__(daemon=True)
        self.gateway, self.seen, self.is_over = gateway, [], False

    def run(self):
        while not self.is_over:
            at = time.monotonic()
            sent, healthy = {}, {}
            for u in request(self.gateway, verb="status")["upstreams"]:
                server = u["server"].split("@")[0]
                sent[server] = sent.get(server, 0) + u["sent"]
                healthy[server] = healthy.get(server, True) and u["healthy"]
            self.seen.append((at, sent, healthy))
            time.sleep(max(0, 0.05 - (time.monotonic() - at)))

    def stop(self):
        self.is_over = True
        self.join()

    def rate(self, at, server):
        """Questions a second around a moment."""
        before = [x for x in self.seen if x[0] <= at - 0.1][-1:] or self.seen[:1]
        after = [x for x in self.seen if x[0] >= at + 0.1][:1] or self.seen[-1:]
        return (after[0][1].get(server, 0) - before[0][1].get(server, 0)) / max(0.05, after[0][0] - before[0][0])

    def when(self, since, is_so):
        """Seconds after `since` from which on it is so, or None."""
        for at, _, _ in self.seen:
            if at >= since and is_so(at):
                return at - since
        return None

    def is_healthy(self, at, server):
        return [x for x in self.seen if x[0] == at][0][2].get(server)


class Deaths:
    def __init__(self, site, upstream):
        self.site, self.upstream = site, upstream

    def kill(self, how):
        if how == "stopped":
            os.kill(self.process(), signal.SIGSTOP)
        elif how == "dropped":
            self.site.nft(self.site.i, DROP.format(address=DNS_WAN))

    def revive(self, how):
        if how == "stopped":
            os.kill(self.process(), signal.SIGCONT)
        elif how == "dropped":
            self.site.nft(self.site.i, "delete table inet dead")

    def process(self):
        """ip-netns-exec becomes the program itself."""
        return self.upstream.p.pid


def one_of_two(o, bar, strategy, rate, seconds):
    third = seconds / 3
    with Site() as site:
        os.mkdir(os.path.join(site.dir, "lists"))
        for name in ("vpn1", "vpn"):
            with open(os.path.join(site.dir, "lists", name), "w", encoding="ascii") as f:
                f.write(f"{name}.test\n")
        first = Upstream(site, "first", addresses=(DNS_WAN,), log_questions=False)
        Upstream(site, "second", addresses=(SECOND,), log_questions=False)
        gateway = Gateway(site, config_text(site, os.path.join(site.dir, "lists"), servers=f"{DNS_WAN}, {SECOND}", default=f", strategy: {strategy}"))
        gateway.start()
        result(flood(site, "warm-<12>.yard", rate, 2))
        deaths = Deaths(site, first)
        for how in ("nobody dies", "stopped", "dropped"):
            sent = Sent(gateway)
            load = flood(site, "d-<12>.yard", rate, seconds)
            sent.start()
            time.sleep(third)
            died = time.monotonic()
            deaths.kill(how)
            time.sleep(third)
            back = time.monotonic()
            deaths.revive(how)
            r = result(load, seconds + 60)
            sent.stop()
            moved = sent.when(died, lambda at, s=sent: s.rate(at, DNS_WAN) < rate * 0.02)
            # `fastest` need not prefer it again, but must think well of it.
            returned = sent.when(back, lambda at, s=sent: s.is_healthy(at, DNS_WAN) and (strategy == "fastest" or s.rate(at, DNS_WAN) > rate * 0.5))
            slow, lost = r["over_ms"][SLOW_MS], failed(r)
            dies = how != "nobody dies"
            bar.row(f"{strategy}, {how}", r["sent"], slow, lost, f"{r['latency_us']['p99'] / 1000:.1f}", f"{r['latency_us']['max'] / 1000:.0f}",
                    f"{moved * 1000:.0f}" if dies and moved is not None else "", f"{returned * 1000:.0f}" if dies and returned is not None else "")
            bar.must(r["sent"] >= 0.9 * rate * seconds, f"{how}: the generator sent only {r['sent']}")
            if not dies:
                # What this machine does by itself is no fault of an upstream's.
                noise = slow + lost
                bar.must(lost == 0, f"{lost} failed although nobody died")
                continue
            bar.must(slow + lost <= bars.limit(o, FEW) + noise, f"{strategy}, {how}: {slow} of {r['sent']} took more than {SLOW_MS} ms and {lost} failed ({noise} when nobody dies)")
            bar.must(moved is not None and moved <= bars.limit(o, 1), f"{strategy}, {how}: the dead one was asked for {moved} s")
            bar.must(returned is not None, f"{strategy}, {how}: it was not taken back")
        if bar.missed:
            print(gateway.log_end())


def others(site, rate, seconds):
    return flood(site, "d-<12>.yard", rate, seconds)


def split_domain(o, bar, rate, seconds, windows):
    with Site() as site:
        os.mkdir(os.path.join(site.dir, "lists"))
        for name in ("vpn1", "vpn"):
            with open(os.path.join(site.dir, "lists", name), "w", encoding="ascii") as f:
                f.write(f"{name}.test\n")
        Upstream(site, "first", addresses=(DNS_WAN,), log_questions=False)
        split = Upstream(site, "split", addresses=(SPLIT,), log_questions=False)
        gateway = Gateway(site, config_text(site, os.path.join(site.dir, "lists"), more_upstreams=f"  dead: {{ servers: [{SPLIT}], domains: [dead.example] }}\n"))
        gateway.start()
        result(flood(site, "<8>.dead.example", 50, 1))
        result(others(site, rate, 1))
        split.tell("silent")
        found = {"alone": [], "beside": []}
        for _ in range(windows):
            for kind, all_of_kind in found.items():
                dead = flood(site, "<12>.dead.example", 300, seconds, timeout="8s") if kind == "beside" else None
                r = result(others(site, rate, seconds), seconds + 60)
                if dead:
                    d = result(dead, seconds + 60)
                    bar.must(failed(d) == d["sent"], "the dead domain was answered")
                    bar.must(d["lost"] == 0, f"{d['lost']} questions of the dead domain got no answer at all")
                all_of_kind.append(r)
                bar.row(f"others at {rate}/s, {kind}", r["sent"], r["over_ms"][SLOW_MS], failed(r), f"{r['latency_us']['p99'] / 1000:.1f}", f"{r['latency_us']['max'] / 1000:.0f}", "", "")
                bar.must(failed(r) == 0, f"others at {rate}/s {kind}: {failed(r)} failed")
        alone, beside = [statistics.median(r["latency_us"]["p99"] for r in found[k]) / 1000 for k in ("alone", "beside")]
        bar.must(beside <= bars.limit(o, 1.2 * alone + 1), f"others at {rate}/s: p99 {beside:.2f} ms beside the dead domain, {alone:.2f} ms alone")


def main():
    o = bars.options(__doc__, (["--rate"], {"type": int, "default": 5000}), (["--seconds"], {"type": int, "default": 18}), (["--windows"], {"type": int, "default": 5}))
    rate, seconds, windows = (1000, 9, 1) if o.quick else (o.rate, o.seconds, o.windows)
    bar = bars.Bar(f"one of two upstreams dies under {rate}/s; a dead split domain at 300/s", ("sent", "over 300 ms", "failed", "p99 ms", "max ms", "left after ms", "back after ms"))
    for strategy in ("ordered",) if o.quick else ("ordered", "fastest"):
        one_of_two(o, bar, strategy, rate, seconds)
    for others_rate in (50,) if o.quick else (50, 3000):
        split_domain(o, bar, others_rate, 5 if o.quick else 8, windows)
    return bar.finish()


if __name__ == "__main__":
    bars.main(main)
