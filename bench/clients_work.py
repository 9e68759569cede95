"""The work of a measured client: how many messages, for how long, at which cost.

A program publishes, or consumes, until its time is over or nothing is left, and prints the result as JSON. Its cost is
the CPU time of its process, all threads included, from the moment it is connected until the last confirm has come or
the last ack is written.

Not here: the programs themselves (`clients_ours.py`, `clients_others.py`).
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

IN_FLIGHT = 1_000
"""How many publishes wait for their confirm at once."""

BATCH = 1_000
PREFETCH = 1_000
CONTENT_TYPE = "application/octet-stream"
LOOKS_AT_CLOCK = 64

Program = Callable[[Any, "Work"], Any]


@dataclass
class Work:
    """The work to do, and the work done."""

    url: str
    queue: str
    seconds: float
    body: bytes
    # of a consumer; 0 is as many as there are
    count: int = 0
    done: int = 0
    began_s: float = 0.0
    cpu_began_s: float = 0.0
    took_s: float = 0.0
    cpu_s: float = 0.0

    def begins(self) -> None:
        self.began_s, self.cpu_began_s = time.monotonic(), time.process_time()

    def ends(self) -> None:
        """Only the first call counts; clean-up follows it."""
        if not self.took_s:
            self.took_s, self.cpu_s = time.monotonic() - self.began_s, time.process_time() - self.cpu_began_s

    def goes_on(self) -> bool:
        return time.monotonic() - self.began_s < self.seconds

    def did(self, count: int) -> None:
        self.done += count

    def saw(self, body: bytes, message_id: object) -> None:
        """Check the body and the id that a consumer received."""
        if len(body) != len(self.body) or message_id is None:
            raise SystemExit(f"a message of {len(body)} bytes with id {message_id} came")

    def is_next(self) -> bool:
        """Count a handled message; True if another one is to follow."""
        self.done += 1
        if self.done == self.count:
            return False
        return self.done % LOOKS_AT_CLOCK != 0 or self.goes_on()


def run(start: Callable[[str, Work], None]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("url")
    parser.add_argument("queue")
    parser.add_argument("seconds", type=float)
    parser.add_argument("size", type=int)
    parser.add_argument("count", type=int)
    given = parser.parse_args()
    work = Work(given.url, given.queue, given.seconds, b"x" * given.size, given.count)
    start(given.name, work)
    print(json.dumps({"messages": work.done, "seconds": work.took_s, "cpu_seconds": work.cpu_s}))
