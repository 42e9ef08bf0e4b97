# SPDX-License-Identifier: GPL-3.0-or-later
"""nameway as the gateway of a site: its configuration, its life, its verbs."""
import json
import os
import pwd
import select
import signal
import subprocess
import time

from site_net import Failed, run, tool

CONFIG = """
server:
  listen: [{listen}]
  state: {dir}/state
  control: {dir}/control.sock
  user: {user}
  workers: {workers}
  element-min: {element_min}
  table-protect: {protect}
  log: {{ level: {log_level} }}
upstreams:
  default: {{ servers: [{servers}]{default} }}
  t1dns: {{ servers: [10.64.0.1] }}
  t2dns: {{ servers: [10.65.0.1] }}
{more_upstreams}
local: {{ domain: lan{local} }}
clients:
  lan: {{ interfaces: [br-lan] }}
  iot: {{ interfaces: [br-iot] }}
lists:
  vpn1: {{ files: [{lists}/vpn1] }}
  vpn: {{ files: [{lists}/vpn] }}
{more_lists}
ways:
  direct: {{}}
  tunnel1: {{ interface: wg1, mark: 0x2000, upstream: t1dns, gateway: [10.64.0.1, "2001:db8:64::1"], masquerade: true{way1} }}
  tunnel2: {{ interface: wg2, mark: 0x1000, upstream: t2dns, gateway: [10.65.0.1, "2001:db8:65::1"], masquerade: true{way2} }}
{more_ways}
{filter}
{steer}
{more}
"""
STEER = """
steer:
  - { name: Tunnel 1, clients: [lan, iot], names: [vpn1], way: tunnel1 }
  - { name: Tunnel 2, clients: [lan, iot], names: [vpn], way: tunnel2 }
  - { way: direct }
"""


def config_text(site, lists, **kw):
    values = {"listen": 'br-lan@53, br-iot@53, "127.0.0.1@53"', "dir": site.dir, "user": server_user(), "workers": "auto", "element_min": "5m", "protect": "auto",
              "log_level": "info", "lists": lists, "more_lists": "", "way1": ", kill-switch: true", "way2": ", kill-switch: true", "more_ways": "",
              "filter": "", "steer": STEER, "more": "", "servers": "203.0.113.1", "default": "", "more_upstreams": "", "local": ""}
    unknown = set(kw) - set(values)
    assert not unknown, unknown
    values.update(kw)
    return CONFIG.format(**values)


def server_user():
    for name in ("nameway", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            pass
    return "root"


class VerbFailed(Exception):
    pass


class Gateway:
    """One namewayd in the gateway namespace. `start` returns when it said ready; its log is in `log_path`."""

    def __init__(self, site, text):
        self.site = site
        self.config_path = os.path.join(site.dir, "nameway.yaml")
        self.log_path = os.path.join(site.dir, "nameway.log")
        self.socket = os.path.join(site.dir, "control.sock")
        self.p = None
        self.write(text)

    def write(self, text):
        with open(self.config_path + ".new", "w", encoding="utf-8") as f:
            f.write(text)
        os.rename(self.config_path + ".new", self.config_path)

    def launch(self):
        with open(self.log_path, "a", encoding="utf-8") as log:
            self.p = self.site.start(self.site.g, [tool("namewayd"), "-c", self.config_path], stderr=log)

    def wait_ready(self, timeout=30):
        start = time.monotonic()
        ready, _, _ = select.select([self.p.stdout], [], [], timeout)
        line = self.p.stdout.readline() if ready else ""
        if line != "ready\n":
            self.site.stop(self.p)
            raise Failed(f"namewayd did not become ready within {timeout} s, it said {line!r}; its log ends:\n{self.log_end()}")
        return time.monotonic() - start

    def start(self, timeout=30):
        self.launch()
        return self.wait_ready(timeout)

    def log_end(self, lines=15):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return "".join(f.readlines()[-lines:])

    def stop(self, sig=signal.SIGTERM, timeout=15):
        return self.site.stop(self.p, sig, timeout)

    def is_running(self):
        return self.p is not None and self.p.poll() is None

    def children(self):
        """The pids of the processes of this nameway by what they are called: {"server": pid, "enforcer": pid}, told by their capabilities."""
        found = {}
        with open(f"/proc/{self.p.pid}/task/{self.p.pid}/children", encoding="ascii") as f:
            pids = [int(p) for p in f.read().split()]
        for pid in pids:
            with open(f"/proc/{pid}/status", encoding="ascii") as f:
                status = dict(line.split(":", 1) for line in f.read().splitlines() if ":" in line)
            found["enforcer" if int(status["CapEff"].strip(), 16) else "server"] = pid
        return found

    def verb(self, *args, check=True, json_output=True):
        """A verb of nameway(1): its decoded JSON, or its text."""
        argv = [tool("nameway"), "-s", self.socket, *args] + (["--json"] if json_output else [])
        p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        if check and p.returncode:
            raise VerbFailed(f"nameway {' '.join(args)}: {p.returncode}: {p.stdout.strip()} {p.stderr.strip()}")
        if not check:
            return p
        return json.loads(p.stdout) if json_output else p.stdout

    def clear(self):
        return run(["ip", "netns", "exec", self.site.g, tool("namewayd"), "--clear", "-c", self.config_path], check=False)

    def guard(self):
        return run(["ip", "netns", "exec", self.site.g, tool("namewayd"), "--guard", "-c", self.config_path], check=False)

    def check(self, path=None):
        return run(["ip", "netns", "exec", self.site.g, tool("namewayd"), "--check", "-c", path or self.config_path], check=False)
