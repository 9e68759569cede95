"""Deduplication: the publishing identity of a message, and the window of identities that a queue has seen.

Two headers, `x-warren-publisher` and `x-warren-publishing-id`, are the *identity* of a message. A publisher that does
not know the outcome of a publish sends the message again with the same identity. Names and ids are texts; a number
counts as its decimal digits. A long name or id is replaced by its digest, so identities are small.

The broker looks for an identity once, when a channel publishes the message, and stores the result as
`Message.identified`, which is kept on disk and sent to other nodes. Messages that the broker makes from it, such as
dead letters, have the same headers but no identity, so they are never dropped as duplicates.

A queue remembers the last ids of each publisher, as many as its `dedup-window`, and evicts the oldest first. It
remembers at most `IDS_MAX` ids: beyond that it evicts the oldest id of the publisher that was idle longest, so active
publishers share the space equally. It remembers at most `PUBLISHERS_MAX` publishers: beyond that it evicts the one that
was idle longest.

An id is *lasting* if its message survives a restart of the node. Only lasting ids are written to disk.

The binary form is a sequence of rows, from the publisher that was idle longest to the last active one: ::

    u8 lasting, u8 length of the name, the name, u32 number of ids, for each id: u8 length, the id

Invariants: `count` is the number of ids; each publisher has at least one id and at most `limit`.

Not here: the queues that ask (`broker.queues.queue`, `broker.streams.stream`), storing the window
(`broker.journal.queue_state`).
"""

from collections import deque
from hashlib import blake2b
from typing import Final, final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, read_i64_be, write_i32_be
from mypy_extensions import i32, i64

from warren.errors import ConnectionFault, InvariantBroken, StoreError
from warren.wire.field_tables import Table
from warren.wire.field_types import (
    LONG_STRING,
    SIGNED_8,
    SIGNED_16,
    SIGNED_32,
    SIGNED_64,
    SIGNED_64_OLD,
    UNSIGNED_8,
    UNSIGNED_16,
    UNSIGNED_32,
)
from warren.wire.properties import find_header
from warren.wire.property_scan import CONTENT_ENCODING, CONTENT_TYPE, FIXED_BYTES, HEADERS

PUBLISHER: Final = b"x-warren-publisher"
PUBLISHING_ID: Final = b"x-warren-publishing-id"

ID_BYTES_MAX: Final = 16
NAME_BYTES_MAX: Final = 64
"""A longer id or name is replaced by a digest of 16 bytes."""

FRAME_HEAD_BYTES: Final[i64] = 7

PublishingIdentity = tuple[bytes, bytes]
"""A publisher and one of its ids; both empty for a message without an identity."""

NO_IDENTITY: Final[PublishingIdentity] = (b"", b"")


def is_text_or_number(kind: i64) -> bool:
    """Whether a field of this type can be a name or an id."""
    return (
        kind == LONG_STRING
        or kind in (SIGNED_8, UNSIGNED_8, SIGNED_16, UNSIGNED_16)
        or kind in (SIGNED_32, UNSIGNED_32, SIGNED_64, SIGNED_64_OLD)
    )


def identity_in(data: bytes, start: i64, end: i64) -> PublishingIdentity:
    """The identity in the headers `data[start:end]`, a table content that was checked."""
    publisher_at: i64 = find_header(data, start, end, PUBLISHER)
    if publisher_at < 0:
        return NO_IDENTITY
    id_at: i64 = find_header(data, start, end, PUBLISHING_ID)
    if id_at < 0:
        return NO_IDENTITY
    publisher, publishing_id = _text_at(data, publisher_at), _text_at(data, id_at)
    if not publisher or not publishing_id:
        return NO_IDENTITY
    return _compact(publisher, NAME_BYTES_MAX), _compact(publishing_id, ID_BYTES_MAX)


def identity_at(data: bytes, at: i64) -> PublishingIdentity:
    """The identity of the content at this offset, which is marked as identified."""
    try:
        return _identity_at(data, at)
    except (ConnectionFault, IndexError):
        # the mark came from another node, and is wrong
        return NO_IDENTITY


def _identity_at(data: bytes, at: i64) -> PublishingIdentity:
    header: i64 = at + FRAME_HEAD_BYTES
    end: i64 = header + i64(read_i32_be(data, at + 3))
    flags: i64 = i64(read_i16_be(data, header + FIXED_BYTES - 2)) & 0xFFFF
    if not flags & HEADERS or end > len(data):
        return NO_IDENTITY
    start: i64 = header + FIXED_BYTES
    if flags & CONTENT_TYPE:
        start += 1 + data[start]
    if flags & CONTENT_ENCODING:
        start += 1 + data[start]
    size: i64 = i64(read_i32_be(data, start))
    start += 4
    if size < 0 or start + size > end:
        return NO_IDENTITY
    return identity_in(data, start, start + size)


def _text_at(data: bytes, at: i64) -> bytes:
    """The text of the field with its type octet at `at`; empty if it is neither text nor number."""
    kind: i64 = data[at]
    at += 1
    if kind == LONG_STRING:
        return data[at + 4 : at + 4 + i64(read_i32_be(data, at))]
    if not is_text_or_number(kind):
        return b""
    return str(int(_number_at(data, at, kind))).encode()


def _number_at(data: bytes, at: i64, kind: i64) -> i64:
    if kind == SIGNED_32:
        return i64(read_i32_be(data, at))
    if kind == UNSIGNED_32:
        return i64(read_i32_be(data, at)) & 0xFFFFFFFF
    if kind == SIGNED_16:
        return i64(read_i16_be(data, at))
    if kind == UNSIGNED_16:
        return i64(read_i16_be(data, at)) & 0xFFFF
    if kind in (SIGNED_64, SIGNED_64_OLD):
        return read_i64_be(data, at)
    number: i64 = data[at]
    return number - 256 if kind == SIGNED_8 and number > 127 else number


def _compact(text: bytes, longest: int) -> bytes:
    return text if len(text) <= longest else blake2b(text, digest_size=16).digest()


WINDOW_LIMIT: Final[i64] = 100_000
"""The default number of ids that a queue remembers of each publisher."""

PUBLISHERS_MAX: Final = 10_000
IDS_MAX: Final[i64] = 1_000_000
ROW_IDS: Final[i64] = 2_048
"""The most ids of a row. The binary form can be split between rows."""


WINDOW_ARGUMENT: Final = "x-warren-dedup-window"
WINDOW_KEY: Final = "dedup-window"


def window_limit(arguments: Table, policy: Table) -> int:
    """How many ids a queue remembers of each publisher: the lower of its argument and its policy."""
    said = [one for one in (arguments.get(WINDOW_ARGUMENT), policy.get(WINDOW_KEY)) if isinstance(one, int)]
    return min(*said, int(IDS_MAX)) if said else int(WINDOW_LIMIT)


@final
class PublisherWindow:
    """The ids of one publisher, in the order of arrival."""

    def __init__(self) -> None:
        self.ids: set[bytes] = set()
        self.order: deque[bytes] = deque()
        # the ids that are not lasting
        self.passing: set[bytes] = set()

    def forget_oldest(self) -> None:
        oldest = self.order.popleft()
        self.ids.discard(oldest)
        self.passing.discard(oldest)


@final
class DeduplicationWindow:
    """The identities that one queue remembers."""

    def __init__(self) -> None:
        self.count: i64 = 0
        # messages that were dropped as duplicates
        self.repeated: i64 = 0
        # the maximum, until the queue sets its own limit
        self._limit: i64 = IDS_MAX
        # in the order of last activity: the last active publisher is at the end
        self._publishers: dict[bytes, PublisherWindow] = {}
        self._last: bytes = b""

    def is_open(self) -> bool:
        """Whether deduplication is on."""
        return self._limit > 0

    def has(self, identity: PublishingIdentity) -> bool:
        publisher = self._publishers.get(identity[0])
        return publisher is not None and identity[1] in publisher.ids

    def repeats(self, content: bytes) -> bool:
        """Whether a message with this content is a duplicate; if so, count it."""
        if self._limit == 0 or self.count == 0 or not self.has(identity_at(content, 0)):
            return False
        self.repeated += 1
        return True

    def note(self, content: bytes, lasting: bool) -> None:
        """Remember the identity of a message with this content."""
        if self._limit > 0:
            self.add(identity_at(content, 0), lasting)

    def add(self, identity: PublishingIdentity, lasting: bool) -> None:
        name, publishing_id = identity
        if self._limit == 0 or not name:
            return
        publisher = self._publisher(name)
        if publishing_id in publisher.ids:
            if lasting:
                publisher.passing.discard(publishing_id)
            return
        publisher.ids.add(publishing_id)
        publisher.order.append(publishing_id)
        if not lasting:
            publisher.passing.add(publishing_id)
        self.count += 1
        if len(publisher.order) > self._limit:
            publisher.forget_oldest()
            self.count -= 1
        if self.count > IDS_MAX:
            self._forget_oldest_of_idlest()

    def _publisher(self, name: bytes) -> PublisherWindow:
        """The window of this publisher, moved to the end: it is the last active one."""
        publisher = self._publishers.get(name)
        if publisher is None:
            publisher = PublisherWindow()
            self._publishers[name] = publisher
            if len(self._publishers) > PUBLISHERS_MAX:
                self._forget_idlest()
        elif name != self._last:
            del self._publishers[name]
            self._publishers[name] = publisher
        self._last = name
        return publisher

    def _forget_oldest_of_idlest(self) -> None:
        name = next(iter(self._publishers))
        publisher = self._publishers[name]
        publisher.forget_oldest()
        self.count -= 1
        if not publisher.order:
            del self._publishers[name]

    def _forget_idlest(self) -> None:
        name = next(iter(self._publishers))
        publisher = self._publishers[name]
        self.count -= len(publisher.order)
        del self._publishers[name]

    def discard(self, identity: PublishingIdentity) -> None:
        """Forget the identity of a message that was not committed."""
        name, publishing_id = identity
        publisher = self._publishers.get(name)
        if publisher is None or publishing_id not in publisher.ids:
            return
        publisher.ids.discard(publishing_id)
        publisher.passing.discard(publishing_id)
        # usually the newest id
        if publisher.order[-1] == publishing_id:
            publisher.order.pop()
        else:
            publisher.order.remove(publishing_id)
        self.count -= 1
        if not publisher.order:
            del self._publishers[name]

    def bound(self, limit: i64) -> None:
        """Set the number of ids for each publisher; 0 turns deduplication off."""
        self._limit = min(limit, IDS_MAX)
        for name in list(self._publishers):
            publisher = self._publishers[name]
            while len(publisher.order) > self._limit:
                publisher.forget_oldest()
                self.count -= 1
            if not publisher.order:
                del self._publishers[name]

    def clear(self) -> None:
        self._publishers = {}
        self._last = b""
        self.count = 0

    # -- the binary form

    def rows(self, lasting_only: bool) -> list[bytes]:
        """The window as rows; each row can be loaded on its own."""
        rows: list[bytes] = []
        for name, publisher in self._publishers.items():
            ids = list(publisher.order)
            if publisher.passing:
                passing = [one for one in ids if one in publisher.passing]
                ids = [one for one in ids if one not in publisher.passing]
                if not lasting_only:
                    _write_rows(rows, name, passing, False)
            _write_rows(rows, name, ids, True)
        return rows

    def load(self, data: bytes, lasting_only: bool) -> None:
        """Add the identities of concatenated rows."""
        _Rows(data).each(self, lasting_only, True)

    def unload(self, data: bytes) -> None:
        """Discard the identities of concatenated rows."""
        _Rows(data).each(self, False, False)

    def check(self) -> None:
        """Raise `InvariantBroken` if an invariant does not hold."""
        count = 0
        for publisher in self._publishers.values():
            count += len(publisher.ids)
            if len(publisher.order) != len(publisher.ids) or not publisher.passing <= publisher.ids:
                raise InvariantBroken(f"a publisher has {len(publisher.ids)} ids, in order {len(publisher.order)}")
            if not publisher.order or len(publisher.order) > self._limit:
                raise InvariantBroken(f"a publisher has {len(publisher.order)} ids where {self._limit} are allowed")
        if count != self.count or count > IDS_MAX or len(self._publishers) > PUBLISHERS_MAX:
            raise InvariantBroken(f"a window counts {self.count} ids and has {count}")


def window_row(identity: PublishingIdentity, lasting: bool) -> bytes:
    """One identity as a row."""
    rows: list[bytes] = []
    _write_rows(rows, identity[0], [identity[1]], lasting)
    return rows[0]


def _write_rows(rows: list[bytes], name: bytes, ids: list[bytes], lasting: bool) -> None:
    for start in range(0, len(ids), int(ROW_IDS)):
        some = ids[start : start + int(ROW_IDS)]
        out = BytesWriter()
        out.write(bytes([1 if lasting else 0, len(name)]))
        out.write(name)
        write_i32_be(out, i32(len(some)))
        for one in some:
            out.append(len(one))
            out.write(one)
        rows.append(out.getvalue())


@final
class _Rows:
    """Reads rows; a `StoreError` if they are damaged."""

    def __init__(self, data: bytes) -> None:
        self._data: bytes = data
        self._at: i64 = 0

    def each(self, window: DeduplicationWindow, lasting_only: bool, added: bool) -> None:
        while self._at < len(self._data):
            lasting = self._take(1) == b"\x01"
            name = self._sized()
            left = int.from_bytes(self._take(4), "big")
            while left > 0:
                identity = (name, self._sized())
                if not added:
                    window.discard(identity)
                elif lasting or not lasting_only:
                    window.add(identity, lasting)
                left -= 1

    def _sized(self) -> bytes:
        return self._take(self._take(1)[0])

    def _take(self, size: i64) -> bytes:
        at = self._at
        self._at = at + size
        if self._at > len(self._data):
            raise StoreError("a row of publishing ids is cut short")
        return self._data[at : self._at]
