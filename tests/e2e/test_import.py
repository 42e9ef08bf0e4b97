# SPDX-License-Identifier: GPL-3.0-or-later
"""A dnsmasq configuration and what `nameway import dnsmasq` makes of it, side by side: dnsmasq runs on the one, namewayd on the other, both are asked
the same. Where they differ is written here, and in docs/internals/import.md."""
import gzip
import os
import random
import shutil
import subprocess

import dns.message
import dns.query
import dns.rcode
import dns.rdatatype

from gateway import Gateway, server_user
from run import Skipped
from site_net import DNS_T1, DNS_T2, DNS_WAN, LAN4, ROOT, tool
from world import World

PORT = 5301
CONF = f"""# a gateway's
interface=br-lan  # where the clients are
bind-interfaces
no-resolv
no-hosts
user=root
addn-hosts = {{dir}}/hosts
  server={DNS_WAN}
server=/split.yard/sp2.yard/{DNS_T1}
server=/std.split.yard/#
server=/deep.std.split.yard/{DNS_T2}
rev-server=198.18.0.0/16,{DNS_T2}
local=/lan/
domain=lan
expand-hosts
local=/nowhere.yard/
server=/d-some.nowhere.yard/{DNS_T1}
address=/v4.yard/192.0.2.1
address=/.both.yard/192.0.2.2
address=/both.yard/2001:db8:1::2
address=/hash.yard/.Hash2.YARD/#
address=/d-ok.hash.yard/192.0.2.5
server=/d-fine.hash.yard/#
address=/zero4.yard/0.0.0.0
address=/nx.yard/
address=/pin.nx.yard/192.0.2.3
address=/nx.v4.yard/
server=/d-up.v4.yard/{DNS_T2}
address=/*star.yard/192.0.2.9
address=/*.below.yard/192.0.2.10
cname=alias.yard,alias2.yard,host.yard
cname=lanalias.lan,box.lan
host-record=host.yard,192.0.2.20,2001:db8::20
host-record=ttl.yard,192.0.2.21,300
txt-record=txt.yard,"hello, \\"w\\" world",second
txt-record=empty.yard
srv-host=_sip._tcp.yard,sip.yard,5060,10,20
srv-host=_ldap._tcp,sip.yard,389
srv-host=_none._tcp.x.yard
mx-host=mx.yard,mail.yard,20
mx-host=mxself.yard
mx-target=mt.yard
ptr-record=9.2.0.192.in-addr.arpa,nine.yard
ptr-record=s._dns-sd._udp.yard,"Nice Name.yard"
naptr-record=n.yard,10,20,U,E2U+sip,!^.*$!sip:x@yard!,
caa-record=caa.yard,0,issue,ca.example
dns-rr=rr.yard,65280,01:23:45
bogus-priv
domain-needed
bogus-nxdomain=198.18.222.0/24
"""
HOSTS = "192.168.8.30 box other\n192.0.2.31 hosted.nx.yard\n192.0.2.32 hosted.v4.yard\n192.0.2.33 hosted.hash.yard\n"
RECORDS = "bog.yard A 198.18.222.7\npriv.yard A 192.168.77.7\npriv.okpriv.yard A 192.168.77.8\nplain A 198.18.5.5\n"
SAME = """
d-a.yard A AAAA TXT
nx-b.yard A
nodata-b.yard A
d-a.split.yard A AAAA
split.yard A
d-xsplit.yard A
d-a.sp2.yard A
d-a.std.split.yard A
d-a.deep.std.split.yard A
3.5.18.198.in-addr.arpa PTR
nowhere.yard A AAAA TXT MX
x.nowhere.yard A
d-some.nowhere.yard A
d-x.d-some.nowhere.yard A
nothing.lan A AAAA
box A AAAA
box.lan A AAAA TXT
other.lan A
v4.yard A
x.v4.yard A
both.yard A AAAA
a.b.both.yard A AAAA
xboth.yard A
hash.yard A AAAA
d-x.hash2.yard A AAAA
d-ok.hash.yard A
d-fine.hash.yard A AAAA
zero4.yard A
x.nx.yard A AAAA TXT HTTPS
pin.nx.yard A
x.pin.nx.yard A
nx.v4.yard A AAAA TXT
d-up.v4.yard A AAAA
d-x.d-up.v4.yard A
star.yard A
xstar.yard A
a.star.yard A
below.yard A
a.below.yard A
a.b.below.yard A
alias.yard A AAAA CNAME
alias2.yard A
lanalias.lan A
host.yard A AAAA
ttl.yard A
txt.yard TXT
empty.yard TXT
_sip._tcp.yard SRV
_ldap._tcp.lan SRV
_none._tcp.x.yard SRV
mx.yard MX
mxself.yard MX
9.2.0.192.in-addr.arpa PTR
20.2.0.192.in-addr.arpa PTR
30.8.168.192.in-addr.arpa PTR
7.7.168.192.in-addr.arpa PTR
1.0.0.10.in-addr.arpa PTR
n.yard NAPTR
caa.yard CAA
rr.yard TYPE65280
bog.yard A
plain A AAAA
hosted.nx.yard A AAAA
hosted.v4.yard A
hosted.hash.yard A
"""
# What differs, and means to: name, type, what nameway says.
NODATA = ("NOERROR", frozenset())
DIFFERENT = {
    # An address decides about all types; dnsmasq asks servers for those it has no address of.
    ("v4.yard", "AAAA"): NODATA, ("v4.yard", "TXT"): NODATA, ("host.yard", "TXT"): NODATA, ("txt.yard", "A"): NODATA, ("hosted.v4.yard", "TXT"): NODATA,
    ("pin.nx.yard", "AAAA"): NODATA, ("hash.yard", "TXT"): NODATA, ("hash.yard", "HTTPS"): NODATA,
    ("zero4.yard", "AAAA"): ("NOERROR", frozenset({("zero4.yard.", "AAAA", "::")})),
    # dnsmasq says that a name exists when a hosts file has names under it.
    ("nx.yard", "A"): ("NXDOMAIN", frozenset()),
    # The letters of a name stay as they are written.
    ("s._dns-sd._udp.yard", "PTR"): ("NOERROR", frozenset({("s._dns-sd._udp.yard.", "PTR", "Nice\\032Name.yard.")})),
}


def outcome(r):
    return dns.rcode.to_text(r.rcode()), frozenset((rr.name.to_text().lower(), dns.rdatatype.to_text(rr.rdtype), d.to_text()) for rr in r.answer for d in rr)


class Pair:
    """dnsmasq and nameway on one machine, by one configuration."""

    def __init__(self, w, conf, extra=""):
        self.w = w
        self.dnsmasq = shutil.which("dnsmasq") or shutil.which("dnsmasq", path="/usr/sbin:/sbin")
        if not self.dnsmasq:
            raise Skipped("there is no dnsmasq (Debian: dnsmasq-base)")
        self.dir = w.site.dir
        self.write("hosts", HOSTS)
        self.write("records", RECORDS)
        self.conf = self.write("dnsmasq.conf", conf.format(dir=self.dir))
        self.imported = subprocess.run([tool("nameway"), "import", "dnsmasq", self.conf], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True)
        self.write("imported.yaml", self.imported.stdout)
        w.upstream = w.site.upstream(log=w.upstream_log, records=os.path.join(self.dir, "records"))
        w.gateway = Gateway(w.site, f"include: imported.yaml\nserver: {{ state: {self.dir}/state, control: {self.dir}/control.sock, user: {server_user()} }}\n{extra}")
        w.gateway.start()
        beside = self.write("beside.conf", conf.format(dir=self.dir) + f"port={PORT}\n")
        self.p = w.site.start(w.site.g, [self.dnsmasq, "-k", "-C", beside, "--pid-file=", "--log-facility=" + os.path.join(self.dir, "dnsmasq.log")])
        up = w.wait(lambda: self.p.poll() is None and self.is_up(), 5)
        assert up is not None, "dnsmasq did not start"

    def is_up(self):
        try:
            self.ask("box.lan", "A", PORT, timeout=0.2)
            return True
        except dns.exception.Timeout:
            return False

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def ask(self, name, rdtype, port=53, timeout=6.0):
        q = dns.message.make_query(name, rdtype)
        with self.w.site.socket(self.w.site.c) as s:
            s.setblocking(False)
            return dns.query.udp(q, LAN4, timeout, port=port, sock=s)

    def both(self, name, rdtype):
        """What each says, and whom it asked for that."""
        answers = []
        for port in (53, PORT):
            before = len(self.w.asked_upstream())
            said = outcome(self.ask(name, rdtype, port))
            asked = {(n, t, where) for n, t, _, where in self.w.asked_upstream()[before:] if n.rstrip(".").lower() == name.lower()}
            answers.append((said, frozenset(where for _, _, where in asked)))
        return answers

    def compare(self, table):
        wrong = []
        for line in table.strip().splitlines():
            name, *types = line.split()
            for rdtype in types:
                ours, theirs = self.both(name, rdtype)
                if ours != theirs:
                    wrong.append(f"{name} {rdtype}: nameway {ours}, dnsmasq {theirs}")
        assert not wrong, "\n" + "\n".join(wrong)

    def end(self):
        self.w.site.stop(self.p)


def test_a_configuration_beside_dnsmasq():
    with World() as w:
        pair = Pair(w, CONF)
        assert "not carried over" not in pair.imported.stderr, pair.imported.stderr
        pair.compare(SAME)
        for (name, rdtype), ours in DIFFERENT.items():
            said, theirs = pair.both(name, rdtype)
            assert said[0] == ours, f"{name} {rdtype}: {said}"
            assert said != theirs, f"{name} {rdtype} is no difference: {said}"
        pair.end()


def test_rebind_protection_and_every_name_beside_dnsmasq():
    conf = f"interface=br-lan\nbind-interfaces\nno-resolv\nno-hosts\nuser=root\nserver=/okpriv.yard/yard/{DNS_WAN}\nstop-dns-rebind\nrebind-domain-ok=/okpriv.yard/other.yard\naddress=/#/192.0.2.77\n"
    with World() as w:
        pair = Pair(w, conf)
        pair.compare("priv.okpriv.yard A\npriv.yard A\nd-a.yard A\nany.example A\nexample A\n")
        pair.end()


def test_types_left_out_beside_dnsmasq():
    with World() as w:
        pair = Pair(w, f"interface=br-lan\nbind-interfaces\nno-resolv\nno-hosts\nuser=root\nserver={DNS_WAN}\nfilter-AAAA\nlocal=//\nserver=/d-two/{DNS_T1}\n")
        pair.compare("d-a.yard A TXT\nd-one A\nd-two A\nd-b.d-two A\n")
        assert outcome(pair.ask("d-a.yard", "AAAA")) == NODATA and outcome(pair.ask("d-a.yard", "AAAA", PORT)) == NODATA
        pair.end()


def test_a_block_list_beside_dnsmasq():
    """A file of nothing but block lines is a list; what else the configuration says of domains beneath it counts."""
    lines = [f"address=/n{i}.blocked.yard/#" for i in range(600)] + ["address=/wide.yard/deep.yard/#", "address=/.dot.yard/#", "address=/*pat.yard/#", "address=/*.only.yard/#",
                                                                "", "# a comment"]
    conf = "interface=br-lan\nbind-interfaces\nno-resolv\nno-hosts\nuser=root\n" + f"server={DNS_WAN}\nserver=/d-free.wide.yard/{DNS_T1}\naddress=/pin.deep.yard/192.0.2.4\nconf-file={{dir}}/block.conf\n"
    with World() as w:
        with open(os.path.join(w.site.dir, "block.conf"), "w", encoding="ascii") as f:
            f.write("\n".join(lines) + "\n")
        pair = Pair(w, conf)
        assert "block.conf" in pair.imported.stdout and "n77." not in pair.imported.stdout
        pair.compare("n1.blocked.yard A AAAA\nx.n599.blocked.yard A\nd-n600.blocked.yard A\nd-blocked.yard A\nwide.yard A AAAA\nx.wide.yard A\nd-free.wide.yard A\n"
                     "d-x.d-free.wide.yard A\nxpat.yard A\npat.yard A\na.pat.yard A\nd-only.yard A\nonly.yard A\na.b.only.yard A\npin.deep.yard A\nx.deep.yard A\ndot.yard A\nx.dot.yard A\nd-xdot.yard A\n")
        # The list is followed.
        with open(os.path.join(w.site.dir, "block.conf"), "a", encoding="ascii") as f:
            f.write("address=/d-later.yard/#\n")
        assert w.wait(lambda: outcome(pair.ask("d-later.yard", "A"))[1] == frozenset({("d-later.yard.", "A", "0.0.0.0")}), 3) is not None
        pair.end()


def test_a_published_block_list_beside_dnsmasq():
    """The same verdict for names of the list, above, beneath and beside them."""
    shared = os.environ.get("NAMEWAY_SHARED", os.path.join(ROOT, "..", "shared"))
    packed = os.path.join(shared, "data", "lists", "dnsmasq", "neodevhost.dnsmasq.conf.gz")
    if not os.path.exists(packed):
        raise Skipped(f"no {packed} (set NAMEWAY_SHARED)")
    with gzip.open(packed, "rt", encoding="utf-8") as f:
        lines = f.readlines()
    names = [line.split("/")[1] for line in lines if line.startswith(("address=/", "local=/", "server=/"))]
    r = random.Random(1)
    asked = set()
    for name in r.sample(names, 60):
        asked |= {name, "d-x." + name, "d-" + name, name.split(".", 1)[1]}
    conf = f"interface=br-lan\nbind-interfaces\nno-resolv\nno-hosts\nuser=root\nserver={DNS_WAN}\nconf-file={{dir}}/block.conf\n"
    with World() as w:
        with open(os.path.join(w.site.dir, "block.conf"), "w", encoding="utf-8") as f:
            f.writelines(lines)
        pair = Pair(w, conf)
        assert "format: dnsmasq" in pair.imported.stdout and len(pair.imported.stdout) < 2000
        pair.compare("".join(f"{name} A\n" for name in sorted(asked) if "." in name))
        pair.end()


def test_nft_sets_of_imported_lines():
    """Separate lines and one line with a comma mean the same, and the most specific domain decides, as dnsmasq has it."""
    conf = (f"interface=br-lan\nno-resolv\nno-hosts\nserver={DNS_WAN}\n"
            "nftset=/vk.yard/4#inet#mine#s1\nnftset=/vk.yard/4#inet#mine#s2\nnftset=/ok.yard/4#inet#mine#s1,4#inet#mine#s2\nnftset=/low.vk.yard/4#inet#mine#s3,6#inet#mine#s6\n")
    with World() as w:
        w.site.nft(w.site.g, "table inet mine {\n" + "".join(f" set s{n} {{ type {t}; }}\n" for n, t in ((1, "ipv4_addr"), (2, "ipv4_addr"), (3, "ipv4_addr"), (6, "ipv6_addr"))) + "}\n")
        path = os.path.join(w.site.dir, "dnsmasq.conf")
        with open(path, "w", encoding="ascii") as f:
            f.write(conf)
        yaml = subprocess.run([tool("nameway"), "import", "dnsmasq", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True).stdout
        with open(os.path.join(w.site.dir, "imported.yaml"), "w", encoding="ascii") as f:
            f.write(yaml)
        w.upstream = w.site.upstream(log=w.upstream_log)
        w.gateway = Gateway(w.site, f"include: imported.yaml\nserver: {{ state: {w.site.dir}/state, control: {w.site.dir}/control.sock, user: {server_user()} }}\n")
        w.gateway.start()

        def holds(address, number):
            return w.site.ok(w.site.g, f"nft get element inet mine s{number} '{{ {address} }}' 2>/dev/null")
        for name, sets in (("ip-c6130101.vk.yard", "12"), ("ip-c6130102.ok.yard", "12"), ("ip-c6130103.low.vk.yard", "3"), ("ip-c6130104.other.yard", "")):
            (a,) = w.addresses(name)
            found = "".join(n for n in "123" if holds(a, n))
            assert found == sets, f"{name}: in {found!r}"
        (a,) = w.addresses("ip6-20010db8e00000000000000000000009.low.vk.yard", "AAAA")
        assert holds(a, 6)
