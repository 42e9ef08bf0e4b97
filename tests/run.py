#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs every test of a build: meson's (unit tests, fuzz regressions, scenarios), then the end-to-end tests.

    tests/run.py [BUILD-DIRECTORY]      (build-test)

Failures are shown whole, skipped tests with their reason. The last line is `N passed, N failed`; the exit code is 1 when one failed."""
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SUMMARY = re.compile(r"^(\d+) passed, (\d+) failed(?:, \d+ skipped)?$")
# A sanitizer's finding ends the test; leaks are looked for in the unit tests only, because the daemon's confined process cannot be traced.
SANITIZERS = {"UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1", "ASAN_OPTIONS": "detect_leaks=1"}
SANITIZERS_E2E = {**SANITIZERS, "ASAN_OPTIONS": "detect_leaks=0"}


def last_line(text):
    lines = [line for line in (text or "").splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no reason given"


def meson_tests(build):
    """(passed, failed) of `meson test`; its log has one JSON object a line for each test."""
    log = os.path.join(build, "meson-logs", "testlog.json")
    if os.path.exists(log):
        os.unlink(log)
    code = subprocess.call(["meson", "test", "-C", build, "--no-rebuild", "--print-errorlogs", "--no-suite", "bench", "--timeout-multiplier", "4"],
                           env={**os.environ, **SANITIZERS})
    passed = failed = 0
    skipped = []
    if os.path.exists(log):
        with open(log, encoding="utf-8", errors="replace") as f:
            for line in f:
                test = json.loads(line)
                if test["result"] in ("OK", "EXPECTEDFAIL"):
                    passed += 1
                elif test["result"] == "SKIP":
                    skipped.append(f"skipped: {test['name']}: {last_line(test.get('stdout') or test.get('stderr'))}")
                else:
                    failed += 1
                    print(f"FAILED: {test['name']} ({test['result']})")
    if code and not failed:
        failed += 1
        print(f"FAILED: `meson test` ended with {code}")
    if not passed and not failed:
        failed += 1
        print("FAILED: `meson test` ran nothing")
    for line in skipped:
        print(line)
    sys.stdout.flush()
    return passed, failed


def end_to_end(build):
    """(passed, failed) as the last line of tests/e2e/run.py says; that it says so is part of the test."""
    script = os.path.join(ROOT, "tests", "e2e", "run.py")
    last = ""
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          env={**os.environ, **SANITIZERS_E2E, "NAMEWAY_BUILD": build}) as p:
        for line in p.stdout:
            if SUMMARY.match(line.rstrip()):
                last = line.rstrip()
                continue
            print(line, end="", flush=True)
    found = SUMMARY.match(last)
    passed, failed = (int(found[1]), int(found[2])) if found else (0, 0)
    if not found:
        print("FAILED: the end-to-end tests did not come to their end")
    elif p.returncode and not failed:
        print(f"FAILED: the end-to-end tests ended with {p.returncode}")
    if not failed and (not found or p.returncode):
        failed = 1
    return passed, failed


def main():
    build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build-test"))
    passed, failed = (sum(both) for both in zip(meson_tests(build), end_to_end(build)))
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
