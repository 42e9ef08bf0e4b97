#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The load generator and the bare echo together, as the benchmark uses them, on loopback.

    load_smoke.py NAMEWAY NW-ECHO"""
import json
import socket
import subprocess
import sys
import time


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def load(nameway, port, *args):
    argv = [nameway, "load", *args, "--server", f"127.0.0.1@{port}", "--json"]
    return json.loads(subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout)


def wait_until_served(nameway, port):
    for _ in range(100):
        argv = [nameway, "load", "latency", "--count", "1", "--timeout", "100ms", "--server", f"127.0.0.1@{port}"]
        if subprocess.run(argv, stdout=subprocess.DEVNULL, check=False).returncode == 0:
            return
        time.sleep(0.02)
    raise SystemExit("the echo did not begin to answer")


def main():
    nameway, echo = sys.argv[1:3]
    port = free_port()
    with subprocess.Popen([echo, "-a", "127.0.0.1", str(port)], stdout=subprocess.DEVNULL) as p:
        try:
            wait_until_served(nameway, port)
            r = load(nameway, port, "latency", "--count", "500", "--in-flight", "32", "--timeout", "10s")
            assert (r["answered"], r["lost"]) == (500, 0), r
            r = load(nameway, port, "flood", "--rate", "5000", "--count", "5000", "--timeout", "10s")
            assert (r["offered"], r["answered"], r["rcodes"]) == (5000, 5000, {"NOERROR": 5000}), r
            r = load(nameway, port, "flood", "--rate", "1000000", "--window", "256", "--duration", "500ms", "--timeout", "10s")
            assert r["offered"] == 500000 and r["answered"] == r["sent"] and r["answered"] + r["unsent"] == 500000 and r["answered"] > 1000, r
        finally:
            p.terminate()
    print("the echo answered all that was sent")


if __name__ == "__main__":
    main()
