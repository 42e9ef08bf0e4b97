# SPDX-License-Identifier: GPL-3.0-or-later
"""resolv.conf and hosts files that are followed: a change arrives, and nothing else with it."""
import os
import time

from gateway import Gateway
from site_net import DNS_T1, DNS_T2, DNS_WAN, LAN4
from test_steer import leaves_by
from world import World, rcode, rdata

OTHER = "198.51.100.53"  # the internet has all of 198.51.100.0/24
ADDRESSES = (DNS_WAN, DNS_T1, DNS_T2, OTHER)


def resolv_path(w):
    return os.path.join(w.site.dir, "resolv.conf")


def write_resolv(w, *servers, text=""):
    path = resolv_path(w)
    with open(path + ".new", "w", encoding="utf-8") as f:
        f.write("# made by the test\nsearch lan\n" + "".join(f"nameserver {s}\n" for s in servers) + text)
    os.rename(path + ".new", path)


def follows(w, **kw):
    """The configuration with the group `default` from a resolv.conf."""
    text = w.config(**kw)
    given = "default: { servers: [203.0.113.1] }"
    assert given in text
    return text.replace(given, f"default: {{ resolv-conf: {resolv_path(w)} }}")


def start(w):
    w.upstream = w.site.upstream(log=w.upstream_log, addresses=ADDRESSES)
    w.gateway = Gateway(w.site, follows(w))
    w.gateway.start()


def log_of(w):
    with open(w.gateway.log_path, encoding="utf-8") as f:
        return f.read()


def asked_at(w):
    """Where a fresh name was asked, or None when it failed."""
    name = f"d-{time.monotonic_ns()}.yard"
    if rcode(w.ask(name)) != "NOERROR":
        return None
    return [where for n, _, _, where in w.asked_upstream() if n.rstrip(".") == name][0]


def test_changed_resolv_conf_arrives():
    with World() as w:
        write_resolv(w, DNS_WAN)
        start(w)
        assert asked_at(w) == DNS_WAN
        leaves_by(w, "t2-two.test", "2")
        # An edited configuration waits for a reload, also when it is broken.
        text = follows(w, filter="filter:\n  - { name: late, block: nxdomain }\n")
        w.gateway.write("server: [\n")
        write_resolv(w, OTHER)
        took = w.wait(lambda: asked_at(w) == OTHER, 5)
        assert took is not None and took < 2, f"took {took} s: {w.gateway.log_end()}"
        assert not w.gateway.verb("status")["alarms"], w.gateway.log_end()
        leaves_by(w, "t2-two.test", "2")
        w.gateway.write(text)
        write_resolv(w, DNS_WAN)
        assert w.wait(lambda: asked_at(w) == DNS_WAN, 5) is not None, "the filter rule of the edited file came with it"
        w.gateway.verb("reload")
        assert rcode(w.ask("d-late.yard")) == "NXDOMAIN"


def test_broken_file_stays_said_when_resolv_conf_changes():
    with World() as w:
        write_resolv(w, DNS_WAN)
        start(w)
        w.gateway.write(follows(w) + "broken: [\n")
        assert w.gateway.verb("reload", check=False).returncode
        assert [a["key"] for a in w.gateway.verb("status")["alarms"]] == ["config"]
        write_resolv(w, OTHER)
        assert w.wait(lambda: asked_at(w) == OTHER, 5) is not None, w.gateway.log_end()
        assert [a["key"] for a in w.gateway.verb("status")["alarms"]] == ["config"]
        # The last good configuration is kept with what resolv.conf said last, and reads it again.
        w.gateway.stop()
        w.gateway.start()
        assert asked_at(w) == OTHER
        write_resolv(w, DNS_WAN)
        assert w.wait(lambda: asked_at(w) == DNS_WAN, 5) is not None, w.gateway.log_end()


def test_starts_without_resolv_conf_and_finds_it():
    with World() as w:
        start(w)
        assert rcode(w.ask("d-none.yard")) == "SERVFAIL"
        write_resolv(w, DNS_WAN)
        assert w.wait(lambda: asked_at(w) == DNS_WAN, 8) is not None, w.gateway.log_end()
        # Gone, cut short or too large: servers that were known are asked on, and that is said.
        for spoil in (lambda: os.unlink(resolv_path(w)), lambda: open(resolv_path(w), "w", encoding="ascii").close(),
                      lambda: write_resolv(w, OTHER, text="#" * (65 << 10))):
            spoil()
            assert w.wait(lambda: [a["key"] for a in w.gateway.verb("status")["alarms"]] == ["resolv-conf"], 8) is not None, w.gateway.log_end()
            assert asked_at(w) == DNS_WAN
            write_resolv(w, DNS_WAN)
            assert w.wait(lambda: not w.gateway.verb("status")["alarms"], 8) is not None, w.gateway.log_end()
            assert asked_at(w) == DNS_WAN
        # A reload takes the file as it is.
        os.unlink(resolv_path(w))
        w.gateway.verb("reload")
        assert asked_at(w) is None, w.gateway.log_end()


def test_symbolic_link_is_followed():
    with World() as w:
        run_dir = os.path.join(w.site.dir, "run")
        os.mkdir(run_dir)
        stub = os.path.join(run_dir, "stub.conf")
        with open(stub, "w", encoding="ascii") as f:
            f.write(f"nameserver {DNS_WAN}\n")
        os.symlink(stub, resolv_path(w))
        start(w)
        assert asked_at(w) == DNS_WAN
        with open(stub, "w", encoding="ascii") as f:
            f.write(f"nameserver {OTHER}\n")
        assert w.wait(lambda: asked_at(w) == OTHER, 4) is not None, w.gateway.log_end()


def test_own_address_is_left_out():
    with World() as w:
        write_resolv(w, LAN4, OTHER)
        start(w)
        assert asked_at(w) == OTHER
        assert f"`{LAN4}` is where nameway itself listens" in log_of(w)
        # An address that comes to a listening interface later counts too.
        write_resolv(w, "192.168.8.77", OTHER)
        w.site.batch(w.site.g, "addr add 192.168.8.77/24 dev br-lan")
        assert w.wait(lambda: "`192.168.8.77` is where nameway itself listens" in log_of(w), 5) is not None, w.gateway.log_end()
        assert w.wait(lambda: asked_at(w) == OTHER, 5) is not None, w.gateway.log_end()
        p = w.gateway.check()
        assert p.returncode == 0 and "itself listens" in p.stdout, p.stdout
        w.gateway.write(w.config().replace("servers: [203.0.113.1]", "servers: [192.168.8.77]"))
        p = w.gateway.check()
        assert p.returncode == 2 and "it would ask itself" in p.stdout, p.stdout


def write_hosts(w, name, text):
    path = os.path.join(w.site.dir, name)
    with open(path + ".new", "w", encoding="utf-8") as f:
        f.write(text)
    os.rename(path + ".new", path)


HOSTS = {"more": "local: { domain: lan, hosts: [one.hosts, two.hosts], records: [\"printer.lan A 192.168.8.9\", \"www.lan CNAME printer.lan\"] }\n"}


def with_hosts(w):
    return w.config(**HOSTS).replace("local: { domain: lan }\n", "", 1)


def test_hosts_files_are_there_at_ready_and_followed():
    with World() as w:
        write_hosts(w, "one.hosts", "192.168.8.20 nas nas.lan\n2001:db8:8::20 nas.lan\n")
        w.upstream = w.site.upstream(log=w.upstream_log)
        w.gateway = Gateway(w.site, with_hosts(w))
        w.gateway.start()
        assert w.addresses("nas.lan") == ["192.168.8.20"] and w.addresses("nas.lan", "AAAA") == ["2001:db8:8::20"]
        assert w.addresses("www.lan") == ["192.168.8.9"]
        write_hosts(w, "one.hosts", "192.168.8.21 nas.lan\n")
        took = w.wait(lambda: w.addresses("nas.lan") == ["192.168.8.21"], 5)
        assert took is not None and took < 1, f"took {took} s: {w.gateway.log_end()}"
        write_hosts(w, "two.hosts", "192.168.8.30 tv.lan\n")
        assert w.wait(lambda: w.addresses("tv.lan") == ["192.168.8.30"], 5) is not None, w.gateway.log_end()
        # Another record, the same files.
        w.gateway.write(with_hosts(w).replace("192.168.8.9", "192.168.8.10"))
        w.gateway.verb("reload")
        assert w.addresses("www.lan") == ["192.168.8.10"] and w.addresses("nas.lan") == ["192.168.8.21"]
        os.kill(w.gateway.children()["server"], 9)
        assert w.wait(lambda: is_answered(w, "tv.lan", "192.168.8.30"), 8) is not None, w.gateway.log_end()
        os.unlink(os.path.join(w.site.dir, "two.hosts"))
        assert w.wait(lambda: not w.addresses("tv.lan"), 5) is not None


def is_answered(w, name, address):
    try:
        return rdata(w.ask(name, timeout=0.5)) == [address]
    except Exception:  # pylint: disable=broad-except
        return False
