"""Records merged into messages: JSON arrays that are as long as they may be.

A message has records of one routing key and of one range of a file. Its id is a digest of the file, the place of its
first record, its key and its body: the same whenever the range is read, and another for the same records elsewhere.

Invariants: no body is longer than `max_bytes`; every record that was added is in exactly one message, or was refused.

Not here: where records come from (`load.records`), what parts messages are published in (`load.source`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, NamedTuple

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
    size: int = 2
    texts: list[bytes] = field(default_factory=list)


class Packer:
    """Merges the records of one range."""

    def __init__(self, file: str, max_bytes: int) -> None:
        self._file = file
        self._max_bytes = max_bytes
        self._buffers: dict[str | None, _Buffer] = {}
        self._buffered = 0

    def add(self, record: Record) -> Iterator[Message | Bad]:
        """What is complete by this record, or why it cannot be sent."""
        size = len(record.text)
        reason = self._refusal(record, size)
        if reason:
            yield Bad(record.place, record.text, reason)
            return
        buffer = self._buffers.get(record.key)
        if buffer is not None and buffer.size + size + 1 > self._max_bytes:
            yield self._complete(record.key)
            buffer = None
        if buffer is None:
            buffer = self._buffers[record.key] = _Buffer(record.place)
        # a comma stands before all but the first
        added = size + (1 if buffer.texts else 0)
        buffer.texts.append(record.text)
        buffer.size += added
        self._buffered += added
        if self._buffered > BUFFERED_BYTES_MAX:
            yield self._complete(max(self._buffers, key=lambda key: self._buffers[key].size))

    def finish(self) -> Iterator[Message]:
        """What is left."""
        for key in list(self._buffers):
            yield self._complete(key)

    def _refusal(self, record: Record, size: int) -> str:
        if size + 2 > self._max_bytes:
            return f"has {size} bytes, and a message of {self._max_bytes} has no room for it"
        if record.key is not None and len(record.key.encode()) > KEY_BYTES_MAX:
            return f"its routing key has more than {KEY_BYTES_MAX} bytes"
        return ""

    def _complete(self, key: str | None) -> Message:
        buffer = self._buffers.pop(key)
        self._buffered -= buffer.size - 2
        body = b"[" + b",".join(buffer.texts) + b"]"
        origin = f"{self._file}\0{buffer.first}\0{'' if key is None else key}\0".encode()
        digest = sha256(origin + body).hexdigest()[:ID_CHARACTERS]
        return Message(digest, buffer.first, len(buffer.texts), key, body)
