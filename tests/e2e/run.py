#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the functional tests and the short form of the bars against a build.

    tests/e2e/run.py [-k PART-OF-A-NAME] [--no-bars] [-x]

One line a test, `ok`, `FAILED` or `skipped`, and a last line `N passed, N failed`. NAMEWAY_BUILD names the build directory (default: build).
A test is a function test_… of a file test_….py here; it gets nothing and raises AssertionError with a sentence when it fails."""
import argparse
import glob
import importlib
import os
import subprocess
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from site_net import Failed, build_dir, permitted  # noqa: E402


class Skipped(Exception):
    pass


def tests():
    for path in sorted(glob.glob(os.path.join(HERE, "test_*.py"))):
        module = importlib.import_module(os.path.basename(path)[:-3])
        for name in [n for n in vars(module) if n.startswith("test_")]:
            yield f"{module.__name__[5:]}: {name[5:].replace('_', ' ')}", getattr(module, name)


def bars():
    for path in sorted(glob.glob(os.path.join(HERE, "bar_*.py"))):
        name = os.path.basename(path)

        def run_bar(path=path):
            p = subprocess.run([sys.executable, path, "--quick"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "NAMEWAY_BUILD": build_dir()}, timeout=600)
            if p.returncode == 77:
                raise Skipped(p.stdout.strip().splitlines()[-1])
            if p.returncode:
                raise AssertionError("\n" + p.stdout)
        yield f"bar: {name[4:-3].replace('_', ' ')}", run_bar


def run_one(name, fn):
    start = time.monotonic()
    try:
        fn()
        verdict, text = "ok", ""
    except Skipped as e:
        verdict, text = "skipped", str(e)
    except AssertionError as e:
        frame = traceback.extract_tb(e.__traceback__)
        where = [f for f in frame if os.path.basename(f.filename).startswith("test_")]
        verdict, text = "FAILED", f"{os.path.basename(where[-1].filename)}:{where[-1].lineno}: {e}" if where else str(e)
    except Failed as e:
        verdict, text = "FAILED", f"could not run: {e}"
    except Exception:  # pylint: disable=broad-except
        verdict, text = "FAILED", traceback.format_exc(limit=-4)
    print(f"{verdict:7} {time.monotonic() - start:5.1f} s  {name}{': ' + text if text else ''}", flush=True)
    return verdict


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("-k", default="", help="only tests whose name holds this")
    p.add_argument("--no-bars", action="store_true", help="only the functional tests")
    p.add_argument("-x", action="store_true", help="stop at the first failure")
    o = p.parse_args()
    why = permitted()
    if why:
        print(f"skipped: all end-to-end tests: {why}\n0 passed, 0 failed")
        return 0
    count = {"ok": 0, "FAILED": 0, "skipped": 0}
    for name, fn in list(tests()) + ([] if o.no_bars else list(bars())):
        if o.k not in name:
            continue
        count[run_one(name, fn)] += 1
        if o.x and count["FAILED"]:
            break
    print(f"{count['ok']} passed, {count['FAILED']} failed" + (f", {count['skipped']} skipped" if count["skipped"] else ""))
    return 1 if count["FAILED"] else 0


if __name__ == "__main__":
    sys.modules["run"] = sys.modules["__main__"]  # tests raise run.Skipped
    sys.exit(main())
