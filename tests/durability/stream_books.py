"""The records of the publishers and readers of one stream, compared with a new reading of the stream.

A publisher's messages are numbered, in the order in which it publishes them, and it never publishes one twice. So

- an offset belongs to one message, for every reader, before and after restarts;
- offsets have no gap, and no message has two of them;
- the messages of one publisher are in the order of their numbers;
- every confirmed message is there.

Not here: other queues (`books`).
"""

import threading

BODY_BYTES = 2_000


def body_of(publisher: str, number: int) -> bytes:
    return f"{publisher} {number}".encode().ljust(BODY_BYTES, b".")


class StreamBooks:
    """One stream's. Used by several threads."""

    def __init__(self) -> None:
        self.confirmed: set[str] = set()
        self.complaints: list[str] = []
        self.reread = 0
        self._seen: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self._lock = threading.Lock()

    def complain(self, complaint: str) -> None:
        with self._lock:
            self.complaints.append(complaint)

    def next_number(self, publisher: str) -> int:
        with self._lock:
            self._numbers[publisher] = self._numbers.get(publisher, 0) + 1
            return self._numbers[publisher]

    def was_confirmed(self, publisher: str, number: int) -> None:
        with self._lock:
            self.confirmed.add(f"{publisher} {number}")

    def saw(self, offset: int, body: bytes) -> None:
        """A reader was given this."""
        message = body.decode().rstrip(".")
        with self._lock:
            known = self._seen.setdefault(offset, message)
            self.reread += known is not message
            if known != message:
                self.complaints.append(f"offset {offset} was {known}, and is {message}")

    def read_to(self) -> int:
        """Where readers have come to."""
        with self._lock:
            return max(self._seen, default=-1) + 1

    def check(self, whole: list[tuple[int, bytes]]) -> None:
        """All that is in the stream, read from its beginning."""
        for offset, body in whole:
            self.saw(offset, body)
        messages = [body.decode().rstrip(".") for _offset, body in whole]
        if [offset for offset, _body in whole] != list(range(len(whole))):
            self.complain("offsets are not dense")
        if len(set(messages)) != len(messages):
            self.complain("a message is there twice")
        last: dict[str, int] = {}
        for message in messages:
            publisher, _, number = message.partition(" ")
            if int(number) <= last.get(publisher, 0):
                self.complain(f"{message} comes after number {last[publisher]}")
            last[publisher] = int(number)
        lost = self.confirmed.difference(messages)
        if lost:
            self.complain(f"{len(lost)} messages were confirmed and are lost: {sorted(lost)[:5]}")
