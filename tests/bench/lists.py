# SPDX-License-Identifier: GPL-3.0-or-later
"""The names that are blocked: real ones drawn from a file where there is one, else names made here."""
import gzip
import os
import random

WORDS = ("ads", "track", "metrics", "cdn", "pixel", "static", "media", "shop", "news", "mail", "video", "img", "click", "stat", "api", "edge")
TLDS = ("com", "net", "org", "info", "io", "de", "ru", "co.uk", "xyz", "site")


def made_names(count):
    """`count` names, no two alike and none below another: three labels and four, under many second-level domains."""
    rng = random.Random(count)
    bits, choice = rng.getrandbits, rng.choice
    for i in range(count):
        r = bits(48)
        yield f"{choice(WORDS)}{r & 0xfff:x}-{i:x}.{choice(WORDS)}{r >> 12 & 0xffff:x}.{TLDS[r >> 28 & 7]}"


def read_names(path):
    opened = gzip.open(path, "rt", encoding="ascii", errors="ignore") if path.endswith(".gz") else open(path, encoding="ascii", errors="ignore")
    with opened as f:
        return [n for n in (line.strip() for line in f) if "." in n and not set(n) & set("#!/ *:")]


class Source:
    """Where lists come from. `path` may be None or a file that does not hold enough names: then they are made."""

    def __init__(self, path):
        self.path = path if path and os.path.exists(path) else None
        self.names = None

    def write(self, path, size):
        """A list of `size` names. Returns what they are."""
        if self.path and self.names is None:
            self.names = sorted(set(read_names(self.path)))
        is_real = self.names is not None and len(self.names) >= size
        names = random.Random(size).sample(self.names, size) if is_real else made_names(size)
        with open(path, "w", encoding="ascii") as f:
            f.writelines(f"{n}\n" for n in names)
        return "real" if is_real else "made"


def write_names(path, names):
    with open(path, "w", encoding="ascii") as f:
        f.writelines(f"{n}\n" for n in names)
