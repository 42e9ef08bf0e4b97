# SPDX-License-Identifier: GPL-3.0-or-later
"""Starting, stopping, reloading, being killed; configurations that are wrong; what is told about it all."""
import json
import os
import pwd
import signal
import subprocess
import time

from gateway import Gateway
from site_net import Failed, tool
from test_lists import fails
from test_steer import leaves_by
from world import STEER, World, rcode


def kernel_state(w):
    return w.site.sh(w.site.g, "nft list tables; ip rule; ip -6 rule; ip route show table all | grep -v -e cache -e 'proto kernel' | sort; ip -6 route show table all | grep -v 'proto kernel' | sort; cat /proc/sys/net/ipv4/conf/*/rp_filter")


def test_clear_leaves_nothing():
    with World() as w:
        before = kernel_state(w)
        w.start()
        leaves_by(w, "t2-two.test", "2")
        w.gateway.stop()
        p = w.gateway.clear()
        assert p.returncode == 0, p.stdout
        after = kernel_state(w)
        assert after == before, f"before:\n{before}\nafter:\n{after}"
        assert w.exit_of("198.51.100.3") == "0"


def test_stop_keeps_kill_switched_ways_closed():
    with World() as w:
        w.start()
        (a,) = w.addresses("ip-c6130161.t2-two.test")
        (b,) = w.addresses("ip-c6120161.d-x.yard")
        assert w.exit_of(a) == "2" and w.exit_of(b) == "0"
        assert w.gateway.stop() == 0, w.gateway.log_end()
        assert w.exit_of(a) in (None, "2"), "what a kill switch holds leaked after the end"
        assert w.exit_of("198.51.100.3") in (None, "2")


def test_guard_closes_before_the_start():
    with World() as w:
        w.gateway = Gateway(w.site, w.config())
        assert w.exit_of("198.51.100.3") == "0"
        p = w.gateway.guard()
        assert p.returncode == 0, p.stdout
        assert w.exit_of("198.51.100.3") is None and w.exit_of("198.18.0.1") is None, "clients' packets before nameway decides"
        w.start()
        leaves_by(w, "t2-two.test", "2")
        leaves_by(w, "d-x.yard", "0")


def test_sets_are_restored_before_anything_is_forwarded():
    with World() as w:
        w.start()
        held = w.addresses("ip-c6130162.t2-two.test") + w.addresses("t2-two.test", "AAAA")
        time.sleep(1.2)
        for sig in (signal.SIGTERM, signal.SIGKILL):
            w.gateway.stop(sig)
            time.sleep(0.3)
            # The reboot: an empty kernel.
            w.site.sh(w.site.g, "nft delete table inet nameway; for f in -4 -6; do ip $f rule flush; ip $f rule add pref 32766 lookup main; done", check=False)
            w.gateway.guard()
            w.gateway.start()
            for a in held:
                seen = w.exit_of(a)
                assert seen == "2", f"{a} that a client holds left by {seen} after {sig!r}"


def test_kill_9_and_start_again():
    with World() as w:
        w.start()
        (a,) = w.addresses("ip-c6130163.t2-two.test")
        s = w.site.socket(w.site.c)
        assert w.exit_of(a, sender=s) == "2"
        time.sleep(1.2)
        w.gateway.stop(signal.SIGKILL)
        assert w.exit_of(a, timeout=0.2) in (None, "2") and w.exit_of(a, sender=s, timeout=0.2) in (None, "2")
        w.gateway.start()
        assert w.exit_of(a, sender=s) == "2" and w.exit_of(a) == "2"
        leaves_by(w, "t2-new.listed.example", "2")
        s.close()


def test_processes_that_die_are_started_again():
    with World() as w:
        w.start()
        for which in ("enforcer", "server"):
            (a,) = w.addresses("ip-c6130164.t2-two.test")
            os.kill(w.gateway.children()[which], signal.SIGKILL)
            assert w.exit_of(a, timeout=0.3) in (None, "2"), f"the {which} died and it leaked"

            def is_answered():
                try:
                    return w.ask(f"t2-{time.monotonic()}.listed.example".replace(".", "-", 1), timeout=0.4).answer
                except Exception:  # pylint: disable=broad-except
                    return False
            took = w.wait(is_answered, 6, 0.05)
            assert took is not None, f"no answers after the {which} died: {w.gateway.log_end()}"
            assert w.exit_of(a) == "2"
            leaves_by(w, f"t2-after-{which}.listed.example", "2")


def test_privileges():
    with World() as w:
        w.start()
        kids = w.gateway.children()
        assert set(kids) == {"enforcer", "server"}, kids
        status = {}
        for name, pid in kids.items():
            with open(f"/proc/{pid}/status", encoding="ascii") as f:
                status[name] = dict(line.split(":", 1) for line in f.read().splitlines() if ":" in line)
        server, enforcer = status["server"], status["enforcer"]
        assert int(server["CapEff"], 16) == 0 and int(server["CapPrm"], 16) == 0, "the packet parser has capabilities"
        assert server["Uid"].split()[0] != "0" and server["NoNewPrivs"].strip() == "1" and server["Seccomp"].strip() == "2", server["Seccomp"]
        assert int(enforcer["CapEff"], 16) & ~(1 << 12 | 1 << 13) == 0, f"the enforcer has more than NET_ADMIN and NET_RAW: {enforcer['CapEff']}"
        assert os.stat(os.path.join(w.site.dir, "state")).st_mode & 0o777 == 0o700
        mode = os.stat(w.gateway.socket)
        assert mode.st_mode & 0o777 == 0o660 and mode.st_uid == 0


def test_started_without_privileges():
    with World() as w:
        w.gateway = Gateway(w.site, w.config())
        user = pwd.getpwnam("nobody")
        p = subprocess.run([tool("namewayd"), "-c", w.gateway.config_path], user=user.pw_uid, group=user.pw_gid, extra_groups=[], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=20)
        assert p.returncode in (1, 2), p.returncode
        assert "root" in p.stdout or "CAP_" in p.stdout or "privilege" in p.stdout or "ermi" in p.stdout, p.stdout


def test_changing_verbs_need_the_right_user():
    with World() as w:
        w.start()
        os.chmod(w.gateway.socket, 0o666)
        user = pwd.getpwnam("daemon")
        for verb, is_fine in ((["status"], True), (["cache", "flush"], False), (["reload"], False), (["way", "down", "tunnel2"], False), (["list", "add", "vpn", "x.test"], False)):
            p = subprocess.run([tool("nameway"), "-s", w.gateway.socket, *verb], user=user.pw_uid, group=user.pw_gid, extra_groups=[], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=20)
            assert (p.returncode == 0) == is_fine, f"{verb}: {p.returncode} {p.stdout}"


def test_a_second_nameway_is_refused():
    with World() as w:
        w.start()
        p = w.site.start(w.site.g, [tool("namewayd"), "-c", w.gateway.config_path], stderr=subprocess.PIPE)
        out, err = p.communicate(timeout=15)
        assert p.returncode == 1 and "ready" not in out, f"{p.returncode} {out} {err}"
        # Also one with other paths: the kernel's table and marks are one.
        text = w.config().replace("/state", "/state2").replace("control.sock", "control2.sock").replace("@53", "@5353")
        with open(os.path.join(w.site.dir, "second.yaml"), "w", encoding="utf-8") as f:
            f.write(text)
        p = w.site.start(w.site.g, [tool("namewayd"), "-c", os.path.join(w.site.dir, "second.yaml")], stderr=subprocess.PIPE)
        out, err = p.communicate(timeout=15)
        assert p.returncode == 1 and "ready" not in out and err, f"{p.returncode} {out} {err}"
        leaves_by(w, "t2-two.test", "2")


def test_reload_of_a_broken_configuration_changes_nothing():
    with World() as w:
        good = w.config()
        w.start()
        w.gateway.write(good.replace("kill-switch", "kil-switch", 1))
        said = fails(lambda: w.gateway.verb("reload"), "nameway.yaml:", "kill-switch")
        assert any(part.isdigit() for part in said.split("nameway.yaml:")[1].split(":")[:2]), said
        w.gateway.write(good + "\nserver: [")
        fails(lambda: w.gateway.verb("reload"), "nameway.yaml:")
        leaves_by(w, "t2-two.test", "2")
        w.gateway.p.send_signal(signal.SIGHUP)
        time.sleep(0.5)
        leaves_by(w, "t2-x.listed.example", "2")
        assert w.gateway.check().returncode == 2
        # It even starts: on the last good one, saying so.
        w.gateway.stop()
        w.gateway.start()
        leaves_by(w, "t2-y.listed.example", "2")
        assert w.gateway.verb("status")["alarms"], "no alarm on the last good configuration"
        w.gateway.write(good)
        w.gateway.verb("reload")
        assert w.wait(lambda: not w.gateway.verb("status")["alarms"], 3) is not None, w.gateway.verb("status")["alarms"]


def test_broken_configuration_and_no_good_one():
    with World() as w:
        w.gateway = Gateway(w.site, "servr: {}\n")
        p = w.site.start(w.site.g, [tool("namewayd"), "-c", w.gateway.config_path], stderr=subprocess.PIPE)
        out, err = p.communicate(timeout=15)
        assert p.returncode == 2 and "server" in err and "nameway.yaml:1:1" in err, f"{p.returncode} {out} {err}"


def test_reload_applies_the_whole():
    with World() as w:
        w.start()
        (a,) = w.addresses("ip-c6130165.t2-two.test")
        s = w.site.socket(w.site.c)
        assert w.exit_of(a, sender=s) == "2"
        assert w.exit_of(w.addresses("d-x.yard")[0]) == "0"
        w.write_list("more", ["fresh.yard"])
        w.gateway.write(w.config(more_lists="  more: { files: [lists/more] }\n",
                                 steer=STEER.replace("steer:\n", "steer:\n  - { name: fresh, names: [more], way: tunnel1 }\n"),
                                 filter="filter:\n  - { names: [more], clients: [iot], block: nxdomain }\n"))
        assert w.addresses("ip-c6128166.fresh.yard") == ["198.18.129.102"] and w.exit_of("198.18.129.102") == "0", "not before the reload"
        w.gateway.verb("reload")
        assert w.exit_of("198.18.129.102") in ("0", "1")
        leaves_by(w, "t1-x.fresh.yard", "1")
        assert w.addresses("ip-c6128166.fresh.yard") == ["198.18.129.102"] and w.exit_of("198.18.129.102") == "1", "an answer that was in the cache"
        assert w.set_of(a) and w.exit_of(a, sender=s) == "2", "sets and connections of what did not change"
        assert rcode(w.ask("fresh.yard", server="192.168.20.1", ns=w.site.d)) == "NXDOMAIN"
        s.close()


def test_reload_that_takes_a_rule_away():
    with World() as w:
        w.start()
        (a,) = w.addresses("ip-c6130167.t2-two.test")
        s = w.site.socket(w.site.c)
        assert w.exit_of(a, sender=s) == "2"
        w.gateway.write(w.config(steer="steer:\n  - { name: Tunnel 1, clients: [lan, iot], names: [vpn1], way: tunnel1 }\n  - { way: direct }\n"))
        w.gateway.verb("reload")
        assert w.exit_of(a) == "0" and w.exit_of(a, sender=s) == "0", "a rule change moves the connections it is about"
        leaves_by(w, "t1-one.test", "1")
        s.close()


def test_keys_of_later_versions_are_refused_by_name():
    with World() as w:
        for key, more in (("dhcp", "dhcp: { }\n"), ("kernel", "kernel: { interfaces: [br-lan] }\n"), ("web", "web: { listen: 127.0.0.1@80 }\n")):
            w.gateway = Gateway(w.site, w.config(more=more))
            p = w.gateway.check()
            assert p.returncode == 2 and f"`{key}`" in p.stdout and "not in this version" in p.stdout, p.stdout


def test_full_disk_under_state():
    with World() as w:
        state = os.path.join(w.site.dir, "state")
        os.mkdir(state)
        w.gateway = Gateway(w.site, w.config())
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=0700", "tmpfs", state], check=False).returncode:
            import run
            raise run.Skipped("cannot mount a small file system here")
        try:
            with open(os.path.join(state, "filler"), "wb") as f:
                while True:
                    try:
                        os.write(f.fileno(), b"x" * 4096)
                    except OSError:
                        break
            w.start()
            leaves_by(w, "t2-two.test", "2")
            w.write_list("vpn1", ["t1-one.test", "both.test", "t1-added.test"])
            assert w.wait(lambda: w.exit_of(w.addresses("t1-added.test")[0], timeout=0.1) == "1", 3) is not None, "a change must work from memory"
            w.gateway.verb("list", "add", "vpn1", "t1-edit.test", check=False)
            assert w.wait(lambda: w.gateway.verb("status")["alarms"], 3) is not None, "a full disk is said"
        finally:
            if w.gateway.p:
                w.gateway.stop()
            subprocess.run(["umount", "-l", state], check=False)


def test_status_rules_explain():
    with World() as w:
        w.start()
        w.addresses("t2-two.test")
        status = w.gateway.verb("status")
        assert status["serving"] is True and not status["alarms"], json.dumps(status["alarms"])
        assert {x["name"] for x in status["lists"]} == {"vpn1", "vpn"}, status["lists"]
        rules = w.gateway.verb("rules")
        assert [r["name"] for r in rules["steer"]] == ["Tunnel 1", "Tunnel 2", "rule 3"], rules["steer"]
        for verb in (["status"], ["rules"], ["ways"], ["list"], ["list", "vpn"], ["cache", "stats"], ["explain", "t2-two.test"], ["explain", "198.51.100.3"]):
            text = w.gateway.verb(*verb, json_output=False)
            assert text.strip() and "None" not in text and "null" not in text, f"{verb}: {text}"
        for client in ("192.168.8.2", "br-lan"):
            j = w.gateway.verb("explain", "t2-two.test", "--client", client)
            assert j["steer"]["way"] == "tunnel2" and j["addresses"][0]["in_kernel"] is True, j
        j = w.gateway.verb("explain", "t1-x.both.test", "--client", "192.168.8.2")
        assert j["steer"]["way"] == "tunnel1" and "Tunnel 2" in str(j["lost"]), j
        j = w.gateway.verb("explain", "d-free.listed.example", "--client", "192.168.8.2")
        assert j["steer"]["way"] == "direct", j
        j = w.gateway.verb("explain", "198.51.100.3", "--client", "192.168.8.2")
        assert j["rule"]["name"] == "Tunnel 2" and "vpn" in str(j), j
        j = w.gateway.verb("explain", "198.18.0.5", "--client", "192.168.8.2")
        assert "direct" in j["outcome"] or "main" in j["outcome"], j


def test_help_of_every_verb():
    for verb in ("status", "explain", "list", "rules", "ways", "way", "test", "cache", "reload", "check", "load"):
        p = subprocess.run([tool("nameway"), verb, "--help"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        assert p.returncode == 0 and verb in p.stdout and len(p.stdout) > 40, f"{verb}: {p.returncode} {p.stdout}"


def test_verb_without_a_daemon():
    p = subprocess.run([tool("nameway"), "-s", "/nonexistent/control.sock", "status"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert p.returncode != 0 and "/nonexistent/control.sock" in p.stdout, p.stdout


def test_clash_with_another_owner_of_the_marks():
    with World() as w:
        w.site.sh(w.site.g, "ip rule add fwmark 0x1000/0xf000 lookup 77")
        w.gateway = Gateway(w.site, w.config())
        w.upstream = w.site.upstream()
        try:
            w.gateway.start()
            alarms = str(w.gateway.verb("status")["alarms"])
            assert "0x1000" in alarms or "clash" in alarms, f"a foreign rule on our mark bits is neither refused nor said: {alarms}"
        except Failed as e:
            assert "0x1000" in str(e) or "rule" in str(e), e
