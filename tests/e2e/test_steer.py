# SPDX-License-Identifier: GPL-3.0-or-later
"""Which exit: names, addresses, clients, groups, rules in order. Packets are sent and looked for at every exit."""
import subprocess
import time

from site_net import IOT4, LAN4, LAN6
from world import World, rcode, rdata

ALL_BUT = """
steer:
  - { name: all but, clients: [lan], except-names: [vpn], way: tunnel1 }
  - { way: direct }
"""


def leaves_by(w, name, tag, rdtypes=("A", "AAAA"), **kw):
    for rdtype in rdtypes:
        found = w.addresses(name, rdtype, **kw)
        assert found, f"{name} {rdtype}: no answer"
        for a in found:
            seen = w.exit_of(a, ns=kw.get("ns"))
            assert seen == tag, f"{name} {rdtype} {a}: left by {seen}, expected {tag}"


def test_names_and_exceptions():
    with World() as w:
        w.start()
        for name, tag in (("t1-one.test", "1"), ("t1-x.t1-one.test", "1"), ("t2-two.test", "2"), ("t2-deep.a.b.listed.example", "2"), ("xt2-two.test", "0"),
                          ("d-test", "0"), ("d-free.listed.example", "0"), ("d-x.d-free.listed.example", "0"), ("t2-under.bare.zonka", "2"), ("T2-TWO.TEST", "2")):
            leaves_by(w, name, tag)


def test_aliases_in_both_directions():
    with World() as w:
        w.start()
        for _ in range(2):
            leaves_by(w, "c1.t2-two.test.via.d-alias.yard", "2")
            leaves_by(w, "c4.t2-a.listed.example.via.d-alias.yard", "2")
            leaves_by(w, "c2.t2-elsewhere.yard.via.listed.example", "2")


def test_hints_of_https_records():
    with World() as w:
        w.start()
        for name, tag in (("t2-two.test", "2"), ("t1-one.test", "1"), ("d-x.yard", "0")):
            text = rdata(w.ask(name, "HTTPS"))[0]
            hints = [p.split("=")[1].strip('"') for p in text.split() if "hint=" in p]
            assert len(hints) == 2, text
            for a in hints:
                seen = w.exit_of(a)
                assert seen == tag, f"{name}: hint {a} left by {seen}, expected {tag}"


def test_prefixes_without_any_question():
    with World() as w:
        w.start()
        for address, tag in (("198.51.100.3", "2"), ("198.51.100.15", "2"), ("198.51.100.16", "0"), ("2001:db8:e000::5", "2"), ("2001:db8:e001::5", "0")):
            seen = w.exit_of(address)
            assert seen == tag, f"{address} left by {seen}, expected {tag}"


def test_first_rule_wins():
    with World() as w:
        w.start()
        leaves_by(w, "t1-x.both.test", "1")
        # An address that names of two rules share follows the first of them.
        assert w.addresses("ip-c6130101.t2-two.test") == ["198.19.1.1"] and w.exit_of("198.19.1.1") == "2"
        assert w.addresses("ip-c6130101.t1-one.test") == ["198.19.1.1"] and w.exit_of("198.19.1.1") == "1"
        assert w.addresses("ip-c6130101.t2-two.test") == ["198.19.1.1"] and w.exit_of("198.19.1.1") == "1"


def test_direct_rule_before_a_tunnel():
    steer = "steer:\n  - { names: [mine], way: direct }\n  - { clients: [lan], names: [vpn], way: tunnel2 }\n  - { way: direct }\n"
    with World() as w:
        w.write_list("mine", ["d-mine.listed.example"])
        w.start(more_lists="  mine: { files: [lists/mine] }\n", steer=steer)
        leaves_by(w, "t2-x.listed.example", "2")
        leaves_by(w, "d-mine.listed.example", "0")
        # Also when the address is in a later rule's set as well.
        for name, tag in (("ip-c6130102.t2-two.test", "2"), ("ip-c6130102.d-mine.listed.example", "0"), ("ip-c6130102.t2-two.test", "0")):
            assert w.addresses(name) == ["198.19.1.2"] and w.exit_of("198.19.1.2") == tag, name


def test_clients_by_interface():
    steer = "steer:\n  - { clients: [iot], names: [vpn], way: tunnel1 }\n  - { clients: [lan], names: [vpn], way: tunnel2 }\n  - { way: direct }\n"
    with World() as w:
        w.start(steer=steer)
        leaves_by(w, "t2-two.test", "2")
        leaves_by(w, "t2-two.test", "1", server=IOT4, ns=w.site.d)
        leaves_by(w, "t2-two.test", "2", tcp=True)


def test_clients_by_network():
    with World() as w:
        w.site.batch(w.site.c, "addr add 192.168.8.3/24 dev eth0")
        text = w.config(steer="steer:\n  - { clients: [one], names: [vpn], way: tunnel2 }\n  - { way: direct }\n")
        w.start(steer="")
        w.gateway.write(text.replace("clients:\n", "clients:\n  one: { interfaces: [br-lan], networks: [192.168.8.2/31], except-networks: [192.168.8.3] }\n", 1))
        w.gateway.verb("reload")
        leaves_by(w, "t2-two.test", "2", rdtypes=("A",))
        (a,) = w.addresses("ip-c6130103.t2-two.test")
        assert w.exit_of(a) == "2" and w.exit_of(a, source="192.168.8.3") == "0"


def test_mac_groups():
    steer = "steer:\n  - { clients: [mac], names: [vpn], way: tunnel2 }\n  - { way: direct }\n"
    with World() as w:
        mac = w.site.sh(w.site.c, "cat /sys/class/net/eth0/address").strip()
        for key, value, tag in (("macs", mac, "2"), ("macs", "02:00:5e:10:00:99", "0"), ("except-macs", mac, "0"), ("except-macs", "02:00:5e:10:00:99", "2")):
            text = w.config(steer=steer).replace("clients:\n", f"clients:\n  mac: {{ interfaces: [br-lan], {key}: [\"{value}\"] }}\n", 1)
            w.gateway = w.gateway or w.start(steer="")
            w.gateway.write(text)
            w.gateway.verb("reload")
            for tcp in (False, True):
                name = f"t2-{key}{tag}{tcp:d}.listed.example".replace("-macs", "")
                leaves_by(w, name, tag, tcp=tcp)
                leaves_by(w, "x" + name, "2" if tag == "2" else "0", server=LAN6, tcp=tcp)


def test_block_list_sense():
    with World() as w:
        w.start(steer=ALL_BUT)
        leaves_by(w, "t1-whatever.yard", "1")
        leaves_by(w, "d-x.listed.example", "0")
        leaves_by(w, "t1-y.yard", "0", server=IOT4, ns=w.site.d)
        assert w.exit_of("198.51.100.3") == "0" and w.exit_of("198.51.100.99") == "1"


def test_rule_that_is_not_enabled():
    with World() as w:
        w.start(steer="steer:\n  - { names: [vpn], way: tunnel2, enabled: false }\n  - { way: direct }\n")
        leaves_by(w, "t2-two.test", "0")


def _packet_as(w, gid, address):
    """The exit of a packet of a process of the gateway itself."""
    w.watch.drain()
    code = f"import os,socket; os.setgid({gid}); socket.socket(socket.AF_INET6 if ':' in '{address}' else socket.AF_INET, socket.SOCK_DGRAM).sendto(b'token-of-{gid}-packet', ('{address}', 7100))"
    subprocess.run(["ip", "netns", "exec", w.site.g, "/usr/bin/python3", "-c", code], check=False)
    return w.watch.seen(f"token-of-{gid}-packet".encode(), 0.5)


def test_the_routers_own_processes():
    with World() as w:
        w.start(steer="steer:\n  - { gid: 10000, way: tunnel2 }\n  - { clients: [lan], names: [vpn], way: tunnel2 }\n  - { way: direct }\n")
        for address in ("198.18.0.9", "2001:db8:f000::9"):
            assert _packet_as(w, 10000, address) == "2", "gid 10000 by tunnel 2"
            assert _packet_as(w, 10001, address) == "0", "others direct"


def test_gid_keeps_processes_out_of_a_tunnel():
    steer = "steer:\n  - { gid: 10000, way: direct }\n  - { names: [vpn], way: tunnel2 }\n  - { way: direct }\n"
    with World() as w:
        w.start(steer=steer)
        assert _packet_as(w, 10000, "198.51.100.3") == "0"


def test_foreign_mark_bits_stay():
    with World() as w:
        w.site.nft(w.site.g, """table inet marks {
            chain before { type filter hook prerouting priority -350; iifname "br-lan" meta mark set meta mark | 0x00ab0007; }
            chain after { type filter hook postrouting priority 350; udp dport 7100 meta mark & 0x0fff0fff == 0x00ab0007 counter name "kept"
                udp dport 7100 meta mark & 0x0fff0fff != 0x00ab0007 counter name "lost"
            }
            counter kept { }
            counter lost { }
            }""")
        w.start()
        for name, tag in (("t2-two.test", "2"), ("t1-one.test", "1"), ("d-x.yard", "0")):
            leaves_by(w, name, tag)
        out = w.site.sh(w.site.g, "nft list counters table inet marks")
        kept, lost = [int(part.split("packets ")[1].split()[0]) for part in out.split("counter ")[1:]]
        assert kept >= 6 and lost == 0, f"bits kept {kept}, lost {lost}: {out}"


def test_a_flow_keeps_its_exit():
    with World() as w:
        w.start(element_min="1s", ttl=1)
        (a,) = w.addresses("ttl1-ip.ip-c6130155.t2-two.test")
        s = w.site.socket(w.site.c)
        assert w.exit_of(a, sender=s) == "2"
        assert w.wait(lambda: not w.set_of(a), 5) is not None, "the element outlived its time by far"
        assert w.exit_of(a, sender=s) == "2", "an open flow outlives the element"
        assert w.exit_of(a) == "0", "a new connection to a forgotten address is direct"
        s.close()


def test_connections_from_outside_are_answered_where_they_came_from():
    with World() as w:
        w.start()
        server = w.site.socket(w.site.c)
        server.bind(("192.168.8.2", 7300))
        server.settimeout(2)
        for dev, source in (("t2", "198.18.7.7"), ("t1", "198.18.7.8"), ("wan", "198.18.7.9")):
            via = {"t2": "10.65.0.2", "t1": "10.64.0.2", "wan": "203.0.113.2"}[dev]
            w.site.sh(w.site.i, f"ip route replace 192.168.8.0/24 via {via} dev {dev}")
            out = w.site.socket(w.site.i)
            out.bind((source, 7100))
            out.settimeout(2)
            out.sendto(b"hello", ("192.168.8.2", 7300))
            data, peer = server.recvfrom(100)
            assert data == b"hello"
            tag = {"t2": "2", "t1": "1", "wan": "0"}[dev]
            seen = w.exit_of(peer[0], sender=server)
            assert seen == tag, f"came by {dev}, answered by {seen}"
            out.close()
        server.close()


def test_local_net_and_private_addresses():
    with World() as w:
        w.start()
        assert w.addresses("ip-c0a81402.t2-two.test") == ["192.168.20.2"]
        assert not w.set_of("192.168.20.2"), "a private address entered a set"
        s = w.site.socket(w.site.d)
        s.bind(("192.168.20.2", 7301))
        s.settimeout(2)
        c = w.site.socket(w.site.c)
        c.sendto(b"local", ("192.168.20.2", 7301))
        assert s.recv(100) == b"local", "clients reach each other"
        for a in ("ip-e0000001", "ip-7f000001", "ip-c0a80801", "ip-0a400001", "ip-a9fe0001", "ip-64400001"):
            assert rcode(w.ask(f"{a}.t2-two.test")) == "NOERROR"
        for a in ("224.0.0.1", "127.0.0.1", LAN4, "10.64.0.1", "169.254.0.1", "100.64.0.1"):
            assert not w.set_of(a), f"{a} entered a set"
        s.close()
        c.close()


def test_listed_tunnel_without_local_access():
    with World() as w:
        w.start(way2=", local-access: false, private: true")
        (a,) = w.addresses("ip-c0a81402.t2-two.test")
        assert w.exit_of(a) == "2", "no local access: into the tunnel"


def test_unlisted_names_leave_the_sets_alone():
    with World() as w:
        w.start()
        for a in w.addresses("d-x.yard"):
            assert not w.set_of(a)
        for a in w.addresses("t2-two.test"):
            assert len(w.set_of(a)) == 1


def test_ipv6_off():
    with World() as w:
        w.start(way2=", ipv6: off, kill-switch: true")
        r = w.ask("t2-two.test", "AAAA")
        assert rcode(r) == "NOERROR" and not r.answer, str(r)
        text = rdata(w.ask("t2-two.test", "HTTPS"))[0]
        assert "ipv4hint" in text and "ipv6hint" not in text, text
        leaves_by(w, "t1-one.test", "1")


def test_tunnel_without_ipv6_address():
    with World(tunnel_ipv6=(True, False)) as w:
        w.start()
        r = w.ask("t2-two.test", "AAAA")
        assert rcode(r) == "NOERROR" and not r.answer, str(r)
        w.site.batch(w.site.g, "addr add 2001:db8:65::2/64 dev wg2 nodad")
        w.site.batch(w.site.i, "addr add 2001:db8:65::1/64 dev t2 nodad")
        assert w.wait(lambda: w.ask("t2-two.test", "AAAA").answer, 2) is not None, "an address came, AAAA did not"
        time.sleep(0.2)
        leaves_by(w, "t2-two.test", "2")


def test_hijacked_dns_and_dot():
    import socket
    more = "hijack-dns: { interfaces: [br-lan], except: [192.168.8.9], dot: reject }\n"
    with World() as w:
        w.site.batch(w.site.c, "addr add 192.168.8.9/24 dev eth0")
        w.start(more=more)
        for server in ("198.18.250.1", "2001:db8:f000::53"):
            for tcp in (False, True):
                assert w.addresses("t2-two.test", server=server, tcp=tcp), f"{server} tcp={tcp}"
        leaves_by(w, "t2-hijacked.listed.example", "2", server="198.18.250.1")
        start = time.monotonic()
        with w.site.socket(w.site.c, kind=socket.SOCK_STREAM) as s:
            s.settimeout(3)
            assert s.connect_ex(("198.18.250.1", 853)) != 0 and time.monotonic() - start < 2, "DNS over TLS was not rejected at once"
        s = w.site.socket(w.site.c)
        s.bind(("192.168.8.9", 0))
        s.settimeout(1)
        out = w.site.socket(w.site.i)
        out.bind(("198.18.250.2", 53))
        out.settimeout(2)
        s.sendto(b"left alone", ("198.18.250.2", 53))
        assert out.recv(100) == b"left alone", "an excepted client was hijacked"
        s.close()
        out.close()


def test_dns_to_our_own_sockets_is_not_tracked():
    with World() as w:
        w.start()
        for i in range(50):
            w.ask(f"x{i}.lan")
        entries = [line for line in w.site.sh(w.site.g, "conntrack -L 2>/dev/null", check=False).splitlines() if "dst=192.168.8.1" in line and "dport=53 " in line]
        assert not entries, entries[:3]


def test_answers_come_back():
    """The whole way round, with and without local access: what comes back must not be sent into the tunnel again."""
    for local in ("true", "false"):
        with World() as w:
            w.start(way2=f", local-access: {local}, kill-switch: true")
            for name in ("ip-c6130177.t2-two.test", "ip-c6128177.t1-one.test", "ip-c6120177.d-x.yard"):
                (a,) = w.addresses(name)
                out = w.site.socket(w.site.i)
                out.bind((a, 7400))
                out.settimeout(2)
                c = w.site.socket(w.site.c)
                c.settimeout(2)
                c.sendto(b"there", (a, 7400))
                data, peer = out.recvfrom(100)
                assert data == b"there"
                out.sendto(b"and back", peer)
                try:
                    assert c.recv(100) == b"and back"
                except TimeoutError:
                    assert False, f"{name}, local-access {local}: the answer did not come back"
                out.close()
                c.close()
