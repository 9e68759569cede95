"""The records of the journal: how they are written, found again, and checked.

::

    0   u32 header_crc      crc32 of header[4:header_bytes], seeded with the segment's number
    4   u32 header_bytes    20 + 24 * count
    8   u32 payload_bytes   0 but for messages, offsets and publishing ids
    12  u32 payload_crc     crc32 of the payload
    16  u8  kind
    17  u8  priority        of the message; of a removal, its level; 0 otherwise
    18  u16 count
    20  count x (i64 a, i64 b, i64 c)
        payload

There are two checksums because they answer two questions. The header's checksum says that a record is here and how
long it is, so that the next record can be found. It is seeded with the segment's number, so that old bytes of a
recycled file never pass. The payload's checksum says that the message is intact. If it is not, one message is damaged
and the journal behind it is still readable.

Invariants: a record is accepted only if `header_bytes` and `count` agree; zeros are never a record. A SYNCED record has
two triples and no payload, so sixteen of its bytes are constant.

Not here: the payload of a message (`broker.journal.payloads`), which records are written and when
(`broker.journal.journal`), their meaning after a restart (`broker.journal.recovery`), the offset of a position
(`broker.journal.segment_index`).
"""

from typing import Final, final
from zlib import crc32

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from warren.broker.journal.payloads import PREFIX_BYTES, payload_body_bytes, payload_names_bytes, payload_prefix
from warren.broker.model.journal import ENTRY_COST_BYTES
from warren.broker.model.message import Message
from warren.errors import InvariantBroken, StoreError

MESSAGE: Final[i64] = 1
PAGED: Final[i64] = 2
COPY: Final[i64] = 3
COPY_PAGED: Final[i64] = 4
REMOVED: Final[i64] = 5
WATERMARK: Final[i64] = 6
RETURNED: Final[i64] = 7
MOVED: Final[i64] = 8
SYNCED: Final[i64] = 9
STOPPED: Final[i64] = 10
STORED_OFFSET: Final[i64] = 11
PUBLISHING_IDS: Final[i64] = 12
LAST_KIND: Final[i64] = PUBLISHING_IDS

HEADER_BYTES: Final[i64] = 20
TRIPLE_BYTES: Final[i64] = 24
COUNT_MAX: Final[i64] = 0xFFFF
"""The most triples of one record; a message in more queues takes several records."""

SEGMENT_HEADER_BYTES: Final[i64] = 64
SEGMENT_VERSION: Final[i64] = 2
SEGMENT_VERSION_MIN: Final[i64] = 1
"""The oldest version that can be read. Version 1 has no STORED_OFFSET and no PUBLISHING_IDS."""

SEGMENT_MAGIC: Final = b"WARRENJL"

LOW_32: Final[i64] = 0xFFFFFFFF

# the bytes from header_bytes to count of every SYNCED record
SYNCED_HEADER: Final = b"\x00\x00\x00\x44\x00\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x02"


def write_triple(out: BytesWriter, a: i64, b: i64, c: i64) -> None:
    write_i64_be(out, a)
    write_i64_be(out, b)
    write_i64_be(out, c)


def write_message_record(
    out: BytesWriter, segment: i64, kind: i64, triples: bytes, count: i64, message: Message
) -> i64:
    """Write the record of a message; its length."""
    prefix = payload_prefix(message)
    content = message.content
    payload_bytes: i64 = len(prefix) + len(content)
    payload_crc: i64 = crc32(content, crc32(prefix))
    header_bytes = _write_header(out, segment, kind, message.priority, triples, count, payload_bytes, payload_crc)
    out.write(prefix)
    out.write(content)
    return header_bytes + payload_bytes


def write_payload_record(
    out: BytesWriter,
    segment: i64,
    kind: i64,
    priority: i64,
    queue_id: i64,
    position: i64,
    expires_at_ms: i64,
    payload: bytes,
    payload_crc: i64,
) -> i64:
    """Write the record of a message in one queue, with its encoded payload; its length."""
    payload_bytes: i64 = len(payload)
    if payload_bytes > LOW_32:
        raise InvariantBroken(f"a record with a payload of {payload_bytes} bytes")
    scratch = BytesWriter()
    write_i64_be(scratch, (HEADER_BYTES + TRIPLE_BYTES) << 32 | payload_bytes)
    write_i64_be(scratch, signed_word(payload_crc) << 32 | kind << 24 | priority << 16 | 1)
    write_i64_be(scratch, queue_id)
    write_i64_be(scratch, position)
    write_i64_be(scratch, expires_at_ms)
    header = scratch.getvalue()
    crc: i64 = crc32(header, int(segment & LOW_32))
    write_i32_be(out, i32(signed_word(crc)))
    out.write(header)
    out.write(payload)
    return HEADER_BYTES + TRIPLE_BYTES + payload_bytes


def write_copy_record(
    out: BytesWriter,
    segment: i64,
    kind: i64,
    priority: i64,
    triples: bytes,
    count: i64,
    payload: bytes,
    payload_crc: i64,
) -> i64:
    """Write a record with the payload of another record; its length."""
    header_bytes = _write_header(out, segment, kind, priority, triples, count, len(payload), payload_crc)
    out.write(payload)
    return header_bytes + len(payload)


def write_mark(out: BytesWriter, segment: i64, kind: i64, priority: i64, triples: bytes, count: i64) -> i64:
    """Write a record without a payload; its length."""
    return _write_header(out, segment, kind, priority, triples, count, 0, 0)


def _write_header(
    out: BytesWriter,
    segment: i64,
    kind: i64,
    priority: i64,
    triples: bytes,
    count: i64,
    payload_bytes: i64,
    payload_crc: i64,
) -> i64:
    header_bytes: i64 = HEADER_BYTES + TRIPLE_BYTES * count
    if count > COUNT_MAX or len(triples) != TRIPLE_BYTES * count or payload_bytes > LOW_32:
        raise InvariantBroken(f"a record of {count} triples in {len(triples)} bytes, payload {payload_bytes}")
    scratch = BytesWriter()
    write_i64_be(scratch, header_bytes << 32 | payload_bytes)
    write_i64_be(scratch, signed_word(payload_crc) << 32 | kind << 24 | priority << 16 | count)
    scratch.write(triples)
    header = scratch.getvalue()
    crc: i64 = crc32(header, int(segment & LOW_32))
    write_i32_be(out, i32(signed_word(crc)))
    out.write(header)
    return header_bytes


def signed_word(word: i64) -> i64:
    """An unsigned 32-bit word as the signed number of the same bits."""
    return (word ^ 0x80000000) - 0x80000000


def segment_header(number: int, incarnation: int) -> bytes:
    """The first bytes of a segment."""
    out = BytesWriter()
    out.write(SEGMENT_MAGIC)
    write_i64_be(out, SEGMENT_VERSION << 32 | SEGMENT_HEADER_BYTES)
    write_i64_be(out, number)
    write_i64_be(out, incarnation)
    out.write(bytes(28))
    crc: i64 = crc32(out.getvalue())
    write_i32_be(out, i32(signed_word(crc)))
    return out.getvalue()


def segment_header_fault(data: bytes, number: int) -> str:
    """The fault of a segment header, as the end of a sentence; empty if there is none."""
    if len(data) < SEGMENT_HEADER_BYTES:
        return "too short"
    if data[:8] != SEGMENT_MAGIC:
        return "not a segment"
    # the checksum first: a wrong version may be damage
    crc: i64 = crc32(data[:60])
    if crc != unsigned_at(data, 60):
        return "damaged"
    version = unsigned_at(data, 8)
    if version < SEGMENT_VERSION_MIN or version > SEGMENT_VERSION:
        return f"of another version, {version}"
    if unsigned_at(data, 12) != SEGMENT_HEADER_BYTES:
        return "damaged"
    found: i64 = read_i64_be(data, 16)
    return "" if found == number else f"of segment {found}"


def segment_incarnation(data: bytes) -> int:
    """The incarnation of the node that began a segment."""
    return int(read_i64_be(data, 24))


def unsigned_at(data: bytes, at: i64) -> i64:
    return i64(read_i32_be(data, at)) & LOW_32


@final
class RecordScanner:
    """Steps from record to record through a segment, or through a piece of it that begins at byte `base`.

    All offsets are offsets in the segment. After `next()` returned False, `at` is where it stopped.
    """

    def __init__(self, data: bytes, segment: i64, start: i64, base: i64 = 0) -> None:
        self.data: bytes = data
        self.base: i64 = base
        # the current record
        self.at: i64 = start
        self.end: i64 = start
        self.kind: i64 = 0
        self.priority: i64 = 0
        self.count: i64 = 0
        self.payload_start: i64 = start
        self.payload_bytes: i64 = 0
        self.payload_crc: i64 = 0
        # the scan stopped exactly at the end of the data
        self.complete: bool = False
        # the scan stopped at an intact header whose record ends beyond the data, at `end`
        self.short: bool = False
        self._seed: int = int(segment & LOW_32)

    def next(self) -> bool:
        """Step to the next record; False if the bytes are no record, or the record is incomplete."""
        if self.short:
            return False
        data = self.data
        at: i64 = self.end
        begin: i64 = at - self.base
        have: i64 = len(data) - begin
        self.at = at
        if have < HEADER_BYTES:
            self.complete = have == 0
            return False
        sizes: i64 = read_i64_be(data, begin + 4)
        facts: i64 = read_i64_be(data, begin + 12)
        header_bytes: i64 = (sizes >> 32) & LOW_32
        count: i64 = facts & 0xFFFF
        kind: i64 = (facts >> 24) & 0xFF
        if header_bytes != HEADER_BYTES + TRIPLE_BYTES * count or have < header_bytes:
            return False
        if kind < MESSAGE or kind > LAST_KIND:
            return False
        crc: i64 = crc32(data[begin + 4 : begin + header_bytes], self._seed)
        if crc != unsigned_at(data, begin):
            return False
        payload_bytes: i64 = sizes & LOW_32
        self.kind = kind
        self.priority = (facts >> 16) & 0xFF
        self.count = count
        self.payload_start = at + header_bytes
        self.payload_bytes = payload_bytes
        self.payload_crc = (facts >> 32) & LOW_32
        self.end = at + header_bytes + payload_bytes
        self.short = have < header_bytes + payload_bytes
        return not self.short

    def a(self, i: i64) -> i64:
        return read_i64_be(self.data, self.at - self.base + HEADER_BYTES + TRIPLE_BYTES * i)

    def b(self, i: i64) -> i64:
        return read_i64_be(self.data, self.at - self.base + HEADER_BYTES + TRIPLE_BYTES * i + 8)

    def c(self, i: i64) -> i64:
        return read_i64_be(self.data, self.at - self.base + HEADER_BYTES + TRIPLE_BYTES * i + 16)

    def intact(self) -> bool:
        """Whether the payload matches its checksum."""
        crc: i64 = crc32(self.payload())
        return crc == self.payload_crc

    def triples(self) -> bytes:
        begin: i64 = self.at - self.base + HEADER_BYTES
        return self.data[begin : begin + TRIPLE_BYTES * self.count]

    def payload(self) -> bytes:
        begin: i64 = self.payload_start - self.base
        return self.data[begin : begin + self.payload_bytes]


def find_placement(scanner: RecordScanner, queue_id: i64, position: i64) -> i64:
    """Step to a record that should hold a queue's message; the index of its triple, -1 if the record is damaged."""
    if not scanner.next() or not scanner.intact():
        return -1
    index: i64 = 0
    while index < scanner.count:
        if scanner.a(index) == queue_id and scanner.b(index) == position:
            return index
        index += 1
    return -1


def record_sizes(scanner: RecordScanner, damaged: bool) -> tuple[i64, i64]:
    """The size of a message's body, and the cost of an entry of it; of a damaged record, estimates."""
    if damaged:
        return scanner.payload_bytes - PREFIX_BYTES, scanner.payload_bytes + ENTRY_COST_BYTES
    start: i64 = scanner.payload_start - scanner.base
    cost: i64 = scanner.payload_bytes - PREFIX_BYTES - payload_names_bytes(scanner.data, start) + ENTRY_COST_BYTES
    return payload_body_bytes(scanner.data, start), cost


def damaged_segment(segment: i64, offset: i64) -> StoreError:
    return StoreError(f"segment {segment} of the journal is damaged at byte {offset}")


def next_opening(data: bytes, segment: i64, at: i64) -> i64:
    """The offset of the first intact SYNCED record from `at` on, at any byte; -1 if there is none."""
    seed = int(segment & LOW_32)
    size: i64 = HEADER_BYTES + 2 * TRIPLE_BYTES
    found: i64 = _next_synced_header(data, at + 4)
    while found >= 0:
        begin: i64 = found - 4
        if begin + size <= len(data):
            crc: i64 = crc32(data[found : begin + size], seed)
            if crc == unsigned_at(data, begin):
                return begin
        found = _next_synced_header(data, found + 1)
    return -1


def synced_after(data: bytes, segment: i64, at: i64) -> i64:
    """The greatest offset of this segment that a SYNCED record from `at` on, at any byte, says is flushed.

    A record about a later segment says so of all the data. 0 if there is no record.
    """
    greatest: i64 = 0
    begin = next_opening(data, segment, at)
    while begin >= 0:
        of: i64 = read_i64_be(data, begin + HEADER_BYTES)
        if of >= segment:
            claimed: i64 = read_i64_be(data, begin + HEADER_BYTES + 8) if of == segment else len(data)
            greatest = max(greatest, claimed)
        begin = next_opening(data, segment, begin + 1)
    return greatest


def _next_synced_header(data: bytes, start: i64) -> i64:
    # find one byte first: this skips zeros a hundred times faster
    first: i64 = data.find(b"\x44", int(start))
    return -1 if first < 0 else data.find(SYNCED_HEADER, int(max(start, first - 3)))
