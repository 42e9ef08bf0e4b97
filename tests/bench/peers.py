# SPDX-License-Identifier: GPL-3.0-or-later
"""The peers, each as fast as its manual lets it be for this work: docs/bench.md says why each line is there."""
import subprocess
from place import UPSTREAM
from servers import Server

DNSMASQ = """port={port}
listen-address=127.0.0.1
bind-interfaces
keep-in-foreground
user=root
pid-file=
log-facility=-
no-resolv
no-hosts
server={upstream[0]}#{upstream[1]}
cache-size=10000
dns-forward-max=256
local=/lan/
conf-file={names}
"""


class Dnsmasq(Server):
    name, program, port = "dnsmasq", "dnsmasq", 5301

    def launch(self):
        names = self.write("names", "".join(f"address=/{n}/\n" for n in self.names()))
        conf = self.write("conf", DNSMASQ.format(port=self.port, upstream=UPSTREAM, names=names))
        return self.spawn(["prlimit", "--nofile=1024", "dnsmasq", f"--conf-file={conf}"])

    @staticmethod
    def version():
        return first_line(["dnsmasq", "--version"]).split()[2]


UNBOUND = """server:
    directory: "{folder}"
    username: ""
    chroot: ""
    pidfile: ""
    use-syslog: no
    interface: 127.0.0.1
    port: {port}
    access-control: 127.0.0.0/8 allow
    do-ip6: no
    do-not-query-localhost: no
    num-threads: 1
    so-reuseport: no
    so-rcvbuf: 4m
    so-sndbuf: 4m
    outgoing-range: 8192
    num-queries-per-thread: 4096
    msg-cache-size: 128m
    rrset-cache-size: 256m
    msg-cache-slabs: 1
    rrset-cache-slabs: 1
    infra-cache-slabs: 1
    key-cache-slabs: 1
    module-config: "iterator"
    minimal-responses: yes
    rrset-roundrobin: no
    qname-minimisation: no
    harden-below-nxdomain: no
    aggressive-nsec: no
    prefetch: no
    local-zone: "lan." static
    include: "{names}"
remote-control:
    control-enable: no
forward-zone:
    name: "."
    forward-addr: {upstream[0]}@{upstream[1]}
"""


class Unbound(Server):
    name, program, port = "unbound", "unbound", 5302

    def launch(self):
        names = self.write("names", "".join(f'local-zone: "{n}." always_nxdomain\n' for n in self.names()))
        conf = self.write("conf", UNBOUND.format(folder=self.folder, port=self.port, upstream=UPSTREAM, names=names))
        return self.spawn(["unbound", "-d", "-c", conf])

    @staticmethod
    def version():
        return first_line(["unbound", "-V"]).split()[1]


DNSDIST = """setSecurityPollSuffix("")
setLocal("127.0.0.1:{port}")
setACL("127.0.0.0/8")
setMaxUDPOutstanding(65535)
setUDPMultipleMessagesVectorSize({batch})
setServerPolicy(firstAvailable)
newServer({{address="{upstream[0]}:{upstream[1]}"}})
getPool(""):setCache(newPacketCache(1000000, {{maxTTL=86400, numberOfShards=1}}))
local lan = newSuffixMatchNode()
lan:add(newDNSName("lan."))
addAction(SuffixMatchNodeRule(lan, true), RCodeAction(DNSRCode.NXDOMAIN))
local blocked = newSuffixMatchNode()
for name in io.lines("{names}") do
    blocked:add(newDNSName(name))
end
addAction(SuffixMatchNodeRule(blocked, true), RCodeAction(DNSRCode.NXDOMAIN))
"""


class Dnsdist(Server):
    name, program, port, batch = "dnsdist", "dnsdist", 5303, 1

    def launch(self):
        conf = self.write("conf", DNSDIST.format(port=self.port, upstream=UPSTREAM, names=self.blocked, batch=self.batch))
        return self.spawn(["dnsdist", "--supervised", "--disable-syslog", "-C", conf])

    @staticmethod
    def version():
        return first_line(["dnsdist", "--version"]).split()[1]


class DnsdistBatch(Dnsdist):
    """The same, told to receive and send 64 packets in one call, which is off unless asked for."""
    name, port, batch = "dnsdist-64", 5305, 64


def first_line(argv):
    p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return p.stdout.splitlines()[0]


PEERS = {c.name: c for c in (Dnsmasq, Unbound, Dnsdist, DnsdistBatch)}
# Shown, but not among those whose best is the bar: few know the setting.
AS_PACKAGED = ["dnsmasq", "unbound", "dnsdist"]
