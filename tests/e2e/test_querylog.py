# SPDX-License-Identifier: GPL-3.0-or-later
"""The query log, the busiest, and pauses of the filter, as a user meets them."""
import json
import os
import signal
import subprocess
import time

from gateway import VerbFailed
from site_net import tool
from world import World, rcode

FILTER = """filter:
  - { name: content, names: [ads], block: nxdomain }
  - { name: strict, names: [bad], block: refuse }
"""
LISTS = "  ads: { files: [lists/ads] }\n  bad: { files: [lists/bad] }\n"
LOG_ON = "info, queries: true"


class LogWorld(World):
    def __init__(self, **kw):
        super().__init__(**kw)
        self.write_list("ads", ["ads.test"])
        self.write_list("bad", ["bad.test"])

    def begin(self, log=LOG_ON, **kw):
        self.start(log_level=log, more_lists=LISTS, filter=FILTER, **kw)

    def log(self, *args):
        """The records that `log` prints, as JSON."""
        return [json.loads(line) for line in self.gateway.verb("log", "--json", *args, json_output=False).splitlines()]


def names(records):
    return [r["name"] for r in records]


def test_log_tells_who_asked_what():
    with LogWorld() as w:
        w.begin()
        # Workers tell the time to the millisecond: what is nearer than that has no order among them.
        for name, rdtype, tcp in (("t2-two.test", "A", False), ("t2-two.test", "A", False), ("x.ads.test", "A", False), ("bad.test", "AAAA", True)):
            w.ask(name, rdtype, tcp=tcp)
            time.sleep(0.01)
        records = w.log()
        assert names(records) == ["t2-two.test", "t2-two.test", "x.ads.test", "bad.test"], records
        first, second, blocked, refused = records
        assert first["outcome"] == "answered" and second["outcome"] == "cached", records
        assert first["steer"] == second["steer"] == "Tunnel 2", records
        assert (blocked["outcome"], blocked["filter"], blocked["rcode"], blocked["type"]) == ("blocked", "content", "NXDOMAIN", "A"), blocked
        assert (refused["outcome"], refused["filter"], refused["rcode"], refused["type"]) == ("blocked", "strict", "REFUSED", "AAAA"), refused
        assert all(r["client"] and abs(r["at_ms"] / 1000 - time.time()) < 60 for r in records), records
        assert names(w.log("--blocked")) == ["x.ads.test", "bad.test"]
        assert names(w.log("-n", "1")) == ["bad.test"]
        assert names(w.log("--name", "ADS")) == ["x.ads.test"]
        assert len(w.log("--client", first["client"])) == 4 and not w.log("--client", "192.0.2.99")
        text = w.gateway.verb("log", json_output=False)
        assert "x.ads.test  NXDOMAIN blocked by content" in text and "steered by Tunnel 2" in text, text


def test_log_follows():
    with LogWorld() as w:
        w.begin()
        w.ask("before.test")
        p = subprocess.Popen([tool("nameway"), "-s", w.gateway.socket, "log", "--follow", "--json", "-n", "5"], stdout=subprocess.PIPE, text=True)
        try:
            assert json.loads(p.stdout.readline())["name"] == "before.test"
            for i in range(3):
                w.ask(f"x{i}.ads.test")
                assert json.loads(p.stdout.readline())["name"] == f"x{i}.ads.test"
                # The other verbs go on beside it.
                assert w.gateway.verb("status")["query_log"]["on"]
        finally:
            p.kill()
            p.wait()


def test_log_survives_a_kill_and_a_restart():
    with LogWorld() as w:
        w.begin()
        w.ask("one.ads.test")
        assert names(w.log()) == ["one.ads.test"]
        os.kill(w.gateway.children()["server"], signal.SIGKILL)
        assert w.wait(lambda: rcode(w.ask("two.ads.test")) == "NXDOMAIN", 10) is not None
        w.gateway.stop()
        w.gateway.start()
        w.ask("three.ads.test")
        told = names(w.log())
        assert told[0] == "one.ads.test" and "two.ads.test" in told and told[-1] == "three.ads.test", told


def test_log_is_bounded_by_its_size():
    with LogWorld() as w:
        w.begin(log=LOG_ON + ", size: 1MiB")
        argv = ["ip", "netns", "exec", w.site.c, tool("nameway"), "load", "latency", "--server", "192.168.8.1@53", "--count", "60000", "--in-flight", "64", "--name", "n<20>.ads.test"]
        subprocess.run(argv, stdout=subprocess.DEVNULL, check=True, timeout=120)
        log = w.gateway.verb("status")["query_log"]
        assert log["records"] >= 50000 and 500 << 10 <= log["bytes"] <= 1 << 20, log
        directory = os.path.join(w.site.dir, "state", "server", "queries")
        assert sum(os.path.getsize(os.path.join(directory, f)) for f in os.listdir(directory)) == log["bytes"]
        w.ask("last.ads.test")
        assert names(w.log("-n", "1")) == ["last.ads.test"]


def test_off_by_default_and_top_counts_all_the_same():
    with LogWorld() as w:
        w.begin(log="info")
        for _ in range(5):
            w.ask("t2-two.test")
        w.ask("x.ads.test")
        p = w.gateway.verb("log", check=False)
        assert p.returncode == 0 and not p.stdout and "server.log.queries: true" in p.stderr, p
        top = w.gateway.verb("top")["hour"]
        assert top["names"][0]["name"] == "t2-two.test" and top["names"][0]["count"] == 5, top
        assert [b["name"] for b in top["blocked"]] == ["x.ads.test"] and top["clients"][0]["count"] == 6 and top["queries"] == 6, top


def test_counters_of_rules_and_lists():
    with LogWorld() as w:
        w.begin()
        for _ in range(3):
            w.ask("x.ads.test")
        w.ask("t2-two.test")
        assert [f["hits"] for f in w.gateway.verb("rules")["filter"]] == [3, 0]
        hits = {x["name"]: x["hits"] for x in w.gateway.verb("list")["lists"]}
        assert hits["ads"] == 3 and hits["bad"] == 0 and hits["vpn"] >= 1, hits


def is_blocked(w, name):
    return rcode(w.ask(name)) in ("NXDOMAIN", "REFUSED")


def test_filter_off_and_on():
    with LogWorld() as w:
        w.begin()
        assert is_blocked(w, "x.ads.test")
        w.gateway.verb("filter", "off", "10m")
        assert not is_blocked(w, "x.ads.test") and not is_blocked(w, "bad.test")
        assert w.gateway.verb("status")["filter"]["all"]["left_s"] > 500
        w.gateway.verb("filter", "on")
        assert is_blocked(w, "x.ads.test") and is_blocked(w, "bad.test"), "also for answers that are cached by now"
        w.gateway.verb("filter", "off", "10m", "content")
        assert not is_blocked(w, "x.ads.test") and is_blocked(w, "bad.test")
        # It goes with the rule's name when the configuration changes.
        text = w.config(log_level=LOG_ON, more_lists=LISTS, filter=FILTER.replace("filter:\n", "filter:\n  - { name: new, names: [bad], block: nodata }\n"))
        w.gateway.write(text)
        w.gateway.verb("reload")
        assert not is_blocked(w, "x.ads.test")
        assert [r["name"] for r in w.gateway.verb("filter")["rules"]] == ["content"]
        w.gateway.verb("filter", "on", "content")
        assert is_blocked(w, "x.ads.test")


def test_filter_off_ends_by_itself():
    with LogWorld() as w:
        w.begin()
        w.gateway.verb("filter", "off", "2s")
        assert not is_blocked(w, "x.ads.test")
        took = w.wait(lambda: is_blocked(w, "x.ads.test"), 5)
        assert took is not None and 0.5 < took < 3.5, took
        try:
            w.gateway.verb("filter", "off", "8d")
        except VerbFailed as e:
            assert "7 days" in str(e)
        else:
            raise AssertionError("8 days were accepted")
