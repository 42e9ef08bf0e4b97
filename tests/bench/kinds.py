# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked, in which manner, and which answer is right. A wrong answer is never counted as a fast one."""

# Queries in flight: a server always has some waiting, and the smallest default socket buffer (212,992 bytes, about 244 queries) loses none.
WINDOW, SOCKETS = 192, 4
PACE = 12000  # queries a second of the paced kinds
CACHED_NAMES, STEERED_NAMES = 1000, 200
NXDOMAIN, NOERROR = 3, 0

CACHED_DOMAIN, MISS_DOMAIN, STEERED_DOMAIN = "cached.nwbench.net", "miss.nwbench.net", "steered.nwbench.net"


class Kind:
    def __init__(self, title, asked, rcode, answers, is_ours=False, window=WINDOW, sockets=SOCKETS, rate=0, seconds=1.0):
        self.title = title
        self.asked = asked      # as nw-bench-load takes it
        self.rcode = rcode
        self.answers = answers  # records that a right answer has at least
        self.is_ours = is_ours  # steering: only nameway is asked
        self.window, self.sockets, self.rate = window, sockets, rate
        self.seconds = seconds  # of a measurement, as a multiple of --seconds

    def command(self, address, port, seconds, is_echo):
        rcode, answers = (-1, 0) if is_echo else (self.rcode, self.answers)
        return f"run {address} {port} {self.asked} {rcode} {answers} {self.window} {self.sockets} {int(seconds * self.seconds * 1000)} {self.rate}"


MISS, STEERED_MISS = f"m#.{MISS_DOMAIN}", f"s#.{STEERED_DOMAIN}"
KINDS = {
    "blocked": Kind("blocked name", "@blocked", NXDOMAIN, 0),
    "local": Kind("local NXDOMAIN", "www.*.lan", NXDOMAIN, 0),
    "cached": Kind("cached answer", "@cached", NOERROR, 1),
    "miss": Kind("forwarded miss", MISS, NOERROR, 1),
    "steered-cached": Kind("cached, steered", "@steered", NOERROR, 1, is_ours=True),
    # A new address each: every measurement is short, so that the rule's set (262,144 elements) is never full.
    "steered-miss": Kind("miss, steered", STEERED_MISS, NOERROR, 1, is_ours=True),
    "paced-miss": Kind(f"miss at {PACE}/s", MISS, NOERROR, 1, is_ours=True, window=4000, rate=PACE),
    "paced-steered-miss": Kind(f"miss at {PACE}/s, steered", STEERED_MISS, NOERROR, 1, is_ours=True, window=4000, rate=PACE),
    "single-miss": Kind("miss, one in flight", MISS, NOERROR, 1, is_ours=True, window=1, sockets=1),
    "single-steered-miss": Kind("miss, one in flight, steered", STEERED_MISS, NOERROR, 1, is_ours=True, window=1, sockets=1),
}
# Kinds that are measured in the same rounds: the first against the second.
STEERING_PAIRS = [("steered-cached", "cached"), ("steered-miss", "miss"), ("paced-steered-miss", "paced-miss"), ("single-steered-miss", "single-miss")]


def asked_names():
    """The names of the files `cached` and `steered`."""
    return {"cached": [f"c{i}.{CACHED_DOMAIN}" for i in range(CACHED_NAMES)], "steered": [f"c{i}.{STEERED_DOMAIN}" for i in range(STEERED_NAMES)]}
