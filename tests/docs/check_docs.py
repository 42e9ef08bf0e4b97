#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the documentation says what is there: check_docs.py NAMEWAYD NAMEWAY

The reference and the configuration's man page are what the table of keys makes them; every option, verb, key, file, function, constant, alarm and make
target that a page names exists, and options and verbs are all described; links lead somewhere; the configurations shown are valid; the man pages are
well-formed (where mandoc is installed); no path of this machine is in any of them. Prints what is wrong, a line each."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SECTIONS = ("server", "upstreams", "cache", "local", "clients", "lists", "ways", "filter[]", "steer[]", "filter", "steer", "hijack-dns")
wrong = []


def complain(where, text):
    wrong.append(f"{where}: {text}")


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as f:
        return f.read()


def run(*command, **kw):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **kw)


def pages():
    found = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/reference.md"]
    found += sorted(os.path.relpath(p, ROOT) for p in glob.glob(os.path.join(ROOT, "docs", "internals", "*.md")))
    return {p: read(p) for p in found}


def man_pages():
    return {p: read(p) for p in ("docs/man/namewayd.8", "docs/man/nameway.1", "docs/man/nameway.yaml.5")}


def prose(text):
    """The page without its code blocks."""
    return re.sub(r"(?ms)^```.*?^```", "", text)


# --- what is generated ---

def check_generated(namewayd):
    reference = run(namewayd, "--print-reference").stdout
    if not reference.startswith("# "):
        complain("namewayd --print-reference", "prints no reference")
    if read("docs/reference.md") != reference:
        complain("docs/reference.md", "is not what `namewayd --print-reference` prints; run `meson compile docs-regenerate`")
    with tempfile.NamedTemporaryFile("w", suffix=".md", encoding="utf-8") as f:
        f.write(reference)
        f.flush()
        gen = os.path.join(ROOT, "docs", "gen")
        page = run(sys.executable, os.path.join(gen, "reference_to_man.py"), f.name, os.path.join(gen, "nameway.yaml.5.in"))
    if page.returncode or read("docs/man/nameway.yaml.5") != page.stdout:
        complain("docs/man/nameway.yaml.5", f"is not what docs/gen makes; run `meson compile docs-regenerate` {page.stderr}".rstrip())


# --- links and paths ---

def anchor(heading):
    text = re.sub(r"[`*]", "", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(text):
    return {anchor(h) for h in re.findall(r"(?m)^#{1,6} (.*)$", prose(text))}


def check_links(all_pages):
    for page, text in all_pages.items():
        for target in re.findall(r"\]\(([^)\s]+)\)", prose(text)):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, fragment = target.partition("#")
            full = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
            if not os.path.exists(os.path.join(ROOT, full)):
                complain(page, f"the link {target} leads nowhere")
            elif fragment and full.endswith(".md") and fragment not in anchors(read(full)):
                complain(page, f"the link {target}: there is no such heading")


def check_paths(all_pages):
    for page, text in all_pages.items():
        for path in re.findall(r"(?<![\w/.-])((?:src|tests|docs|packaging|lab)/[\w./*-]+)", text):
            path = path.rstrip(".")
            if re.search(r"/[A-Z]{2,}|NAME", path):
                continue  # a placeholder
            if not glob.glob(os.path.join(ROOT, path)):
                complain(page, f"there is no {path}")
        for what, path in re.findall(r"`(\w+)`[^`|]{0,12} in `(src/[\w./-]+)`", text):
            full = os.path.join(ROOT, path)
            if os.path.isfile(full) and not re.search(rf"\b{re.escape(what)}\b", read(path)):
                complain(page, f"there is no {what} in {path}")


def check_machine(all_pages, all_man):
    parent = os.path.dirname(ROOT)
    signs = [ROOT] + ([parent + "/"] if parent not in ("/", "/usr", "/usr/src") else [])
    for page, text in {**all_pages, **all_man, "docs/flow.svg": read("docs/flow.svg")}.items():
        for sign in signs:
            if sign in text:
                complain(page, f"names a path of this machine, {sign}")
        for found in re.findall(r"/home/\w+|/tmp/\w+", text):
            complain(page, f"names a path of somebody's machine, {found}")


# --- options and verbs ---

def options_of_help(text):
    return set(re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", text))


def options_of_man(text):
    """Fl -check, and the short forms without a hyphen of their own."""
    found = set()
    for line in text.splitlines():
        if not line.startswith("."):
            continue
        words = line.split()
        # "Fl -name , -names": the macro goes on behind punctuation.
        in_flag = False
        for w in words:
            if w in ("Fl", ".Fl"):
                in_flag = True
            elif w in ("|", ",") and in_flag:
                continue
            elif in_flag and re.match(r"-[a-z][a-z-]*$", w):
                found.add("-" + w)
            elif re.match(r"\.?[A-Z][a-z]$", w):
                in_flag = False
    return found


def compare_options(page, man, helps):
    described = options_of_man(man) | options_of_help(man)
    existing = set().union(*(options_of_help(h) for h in helps))
    for o in sorted(existing - described):
        complain(page, f"does not describe {o}")
    return existing


def check_programs(namewayd, nameway, all_pages, all_man):
    daemon_help = run(namewayd, "--help").stdout
    tool_help = run(nameway, "--help").stdout
    verbs = re.findall(r"(?m)^  nameway (\w+)", tool_help)
    verb_helps = [run(nameway, v, "--help").stdout for v in verbs]
    if not verbs or not daemon_help:
        complain("--help", "prints nothing to compare with")
    daemon_options = compare_options("docs/man/namewayd.8", all_man["docs/man/namewayd.8"], [daemon_help])
    tool_options = compare_options("docs/man/nameway.1", all_man["docs/man/nameway.1"], [tool_help, *verb_helps])
    # What getopt takes beside what the summary shows.
    daemon_options |= {"--config", "--help"}
    tool_options |= {"--version", "--help"}
    for page, known in (("docs/man/namewayd.8", daemon_options), ("docs/man/nameway.1", tool_options)):
        for o in sorted(options_of_man(all_man[page]) - known):
            complain(page, f"there is no option {o}")
    for o in sorted(daemon_options):
        if run(namewayd, o).returncode == 2 and "unrecognized" in run(namewayd, o).stderr:
            complain("docs/man/namewayd.8", f"namewayd does not know {o}")
    described = set(re.findall(r"(?m)^\.It Cm (\w+)", all_man["docs/man/nameway.1"]))
    for v in sorted(set(verbs) - described):
        complain("docs/man/nameway.1", f"does not describe the verb {v}")
    for v in sorted(described - set(verbs)):
        complain("docs/man/nameway.1", f"there is no verb {v}")
    for page, text in all_pages.items():
        for line in re.findall(r"(?m)^(?:\s*|.*`)nameway ([a-z]+)\b", text):
            if line not in verbs and not page.endswith("control.md"):
                complain(page, f"there is no verb {line}")
        for verb in re.findall(r"`nameway ([a-z]+)\b", text):
            if verb not in verbs:
                complain(page, f"there is no verb {verb}")
        for option in re.findall(r"`namewayd[^`]*?(--[a-z-]+)", text):
            if option not in daemon_options:
                complain(page, f"namewayd has no option {option}")


# --- keys, configurations ---

def known_keys():
    return set(re.findall(r"(?m)^(?:#{2,3}|-) `([^`]+)`$", read("docs/reference.md")))


def as_key(text):
    text = re.sub(r"^(upstreams|clients|lists|ways)\.(?!NAME)[a-z0-9_-]+\.", r"\1.NAME.", text)
    return re.sub(r"^(filter|steer)\.", r"\1[].", text)


def check_keys(all_pages, all_man):
    keys = known_keys()
    sections = "|".join(re.escape(s) for s in SECTIONS)
    for page, text in all_pages.items():
        if page == "docs/reference.md":
            continue
        for token in re.findall(r"`((?:%s)\.[a-z.-]+)`" % sections, text):
            if not re.search(r"\.(c|h|py|md|yaml|build)$", token) and as_key(token) not in keys:
                complain(page, f"there is no key {token}")
    for page, text in all_man.items():
        for token in re.findall(r"\.Cm ((?:%s)\.[a-z.-]+)" % sections, text):
            if as_key(token) not in keys:
                complain(page, f"there is no key {token}")


def check_configurations(namewayd, all_pages, all_man):
    shown = [(p, c) for p, text in all_pages.items() for c in re.findall(r"(?ms)^```yaml\n(.*?)^```", text)]
    shown += [("docs/man/nameway.yaml.5", c) for c in re.findall(r"(?ms)^\.Bd -literal[^\n]*\n(server:.*?)^\.Ed", all_man["docs/man/nameway.yaml.5"])]
    if len(shown) < 2:
        complain("README.md", "shows no configuration")
    for page, text in shown:
        with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as f:
            f.write(text)
            f.flush()
            said = run(namewayd, "-c", f.name, "--check")
        if said.returncode:
            complain(page, f"the configuration shown is not valid: {said.stderr.strip()}")


# --- constants, alarms, targets ---

def constant(name, path, depth=0):
    """The value of an enumerator or a #define; other names in it are looked for in the same file, then in all headers."""
    text = re.sub(r"(?s)/\*.*?\*/", " ", read(path))
    found = re.search(rf"(?m)\b{name} = ([^,;}}\n]+)", text) or re.search(rf"(?m)^#define {name} (.+)$", text)
    if not found or depth > 4:
        return None
    expression = re.sub(r"(?i)\b(0x[0-9a-f]+|\d+)(?:ull|ul|u)\b", r"\1", found.group(1)).strip()
    expression = re.sub(r"\(\s*size_t\s*\)", "", expression)
    for other in set(re.findall(r"\b[A-Z][A-Z0-9_]+\b", expression)):
        for where in [path] + [os.path.relpath(p, ROOT) for p in glob.glob(os.path.join(ROOT, "src", "*", "*.h"))]:
            value = constant(other, where, depth + 1)
            if value is not None:
                expression = re.sub(rf"\b{other}\b", str(value), expression)
                break
    if not re.fullmatch(r"[0-9a-fA-FxX\s()+*/<>-]+", expression):
        return None
    return eval(expression.replace("/", "//"), {"__builtins__": {}})  # digits and operators only


def check_limits():
    rows = re.findall(r"(?m)^\| [^|]+ \| `(\w+)` \| (\d+) \| `([^`]+)` \|", read("docs/internals/limits.md"))
    if len(rows) < 60:
        complain("docs/internals/limits.md", "has hardly any rows: its form is not what this test reads")
    for name, value, path in rows:
        if not os.path.isfile(os.path.join(ROOT, path)):
            complain("docs/internals/limits.md", f"there is no {path}")
        elif constant(name, path) != int(value):
            complain("docs/internals/limits.md", f"{name} is {constant(name, path)} in {path}, not {value}")


def check_alarms():
    listed = read("docs/internals/failure.md")
    for path in glob.glob(os.path.join(ROOT, "src", "*", "*.c")):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        keys = re.findall(r'alarm_set\([^,;]+, "([\w-]+)"', text) + re.findall(r'IPC_ALARM, 0, "([\w-]+)"', text)
        for key in sorted(set(keys)):
            if f"`{key}`" not in listed:
                complain("docs/internals/failure.md", f"does not name the alarm `{key}` of {os.path.relpath(path, ROOT)}")


def check_targets(all_pages):
    makefile = read("Makefile")
    for page, text in all_pages.items():
        for target in re.findall(r"`make ([a-z-]+)", text) + re.findall(r"(?m)^make ([a-z-]+)", text):
            if not re.search(rf"(?m)^{target}:", makefile):
                complain(page, f"there is no make target {target}")


def check_man_form(all_man):
    mandoc = shutil.which("mandoc")
    for page in all_man if mandoc else ():
        said = run(mandoc, "-Tlint", os.path.join(ROOT, page))
        for line in (said.stdout + said.stderr).splitlines():
            # Whether other pages are installed here says nothing about ours.
            if "referenced manual not found" not in line and "outdated mandoc.db" not in line:
                complain(page, line.partition(": ")[2] or line)


def main():
    namewayd, nameway = sys.argv[1:3]
    all_pages, all_man = pages(), man_pages()
    check_generated(namewayd)
    check_links(all_pages)
    check_paths(all_pages)
    check_machine(all_pages, all_man)
    check_programs(namewayd, nameway, all_pages, all_man)
    check_keys(all_pages, all_man)
    check_configurations(namewayd, all_pages, all_man)
    check_limits()
    check_alarms()
    check_targets(all_pages)
    check_man_form(all_man)
    for line in sorted(set(wrong)):
        print(line)
    print(f"{len(all_pages) + len(all_man)} pages, {len(set(wrong))} faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
