# SPDX-License-Identifier: GPL-3.0-or-later
"""Reported faults of lists and of reading dnsmasq's configurations. (Others stand where their subject is: test_filter, test_lists, test_forward, test_reports.)"""
import glob
import os
import re
import subprocess
import time

import dns.exception

import run
from forward import ForwardWorld
from gateway import server_user
from site_net import LAN4, shared, tool
from test_lists import BLOCK, is_blocked
from world import World, rcode, rdata


def middle_ms(w, names):
    times = []
    for n in names:
        begin = time.monotonic()
        w.ask(n)
        times.append(time.monotonic() - begin)
    return sorted(times)[len(times) // 2] * 1000


def test_large_hosts_and_dnsmasq_lists_cost_nothing_else():
    """99,000 hosts lines and 111,000 address= lines: a query costs what it costs without, and they load at once."""
    with World() as w:
        w.write_list("b", ["||first.test^"])
        w.start(**{**BLOCK, "more_lists": "  b: { files: [lists/b], shrink-limit: 100% }\n"})
        for i in range(100):
            w.ask(f"d-q{i}.yard")
        before = middle_ms(w, [f"d-q{i}.yard" for i in range(100)])
        for kind, lines in (("hosts", [f"0.0.0.0 h{i}.m{i % 997}.test" for i in range(99000)]), ("dnsmasq", [f"address=/h{i}.m{i % 997}.test/" for i in range(111000)])):
            start = time.monotonic()
            w.write_list("b", lines)
            w.gateway.verb("list", "reload", "b", "--accept", check=False)
            assert w.wait(lambda: is_blocked(w, "h98999.m296.test"), 20) is not None, w.gateway.log_end()
            took = time.monotonic() - start
            assert took < 10, f"{kind}: {took:.1f} s"
            assert w.gateway.verb("list", "b")["text"]["files"][0]["format"] == kind
            # The list is being written to the disk meanwhile, which a machine with few processors notices.
            now = []

            def is_as_before():
                now.append(middle_ms(w, [f"d-q{i}.yard" for i in range(100)]))
                return now[-1] < 3 * before + 1
            assert w.wait(is_as_before, 10) is not None, f"{kind}: {now} ms a query, {before:.2f} without the list"


def test_names_that_are_none_are_counted_with_their_line():
    with World() as w:
        w.write_list("b", ["0.0.0.0 good.test", "0.0.0.0 6\u00d766.test", "0.0.0.0 b\u00fccher.test", "0.0.0.0 also.test", "0.0.0.0 more.test # \u00d7 in a comment"])
        w.start(**BLOCK)
        for name in ("good.test", "xn--bcher-kva.test", "also.test", "more.test"):
            assert is_blocked(w, name), name
        text = w.gateway.verb("list", "b")["text"]
        assert text["bad"] == 1 and "2" in str(text["bad_lines"][0]) and "66" in str(text["bad_lines"][0]), text


def test_file_of_which_most_is_refused_keeps_the_old_and_says_so():
    with World() as w:
        w.write_list("b", [f"0.0.0.0 n{i}.test" for i in range(50)])
        w.start(**BLOCK)
        w.write_list("b", [f"0.0.0.0 n{i}.test" for i in range(50)] + ["0.0.0.0 %%% ???"] * 60)
        assert w.wait(lambda: any(a["key"] == "list:b" for a in w.gateway.verb("status")["alarms"]), 8) is not None, "loudly"
        assert is_blocked(w, "n49.test")
        w.write_list("b", [f"0.0.0.0 n{i}.test" for i in range(50)] + ["0.0.0.0 good.test"])
        assert w.wait(lambda: is_blocked(w, "good.test"), 8) is not None
        assert not w.gateway.verb("status")["alarms"]


def test_memory_of_a_list_is_told():
    with World() as w:
        w.write_list("b", [f"n{i}.m{i % 997}.test" for i in range(100000)])
        w.start(**BLOCK)
        j = w.gateway.verb("list")
        assert 1 < j["index"]["bytes_per_name"] < 100 and j["index"]["names"] >= 100000, j["index"]


def test_lists_are_there_at_once_after_a_restart():
    with World() as w:
        w.write_list("b", [f"n{i}.m{i % 997}.test" for i in range(200000)])
        w.start(**BLOCK)
        w.gateway.stop()
        # The files are out of reach, as when they lie on a disk that is not mounted yet.
        os.rename(w.lists_dir, w.lists_dir + ".away")
        w.gateway.launch()
        start = time.monotonic()

        def is_there():
            try:
                return rcode(w.ask("n199999.m599.test", timeout=0.2)) == "NXDOMAIN"
            except (dns.exception.Timeout, OSError):
                return False
        assert w.wait(is_there, 10) is not None, w.gateway.log_end()
        took = time.monotonic() - start
        assert took < 5, f"{took:.1f} s until the first right answer"


# -- configurations of dnsmasq -----------------------------------------------------------------------------------------------------------------

CONF = """# made by the test
   domain-needed
interface=br-lan # Internal
interface = br-iot	# guests
no-resolv
server=203.0.113.1
 server=/corp.example/198.51.100.54
server=/up.corp.example/203.0.113.1
local=/here.example/
address=/.cap.example/192.168.8.40
address=/ads.example/
address=/zero.example/0.0.0.0
address=/two.example/three.example/192.168.8.41   # a comment
host-record=box.example,boxer.example,192.168.8.42,2001:db8:8::42
cname=www.example.net,box.example
mx-host=mail.example,mx.mail.example,20
txt-record=text.example,"one two",three
srv-host=_sip._tcp.example,sip.example,5060,1,2
ptr-record=9.8.168.192.in-addr.arpa,nine.example
caa-record=caa.example,0,issue,"ca.example"
addn-hosts = {dir}/more.hosts
no-hosts
neg-ttl=5
cache-size=1000
dhcp-range=ens9,192.168.8.100,192.168.8.255,12h
dhcp-range=192.168.8.100,192.168.8.200,12h
dhcp-range=192.168.8.100,192.168.8.200,12h
dhcp-option=net:old,3,192.168.8.1
dhcp-option=option6:dns-server,[2606:4700:4700::1111]
nonsense-option=yes
"""
NAMES = ("a.cap.example", "cap.example", "x.ads.example", "ads.example", "zero.example", "x.zero.example", "two.example", "y.three.example", "box.example", "boxer.example", "www.example.net", "d-w.corp.example",
         "x.up.corp.example", "here.example", "x.here.example", "nas.more", "d-free.yard", "nx-x.yard", "nodata-x.yard", "ap.example", "xcap.example")


def convert(w, text):
    """(configuration, what was said) of an import; the configuration must be valid."""
    path = os.path.join(w.site.dir, "dnsmasq.conf")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    p = subprocess.run([tool("nameway"), "import", "dnsmasq", path], stdout=-1, stderr=-1, text=True, timeout=60)
    assert p.returncode == 0, p.stderr
    return p.stdout, p.stderr


def test_dnsmasq_configuration_is_read_as_dnsmasq_reads_it():
    with World() as w:
        conf = CONF.format(dir=w.site.dir)
        out, said = convert(w, conf)
        for line, text in enumerate(conf.splitlines(), 1):
            is_named = f"dnsmasq.conf:{line}:" in said
            must = text.startswith(("dhcp-", "nonsense"))
            may = must or text.startswith(("caa-record", "neg-ttl", "   domain-needed"))
            assert is_named or not must, f"line {line} `{text}` is left out in silence: {said}"
            assert may or not is_named, f"line {line} `{text}` is not carried over: {said}"
        assert '"br-lan@53"' in out and '"br-iot@53"' in out and "Internal" not in out and "guests" not in out, out
        w.gateway = None
        path = os.path.join(w.site.dir, "imported.yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(out)
        p = subprocess.run(["ip", "netns", "exec", w.site.g, tool("namewayd"), "--check", "-c", path], stdout=-1, stderr=subprocess.STDOUT, text=True)
        assert p.returncode == 0, p.stdout


def answer_of(w, server, name, rdtype):
    """(response code, sorted data) over TCP, which neither truncates."""
    r = w.ask(name, rdtype, server=server, tcp=True, timeout=6)
    return rcode(r), sorted(rdata(r))


def test_imported_configuration_answers_as_dnsmasq_does():
    """dnsmasq and nameway side by side in the gateway, one by the other's configuration: the same answers."""
    if not any(os.access(os.path.join(d, "dnsmasq"), os.X_OK) for d in ("/usr/sbin", "/usr/local/sbin", "/usr/bin", "/sbin")):
        raise run.Skipped("dnsmasq is not installed")
    with ForwardWorld() as w:
        with open(os.path.join(w.site.dir, "more.hosts"), "w", encoding="utf-8") as f:
            f.write("192.168.8.43 nas.more\n192.168.8.44 tv.more\n")
        conf = CONF.format(dir=w.site.dir)
        out, _ = convert(w, conf)
        w.begin(split=True)
        w.gateway.stop()
        # What dnsmasq cannot leave out is where this test has its files.
        w.gateway.write(re.sub(r"^server:\n", f"server:\n  state: {w.site.dir}/state2\n  control: {w.site.dir}/control.sock\n  user: {server_user()}\n", out, flags=re.M))
        w.gateway.start()
        w.site.batch(w.site.g, "addr add 192.168.8.66/24 dev br-lan")
        ours = "\n".join(line for line in conf.splitlines() if not line.startswith(("dhcp-", "nonsense", "interface")))
        masq_conf = os.path.join(w.site.dir, "real.conf")
        with open(masq_conf, "w", encoding="utf-8") as f:
            f.write(ours + "\nlisten-address=192.168.8.66\nbind-interfaces\nport=53\n")
        masq = w.site.start(w.site.g, ["dnsmasq", "--keep-in-foreground", "--conf-file=" + masq_conf, "--user=root", "--pid-file=" + w.site.dir + "/masq.pid", "--log-facility=-"], stderr=subprocess.STDOUT)

        def is_up():
            try:
                return w.ask("d-up.yard", server="192.168.8.66", tcp=True, timeout=0.5).answer
            except (OSError, EOFError, dns.exception.DNSException):
                return False
        if w.wait(is_up, 8) is None:
            masq.kill()
            raise AssertionError("dnsmasq did not start: " + masq.stdout.read()[-2000:])
        different = []
        asked = [(n, t) for n in NAMES for t in ("A", "AAAA")] + [("mail.example", "MX"), ("text.example", "TXT"), ("_sip._tcp.example", "SRV"), ("9.8.168.192.in-addr.arpa", "PTR"),
                                                                  ("caa.example", "CAA"), ("43.8.168.192.in-addr.arpa", "PTR"), ("42.8.168.192.in-addr.arpa", "PTR"), ("x.ads.example", "TXT"), ("x.ads.example", "HTTPS"),
                                                                  ("box.example", "TXT"), ("7.8.168.192.in-addr.arpa", "PTR")]
        for name, rdtype in asked:
            theirs, mine = answer_of(w, "192.168.8.66", name, rdtype), answer_of(w, LAN4, name, rdtype)
            if theirs != mine:
                different.append(f"{name} {rdtype}: dnsmasq {theirs}, nameway {mine}")
        assert not different, "\n".join(different)


def test_published_dnsmasq_configurations():
    paths = sorted(glob.glob(shared("conf", "dnsmasq", "*")))
    if not paths:
        raise run.Skipped("no ../shared/data/conf/dnsmasq")
    with World() as w:
        for path in paths:
            p = subprocess.run([tool("nameway"), "import", "dnsmasq", path], stdout=-1, stderr=-1, text=True, timeout=60, cwd=w.site.dir)
            assert p.returncode == 0, f"{path}: {p.stderr}"
            target = os.path.join(w.site.dir, "imported.yaml")
            with open(target, "w", encoding="utf-8") as f:
                f.write(p.stdout)
            check = subprocess.run(["ip", "netns", "exec", w.site.g, tool("namewayd"), "--check", "-c", target], stdout=-1, stderr=subprocess.STDOUT, text=True)
            assert check.returncode == 0, f"{path}: {check.stdout}\n{p.stdout}"
            with open(path, encoding="utf-8", errors="replace") as f:
                for number, line in enumerate(f, 1):
                    word = line.strip().split("=")[0].split("#")[0].strip()
                    if word.startswith("dhcp-") or word in ("enable-tftp", "tftp-root", "enable-ra"):
                        assert f"{path}:{number}:" in p.stderr, f"{path}:{number} `{line.strip()}` is neither carried over nor named"


def test_list_that_outgrows_its_limit_keeps_the_old():
    with World() as w:
        w.write_list("b", [f"n{i}.test" for i in range(100)])
        w.start(**{**BLOCK, "more_lists": "  b: { files: [lists/b], max-names: 200 }\n"})
        assert is_blocked(w, "n99.test")
        w.write_list("b", [f"n{i}.test" for i in range(100)] + [f"grown{i}.test" for i in range(200)])
        assert w.wait(lambda: any(a["key"] == "list:b" for a in w.gateway.verb("status")["alarms"]), 8) is not None, "nobody was told"
        assert is_blocked(w, "n99.test") and not is_blocked(w, "grown1.test")
        assert w.gateway.verb("list", "reload", "b", "--accept", check=False).returncode, "the limit holds for --accept too"
        assert is_blocked(w, "n99.test") and not is_blocked(w, "grown1.test")
        w.write_list("b", [f"n{i}.test" for i in range(100)] + [f"grown{i}.test" for i in range(90)])
        assert w.wait(lambda: is_blocked(w, "grown1.test"), 8) is not None
        assert not w.gateway.verb("status")["alarms"]
