# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists like those of the sites nameway is made for, and the names that clients ask of them. All is invented, and the same every time.

    python3 lists.py DIRECTORY [ENTRIES]      writes vpn1 (39 lines), vpn (29,239 or ENTRIES lines) and asked (names and their exits)

The upstream (upstream.c) gives names with a label t1-, t2- or d- the addresses of that class, so the exit of every address is known."""
import os
import random
import sys

SYLLABLES = [c + v for c in "bcdfghjklmnprstvwz" for v in "aeiou"]
TLDS = ["test", "example", "yonder"] + [a + b for a in ("dobe", "kina", "luro", "miva", "pesa", "rota", "tuni", "vela") for b in ("", "net", "la")]
BARE_TLDS = ["zonka", "zuvira", "zefa"]
OTHER_TLDS = ["yard", "yonder"]  # nothing listed is under them
PREFIXES = ["198.51.100.0/28", "198.51.100.16/29", "198.51.100.24/30", "198.51.100.32/27", "198.51.100.64/28", "198.51.100.96/28", "198.51.100.128/26",
            "198.51.100.200/32", "198.51.100.201", "192.0.2.0/26", "192.0.2.128/25", "192.0.2.64/28",
            "2001:db8:e000::/48", "2001:db8:e001:10::/60", "2001:db8:e002::/47", "2001:db8:e010::1/128", "2001:db8:e010::2", "2001:db8:e020::/44", "2001:db8:e100::/40"]
# Labels that spell out an address of either family, inside the prefixes and just outside.
INSIDE = ["ip-c6336401.ip6-20010db8e00000000000000000000077", "ip-c6336412.ip6-20010db8e02100000000000000000001", "ip-c63364c9.ip6-20010db8e01000000000000000000002",
          "ip-c0000209.ip6-20010db8e10000000000000000000005", "ip-c00002fe.ip6-20010db8e00100100000000000000009"]
OUTSIDE = ["ip-c63364fe.ip6-20010db8e01000000000000000000003", "ip-c63364ca.ip6-20010db8e20000000000000000000001", "ip-c0000262.ip6-20010db8e00100200000000000000001"]


def word(r):
    return "".join(r.choice(SYLLABLES) for _ in range(r.choice((2, 3, 3, 4))))


def listed_names(count, tag, seed):
    r = random.Random(seed)
    names = []
    seen = set()
    while len(names) < count:
        n = f"{word(r)}{r.randrange(1000) if count > 100000 else ''}.{r.choice(TLDS)}"
        if r.random() < 0.3:
            n = word(r) + "." + n
        if len(names) % 2:
            n = tag + n
        if n not in seen:
            seen.add(n)
            names.append(n)
    return names


def write(path, lines):
    with open(path, "w", encoding="ascii") as f:
        f.write("\n".join(lines) + "\n")


class Lists:
    """vpn1 and vpn in a directory, and who asks what of them."""

    def __init__(self, directory, entries=29239):
        os.makedirs(directory, exist_ok=True)
        self.vpn1_path, self.vpn_path = os.path.join(directory, "vpn1"), os.path.join(directory, "vpn")
        self.vpn1 = listed_names(39, "t1-", 1)
        self.vpn = listed_names(entries - len(PREFIXES) - len(BARE_TLDS) - 20, "t2-", 2)
        self.vpn = [n for n in self.vpn if n not in set(self.vpn1)]
        while len(self.vpn) < entries - len(PREFIXES) - len(BARE_TLDS) - 20:
            self.vpn.append(f"t2-more{len(self.vpn)}.test")
        self.exceptions = ["d-free." + n for n in self.vpn[100:120]]
        lines = self.vpn + BARE_TLDS + ["!" + n for n in self.exceptions] + PREFIXES
        random.Random(3).shuffle(lines)
        write(self.vpn1_path, self.vpn1)
        write(self.vpn_path, lines)

    def asked_of(self, r, name, tag):
        return name if name.startswith(tag) and r.random() < 0.6 else f"{tag}{word(r)}.{name}"

    def unlisted(self, r):
        kind = r.random()
        if kind < 0.8:
            return f"d-{word(r)}{r.randrange(100000)}.{r.choice(OTHER_TLDS)}"
        # Almost a listed name: as part of a label, and as a name above.
        n = r.choice(self.vpn)
        return ("x" + n if kind < 0.9 else "d-" + n.replace(".", "-")) + ".yard"

    def one(self, r):
        kind = r.random()
        listed = r.choice(self.vpn)
        if kind < 0.40:
            return self.asked_of(r, listed, "t2-"), "2"
        if kind < 0.47:
            return self.asked_of(r, r.choice(self.vpn1), "t1-"), "1"
        if kind < 0.77:
            return self.unlisted(r), "0"
        if kind < 0.86:  # an unlisted name that is an alias of a listed one
            return f"c{r.randint(1, 3)}.{self.asked_of(r, listed, 't2-')}.via.d-{word(r)}{r.randrange(10000)}.yard", "2"
        if kind < 0.91:  # a listed name that is an alias of an unlisted one
            return f"c{r.randint(1, 3)}.t2-{word(r)}{r.randrange(10000)}.yonder.via.{listed}", "2"
        if kind < 0.95:
            return f"t2-{word(r)}{r.randrange(10000)}.{word(r)}.{r.choice(BARE_TLDS)}", "2"
        if kind < 0.97:
            return f"{r.choice(INSIDE)}.{word(r)}{r.randrange(1000)}.yard", "2"
        if kind < 0.98:
            return f"{r.choice(OUTSIDE)}.{word(r)}{r.randrange(1000)}.yard", "0"
        return f"d-{word(r)}.{r.choice(self.exceptions)}", "0"

    def write_asked(self, path, count=20000, seed=4):
        r = random.Random(seed)
        names = {}
        while len(names) < count:
            n, tag = self.one(r)
            if len(n) < 200:
                names[n] = tag
        write(path, [f"{n} {tag}" for n, tag in names.items()])
        return path


def main():
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    lists = Lists(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 29239)
    lists.write_asked(os.path.join(sys.argv[1], "asked"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
