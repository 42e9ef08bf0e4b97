# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists whose entries stand in the configuration: in force like a file's, edited by a reload, explained by their place, kept over a restart; and a list's own limit."""
import json
import os

from gateway import VerbFailed
from world import STEER, World, rcode

LISTS = """  inline:
    entries: [{entries}]
    shrink-limit: 10%
  both: {{ files: [lists/both], entries: [both-inline.test], max-names: 3 }}
"""
FILTER = "filter:\n  - { name: inline, names: [inline], block: nxdomain }\n  - { name: both, names: [both], block: nodata }\n"
ENTRIES = ["one.test", '"!free.one.test"', "two.test", "three.test"]


def lists(entries):
    return LISTS.format(entries=", ".join(entries))


def is_blocked(w, name):
    return rcode(w.ask(name)) == "NXDOMAIN"


def has_none(w, name):
    r = w.ask(name)
    return rcode(r) == "NOERROR" and not r.answer


def start(w):
    w.write_list("both", ["both-file.test"])
    w.start(more_lists=lists(ENTRIES), filter=FILTER)


def line_of(w, text):
    with open(w.gateway.config_path, encoding="utf-8") as f:
        return [number for number, line in enumerate(f, 1) if text in line][0]


def alarms(w):
    return json.dumps(w.gateway.verb("status")["alarms"])


def test_entries_are_in_force_and_explained():
    with World() as w:
        start(w)
        assert is_blocked(w, "www.one.test") and is_blocked(w, "three.test")
        assert not is_blocked(w, "d-x.free.one.test")
        assert has_none(w, "both-inline.test") and has_none(w, "both-file.test")
        assert "there is no file" not in alarms(w), alarms(w)
        e = json.dumps(w.gateway.verb("explain", "www.two.test"))
        assert f"nameway.yaml:{line_of(w, 'entries: [one')} (entries)" in e, e
        shown = w.gateway.verb("explain", "www.two.test", json_output=False)
        assert "(entries)" in shown and "two.test" in shown, shown
        assert "(entries)" in json.dumps(w.gateway.verb("list", "inline"))


def test_edited_entries_replace_the_old_ones():
    with World() as w:
        start(w)
        w.gateway.verb("list", "add", "inline", "edit.test")
        w.gateway.write(w.config(more_lists=lists(["two.test"]), filter=FILTER))
        assert is_blocked(w, "one.test"), "nothing happens before a reload"
        w.gateway.verb("reload")
        # Three entries of four are gone, which the limit of a file's update would hold back.
        assert is_blocked(w, "two.test") and not is_blocked(w, "d-x.one.test") and not is_blocked(w, "d-three.test")
        assert is_blocked(w, "edit.test"), "live edits stay"
        assert "inline" not in alarms(w), alarms(w)


def test_verbs_and_a_followed_file_beside():
    with World() as w:
        start(w)
        w.gateway.verb("list", "reload", "inline")
        assert is_blocked(w, "one.test")
        w.write_list("next", ["one.test", "four.test"])
        diff = json.dumps(w.gateway.verb("list", "diff", "inline", os.path.join(w.lists_dir, "next")))
        assert "four.test" in diff and "three.test" in diff, diff
        w.write_list("both", ["both-file.test", "later.test"])
        assert w.wait(lambda: has_none(w, "later.test"), 2) is not None
        assert has_none(w, "both-inline.test")
        w.gateway.verb("list", "remove", "inline", "one.test")
        assert not is_blocked(w, "d-x.one.test")


def test_restart_from_state():
    with World() as w:
        start(w)
        w.gateway.stop()
        w.gateway.start()
        assert is_blocked(w, "one.test") and has_none(w, "both-inline.test")
        # Edited while it was stopped: what is kept belongs to other entries.
        w.gateway.stop()
        w.gateway.write(w.config(more_lists=lists(["five.test"]), filter=FILTER))
        w.gateway.start()
        assert is_blocked(w, "five.test") and not is_blocked(w, "d-x.one.test")


def test_entries_are_steered():
    with World() as w:
        steer = STEER.replace("steer:\n", "steer:\n  - { name: In, clients: [lan], names: [inline], way: tunnel1 }\n")
        w.start(more_lists='  inline: { entries: [yard.example, "198.18.77.0/24"] }\n', steer=steer)
        (a,) = w.addresses("ip-c6130121.yard.example")
        assert w.exit_of(a) == "1" and w.exit_of("198.18.77.9") == "1"


def test_a_list_with_too_many_names_is_refused():
    with World() as w:
        start(w)
        w.write_list("both", ["both-file.test", "b.test", "c.test"])
        assert w.wait(lambda: "its limit is 3" in alarms(w), 2) is not None, alarms(w)
        assert not has_none(w, "d-b.test") and has_none(w, "both-file.test")
        try:
            w.gateway.verb("list", "reload", "both", "--accept")
            raise AssertionError("it was accepted")
        except VerbFailed as e:
            assert "its limit is 3" in str(e), e
        assert has_none(w, "both-file.test") and not has_none(w, "d-c.test")
        w.write_list("both", ["both-file.test", "b.test"])
        assert w.wait(lambda: has_none(w, "b.test"), 2) is not None
        assert "its limit" not in alarms(w), alarms(w)
