#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the man page of the configuration from the reference: reference_to_man.py REFERENCE.md TEMPLATE >nameway.yaml.5

The template holds the page around the keys, which come where its line `@KEYS@` stands and those of later versions where `@LATER@` stands.
Output: mdoc without a line over 80 bytes, a sentence a line."""
import re
import sys
import textwrap

WIDTH = 78


def roff(text):
    """Text as roff takes it; `code` in quotes."""
    text = text.replace("\\", "\\e")
    return re.sub(r"`([^`]*)`", r"\\(oq\1\\(cq", text)


def lines(text):
    """A sentence a line, none too long, none that reads as a request."""
    out = []
    for sentence in re.split(r"(?<=[.!?]) +(?=[A-Z`\"0-9])", text.strip()):
        for line in textwrap.wrap(roff(sentence), WIDTH, break_long_words=False, break_on_hyphens=False):
            out.append("\\&" + line if line[0] in ".'" else line)
    return out


def sections(reference):
    """The keys, as (key, doc, {type, default, limit}), and those of later versions."""
    keys, later, key = [], [], None
    in_later = False
    for line in reference.splitlines():
        heading = re.match(r"#{2,3} `(.*)`$", line)
        if line.startswith("## Known, not in this version"):
            in_later = True
        elif in_later:
            item = re.match(r"- `(.*)`$", line)
            if item:
                later.append(item.group(1))
        elif heading:
            key = (heading.group(1), [], {})
            keys.append(key)
        elif key and re.match(r"- (type|default|limit): ", line):
            what, value = line[2:].split(": ", 1)
            key[2][what] = value
        elif key and line.strip():
            key[1].append(line.strip())
    return keys, later


def print_keys(keys):
    print(".Bl -tag -width Ds")
    for name, doc, facts in keys:
        print(f".It Cm {name}")
        for line in lines(" ".join(doc)):
            print(line)
        if facts.get("type") in ("map", "map of names", "sequence of rules"):
            facts = {"limit": facts["limit"]} if "limit" in facts else {}
        said = "; ".join(f"{what}: {value}" for what, value in facts.items())
        if said:
            print(".br")
            for line in lines(said[0].upper() + said[1:] + "."):
                print(line)
    print(".El")


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        keys, later = sections(f.read())
    with open(sys.argv[2], encoding="utf-8") as f:
        template = f.read()
    for line in template.splitlines():
        if line == "@KEYS@":
            print_keys(keys)
        elif line == "@LATER@":
            for out in lines(", ".join(later) + "."):
                print(out)
        else:
            print(line)


if __name__ == "__main__":
    main()
