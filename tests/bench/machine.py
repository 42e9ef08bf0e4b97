# SPDX-License-Identifier: GPL-3.0-or-later
"""What the figures were measured on, without the name of the machine."""
import os
import re
import subprocess
from peers import PEERS


def cpu_model():
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
        found = re.search(r"^(?:model name|Model)\s*:\s*(.*)$", f.read(), re.M)
    return found.group(1) if found else "unknown"


def memory_gib():
    with open("/proc/meminfo", encoding="ascii") as f:
        return round(int(f.readline().split()[1]) / 2**20, 1)


def nameway_version(tools):
    p = subprocess.run([tools.path("namewayd"), "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return p.stdout.split()[-1] if p.returncode == 0 and p.stdout.split() else "unknown"


def facts(tools, peers):
    return {"kernel": os.uname().release, "machine": os.uname().machine, "cpu": cpu_model(), "processors": os.cpu_count(), "memory_gib": memory_gib(),
            "load_before": round(os.getloadavg()[0], 2), "versions": {"nameway": nameway_version(tools), **{PEERS[p].program: PEERS[p].version() for p in peers}}}
