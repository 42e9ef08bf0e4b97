# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists that change: files that are followed, live edits, updates that are held, odd lines, what survives a restart."""
import os
import time

from gateway import VerbFailed
from world import VPN, World, rcode

BLOCK = {"more_lists": "  b: { files: [lists/b] }\n", "filter": "filter:\n  - { name: content, names: [b], block: nxdomain }\n"}


def is_blocked(w, name):
    return rcode(w.ask(name)) == "NXDOMAIN"


def fails(fn, *words):
    try:
        fn()
    except VerbFailed as e:
        for word in words:
            assert word in str(e), f"{word!r} is not in: {e}"
        return str(e)
    raise AssertionError("it was accepted")


def test_a_new_name_in_the_file_is_steered_within_a_second():
    with World() as w:
        w.start()
        (a,) = w.addresses("ip-c6130121.later.yard")
        assert w.exit_of(a) == "0"
        w.write_list("vpn", [*VPN, "later.yard"])
        took = w.wait(lambda: w.exit_of(w.addresses("ip-c6130122.later.yard")[0], timeout=0.1) == "2", 2)
        assert took is not None and took < 1, f"took {took} s"
        # An answer that is in the cache counts as well.
        assert w.addresses("ip-c6130121.later.yard") == [a] and w.exit_of(a) == "2"


def test_kinds_of_replacing_a_file():
    with World() as w:
        w.write_list("b", ["first.test"])
        w.start(**BLOCK)
        path = os.path.join(w.lists_dir, "b")
        assert is_blocked(w, "first.test")
        with open(path, "a", encoding="utf-8") as f:
            f.write("appended.test\n")
        assert w.wait(lambda: is_blocked(w, "appended.test"), 2) is not None, "written in place"
        w.write_list("real", ["first.test", "linked.test"])
        os.symlink(os.path.join(w.lists_dir, "real"), path + ".link")
        os.rename(path + ".link", path)
        assert w.wait(lambda: is_blocked(w, "linked.test"), 2) is not None, "a symbolic link in its place"
        assert not is_blocked(w, "appended.test")


def test_glob_picks_up_new_files():
    with World() as w:
        os.mkdir(os.path.join(w.lists_dir, "many"))
        w.write_list("many/a.txt", ["a.test"])
        w.start(more_lists='  b: { files: ["lists/many/*.txt"] }\n', filter=BLOCK["filter"])
        assert is_blocked(w, "a.test") and not is_blocked(w, "z.test")
        w.write_list("many/z.txt", ["z.test"])
        assert w.wait(lambda: is_blocked(w, "z.test"), 2) is not None


def test_add_remove_diff():
    with World() as w:
        w.start()
        (a,) = w.addresses("ip-c6130131.edit.yard")
        assert w.exit_of(a) == "0"
        w.gateway.verb("list", "add", "vpn", "edit.yard", "198.18.200.0/28")
        assert w.addresses("ip-c6130131.edit.yard") == [a] and w.exit_of(a) == "2", "in force when the verb returns"
        assert w.exit_of("198.18.200.7") == "2"
        shown = str(w.gateway.verb("list", "vpn"))
        assert "edit.yard" in shown, shown
        w.gateway.verb("list", "remove", "vpn", "edit.yard", "198.18.200.0/28")
        assert w.addresses("ip-c6130131.edit.yard") == [a] and w.exit_of(a) == "0", "removed"
        assert w.exit_of("198.18.200.7") == "0"
        w.gateway.verb("list", "remove", "vpn", "t2-two.test")
        assert all(w.exit_of(x) == "0" for x in w.addresses("t2-two.test")), "a name of the file, taken out by an edit"
        w.write_list("next", ["t2-two.test", "listed.example", "fresh.test"])
        diff = str(w.gateway.verb("list", "diff", "vpn", os.path.join(w.lists_dir, "next")))
        assert "fresh.test" in diff and "zonka" in diff, diff


def test_live_edits_survive_restart_and_new_text():
    with World() as w:
        w.start()
        w.gateway.verb("list", "add", "vpn", "edit.yard")
        w.gateway.stop()
        w.gateway.start()
        assert w.exit_of(w.addresses("ip-c6130141.edit.yard")[0]) == "2", "after a restart"
        w.write_list("vpn", [*VPN, "other.yard"])
        assert w.wait(lambda: w.exit_of(w.addresses("ip-c6130142.other.yard")[0], timeout=0.1) == "2", 2) is not None
        assert w.exit_of(w.addresses("ip-c6130141.edit.yard")[0]) == "2", "after an update of the file"


def test_removing_drops_the_connections_it_moves():
    with World() as w:
        w.start()
        (a,) = w.addresses("ip-c6130143.t2-two.test")
        s = w.site.socket(w.site.c)
        assert w.exit_of(a, sender=s) == "2"
        w.write_list("vpn", VPN[1:])
        assert w.wait(lambda: not w.set_of(a), 2) is not None
        assert w.exit_of(a, sender=s) == "2", "an update of a file moves no open connection"
        assert w.exit_of(a) == "0"
        (b,) = w.addresses("ip-c6130144.listed.example")
        t = w.site.socket(w.site.c)
        assert w.exit_of(b, sender=t) == "2"
        w.gateway.verb("list", "remove", "vpn", "listed.example")
        assert w.exit_of(b, sender=t) == "0", "the verb moves open connections"
        s.close()
        t.close()


def test_address_that_another_name_holds_stays():
    with World() as w:
        w.start()
        (a,) = w.addresses("ip-c6130145.t2-two.test")
        w.addresses("ip-c6130145.listed.example")
        w.gateway.verb("list", "remove", "vpn", "t2-two.test")
        assert w.set_of(a) and w.exit_of(a) == "2"
        w.gateway.verb("list", "remove", "vpn", "listed.example")
        assert not w.set_of(a) and w.exit_of(a) == "0"


def test_a_list_that_shrinks_is_held():
    with World() as w:
        w.write_list("b", [f"n{i}.test" for i in range(100)])
        w.start(**BLOCK)
        w.write_list("b", [f"n{i}.test" for i in range(10)])
        time.sleep(1)
        assert is_blocked(w, "n99.test"), "an update that takes away 90 % is held"
        status = str(w.gateway.verb("status")) + str(w.gateway.verb("list", "b"))
        assert "held" in status or "shrink" in status, status
        w.gateway.verb("list", "reload", "b", "--accept")
        assert not is_blocked(w, "n99.test") and is_blocked(w, "n1.test")


def test_a_file_that_is_not_a_list_is_held():
    with World() as w:
        w.write_list("b", [f"n{i}.test" for i in range(10)])
        w.start(**BLOCK)
        w.write_list("b", ["<html>", "<p>503 Service Unavailable, please come back", "n1.test", "</html> ???"] + ["%%% !!! no name"] * 20)
        time.sleep(1)
        assert is_blocked(w, "n7.test") and is_blocked(w, "n1.test")
        fails(lambda: w.gateway.verb("list", "reload", "b"))
        assert is_blocked(w, "n7.test")


def test_a_file_that_vanishes_keeps_the_old():
    with World() as w:
        w.write_list("b", ["n.test"])
        w.start(**BLOCK)
        os.unlink(os.path.join(w.lists_dir, "b"))
        time.sleep(0.8)
        assert is_blocked(w, "n.test")
        w.gateway.stop()
        w.gateway.start()
        assert is_blocked(w, "n.test"), "the accepted text is kept in state"


def test_one_unreadable_file_holds_the_whole_list():
    with World() as w:
        folder = os.path.join(w.lists_dir, "many")
        os.mkdir(folder)
        for i in (1, 2):
            w.write_list(f"many/{i}.txt", [f"n{i}.test"])
        w.start(filter=BLOCK["filter"], more_lists='  b: { files: ["lists/many/*.txt"] }\n')
        path = os.path.join(folder, "2.txt")
        os.unlink(path)
        os.mkfifo(path)
        assert w.wait(lambda: "2.txt" in str(w.gateway.verb("status")["alarms"]), 8) is not None, "nobody was told"
        assert is_blocked(w, "n1.test") and is_blocked(w, "n2.test"), "what was in force stays whole"
        os.unlink(path)
        w.write_list("many/2.txt", ["n2.test", "n3.test"])
        assert w.wait(lambda: is_blocked(w, "n3.test"), 8) is not None
        assert "2.txt" not in str(w.gateway.verb("status")["alarms"])


def test_too_many_files_and_links_of_others_are_said():
    with World() as w:
        folder = os.path.join(w.lists_dir, "many")
        os.mkdir(folder)
        w.write_list("many/1.txt", ["n1.test"])
        secret = os.path.join(w.site.dir, "secret")
        with open(secret, "w", encoding="ascii") as f:
            f.write("root:$6$shown to nobody\n")
        os.chmod(secret, 0o600)
        w.start(filter=BLOCK["filter"], more_lists='  b: { files: ["lists/many/*.txt"] }\n')
        link = os.path.join(folder, "2.txt")
        os.symlink(secret, link)
        os.lchown(link, 54321, 54321)
        assert w.wait(lambda: "2.txt" in str(w.gateway.verb("status")["alarms"]), 8) is not None, "nobody was told"
        said = w.gateway.verb("list", "reload", "b", check=False)
        assert said.returncode and "shown to nobody" not in said.stdout + said.stderr, said
        assert is_blocked(w, "n1.test")
        os.unlink(link)
        assert w.wait(lambda: not w.gateway.verb("status")["alarms"], 8) is not None, w.gateway.log_end()
        for i in range(2, 4099):
            open(os.path.join(folder, f"{i}.txt"), "w", encoding="ascii").close()
        assert w.wait(lambda: "`b`" in str(w.gateway.verb("status")["alarms"]) or "list b" in str(w.gateway.verb("status")["alarms"]), 10) is not None, "nobody was told"
        said = w.gateway.verb("list", "reload", "b", check=False)
        assert said.returncode and "table full" in said.stdout + said.stderr, said
        assert is_blocked(w, "n1.test"), "what was in force stays"


def _without_good_text(w):
    w.start()
    assert "vpn" in str(w.gateway.verb("status")["alarms"]), w.gateway.verb("status")["alarms"]
    for name in ("t2-two.test", "d-x.yard"):
        assert rcode(w.ask(name)) == "SERVFAIL", "what may be on the list that was never read is not answered"
    assert w.addresses("t1-one.test"), "an earlier rule does not need it"
    seen = w.exit_of("198.18.9.9")
    assert seen in (None, "2"), f"a kill-switched rule on a list that was never read must stay closed, but an address went out by {seen}"
    w.write_list("vpn", VPN)
    assert w.wait(lambda: w.exit_of("198.18.9.9", timeout=0.1) == "0", 3) is not None, "the list came"
    assert w.exit_of(w.addresses("t2-two.test")[0]) == "2"


def test_list_whose_first_text_is_no_list_closes_its_rules():
    with World() as w:
        w.write_list("vpn", ["%%% not !!! a name"] * 20)
        _without_good_text(w)


def test_list_whose_file_is_missing_closes_its_rules():
    with World() as w:
        os.unlink(os.path.join(w.lists_dir, "vpn"))
        _without_good_text(w)


def test_odd_lines():
    text = ["\ufeffbom.test\r", "UPPER.Test.", "  spaced.test   # a comment\r", "=exact.test", "*.star.test", ".dot.test", "b\u00fccher.example", "xn--strae-oqa.example", "", "# nothing",
            "not a name at all", "a..b.test", "x" * 64 + ".test"]
    with World() as w:
        w.write_list("b", text)
        w.start(**BLOCK)
        for name, is_listed in (("bom.test", 1), ("x.upper.test", 1), ("spaced.test", 1), ("exact.test", 1), ("x.exact.test", 0), ("star.test", 1), ("a.star.test", 1), ("dot.test", 1),
                                ("xn--bcher-kva.example", 1), ("xn--strae-oqa.example", 1), ("a.b.test", 0), ("name.test", 0)):
            assert is_blocked(w, name) == bool(is_listed), name
        shown = str(w.gateway.verb("list", "b"))
        assert "a..b.test" in shown or "12" in shown, shown


def test_same_list_text_again_touches_nothing():
    with World() as w:
        w.start()
        (a,) = w.addresses("ip-c6130146.t2-two.test")
        before = w.site.sh(w.site.g, "nft list table inet nameway | grep -c counter; nft -j list sets inet | md5sum | cut -c1-1")
        w.gateway.verb("list", "reload", "vpn")
        assert w.set_of(a) and w.exit_of(a) == "2", before


def test_unknown_names_are_said():
    with World() as w:
        w.start()
        fails(lambda: w.gateway.verb("list", "nolist"), "nolist")
        fails(lambda: w.gateway.verb("list", "add", "vpn", "not a name"))
        fails(lambda: w.gateway.verb("way", "down", "noway"), "noway")
        fails(lambda: w.gateway.verb("lease", "list"), "not in this version")
        fails(lambda: w.gateway.verb("filter", "off", "5m", "no such rule"), "no such rule")


def test_explain_gives_file_and_line():
    with World() as w:
        w.write_list("b", ["# a comment", "one.test", "bad.test"])
        w.start(**BLOCK)
        text = w.gateway.verb("explain", "www.bad.test", json_output=False)
        assert "lists/b" in text and "3" in text and "content" in text, text
        j = w.gateway.verb("explain", "www.bad.test")
        assert "lists/b" in str(j) and "'line': 3" in str(j), j
        # The file has changed since, but what is in force has not.
        with open(os.path.join(w.lists_dir, "b"), "w", encoding="utf-8") as f:
            f.write("%%% !!!\n" * 50)
        time.sleep(0.8)
        assert "'line': 3" in str(w.gateway.verb("explain", "www.bad.test"))
