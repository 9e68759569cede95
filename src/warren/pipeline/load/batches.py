"""Records of files merged into messages, each a batch of the client's.

A message has records of one routing key and of one range of a file. Its id is a digest of the file, the place of its
first record, its key and its body: the same whenever the range is read, and another for the same records elsewhere.

Invariants: no body is longer than `max_bytes`; every record that was added is in exactly one message, or was refused.

Not here: what a batch looks like (`client.batches`), where records come from (`load.records`), what parts messages are
published in (`load.source`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, NamedTuple

from warren.client.batches import BRACKETS_BYTES, BatchBody

BUFFERED_BYTES_MAX: Final = 64_000_000
"""How much of all keys together waits for more records of the same key."""

ID_CHARACTERS: Final = 32
KEY_BYTES_MAX: Final = 255


class Record(NamedTuple):
    """A record as JSON text, with its place in the file, and its routing key if records have their own."""

    place: int
    text: bytes
    key: str | None = None


class Bad(NamedTuple):
    """What cannot be loaded, as it was found, and why."""

    place: int
    text: bytes
    reason: str


class Message(NamedTuple):
    """Some records, merged."""

    id: str
    first: int
    records: int
    key: str | None
    body: bytes


@dataclass
class _Buffer:
    first: int
    body: BatchBody


class Packer:
    """Merges the records of one range."""

    def __init__(self, file: str, max_bytes: int) -> None:
        self._file = file
        self._max_bytes = max_bytes
        self._buffers: dict[str | None, _Buffer] = {}
        self._buffered = 0

    def add(self, record: Record) -> Iterator[Message | Bad]:
        """What is complete by this record, or why it cannot be sent."""
        buffer = self._buffers.get(record.key)
        body = BatchBody(self._max_bytes) if buffer is None else buffer.body
        reason = body.refusal(record.text) or _key_refusal(record.key)
        if reason:
            yield Bad(record.place, record.text, reason)
            return
        if not body.takes(record.text):
            yield self._complete(record.key)
            body = BatchBody(self._max_bytes)
        if not body.records:
            self._buffers[record.key] = _Buffer(record.place, body)
        self._buffered += body.add(record.text)
        if self._buffered > BUFFERED_BYTES_MAX:
            yield self._complete(max(self._buffers, key=lambda key: self._buffers[key].body.size))

    def finish(self) -> Iterator[Message]:
        """What is left."""
        for key in list(self._buffers):
            yield self._complete(key)

    def _complete(self, key: str | None) -> Message:
        buffer = self._buffers.pop(key)
        self._buffered -= buffer.body.size - BRACKETS_BYTES
        body = buffer.body.text()
        origin = f"{self._file}\0{buffer.first}\0{'' if key is None else key}\0".encode()
        digest = sha256(origin + body).hexdigest()[:ID_CHARACTERS]
        return Message(digest, buffer.first, buffer.body.records, key, body)


def _key_refusal(key: str | None) -> str:
    too_long = key is not None and len(key.encode()) > KEY_BYTES_MAX
    return f"its routing key has more than {KEY_BYTES_MAX} bytes" if too_long else ""
