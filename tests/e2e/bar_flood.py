#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bar "the router's flood": www.<random>.lan, open loop, on one worker, beside other traffic.

Where a bare UDP echo (tests/bench/echo.c) on the same path loses nothing, nameway must lose nothing; a client that asks listed names meanwhile is answered and steered,
and conntrack does not fill."""
import bars
from site_net import ask_names, result, tool

ECHO_PORT = 5300


def flood(s, port, rate, seconds):
    p = s.site.start(s.site.c, [tool("nameway"), "load", "flood", "--server", f"192.168.8.1@{port}", "--name", "www.<10>.lan", "--rate", str(rate), "--duration", f"{seconds}s",
                                "--timeout", "2s", "--json"])
    return result(p)


def run(bar, rates, seconds, entries):
    with bars.Scene(entries=entries, names=2000, workers="1") as s:
        s.site.start(s.site.g, [tool("nw-echo"), "-a", "192.168.8.1", str(ECHO_PORT)])
        for rate in rates:
            echo = flood(s, ECHO_PORT, rate, min(seconds, 5))
            before = int(s.site.get(s.site.g, "net/netfilter/nf_conntrack_count"))
            s.counter.reset()
            other = ask_names(s.site, s.site.c, s.names, 200 * seconds, rate=200, syn_every=0, mix="A:100,AAAA:0,HTTPS:0")
            ours = flood(s, 53, rate, seconds)
            asked = result(other)
            counts = s.counter.snap()
            connections = int(s.site.get(s.site.g, "net/netfilter/nf_conntrack_count")) - before
            sent, lost, echo_lost = ours["sent"], ours["lost"], echo["lost"]
            bar.row(f"{rate}/s", sent, lost, f"{echo_lost} of {echo['sent']}", f"{ours['latency_us']['p99'] / 1000:.2f}", connections, counts["wrong"], asked["unanswered"] + asked["servfail"])
            bar.must(sent >= 0.9 * rate * seconds, f"{rate}/s: the generator sent only {sent}")
            bar.must(lost == 0 or echo_lost > 0, f"{rate}/s: {lost} of {sent} lost, the echo lost none")
            bar.must(counts["wrong"] == 0 and asked["unanswered"] + asked["servfail"] == 0, f"{rate}/s: others were disturbed: {counts['wrong']} wrong exits, "
                     f"{asked['unanswered']} unanswered, {asked['servfail']} SERVFAIL")
            # The other client's packets and its names' questions to the upstreams are connections; what floods must not be.
            bar.must(connections < sum(asked["packets"].values()) + asked["asked"] + 200, f"{rate}/s: {connections} connections more in conntrack")
        bar.must(s.gateway.is_running(), "namewayd ended")


def main():
    o = bars.options(__doc__, (["--seconds"], {"type": int, "default": 15}))
    seconds, entries, rates = (3, 2000, (500, 2000)) if o.quick else (o.seconds, 29239, (500, 5000, 20000))
    bar = bars.Bar(f"the router's flood: {entries} entries, one worker, {seconds} s each", ("sent", "lost", "echo lost", "p99 ms", "conntrack +", "wrong exit", "others failed"))
    run(bar, rates, seconds, entries)
    return bar.finish()


if __name__ == "__main__":
    bars.main(main)
