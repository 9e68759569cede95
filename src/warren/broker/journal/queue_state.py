"""The state of a queue besides its messages, on disk: publishing ids, readers' offsets, and the archived position of a
mirrored stream.

The ids of messages in the journal are not written: a start finds them in the messages it replays. A checkpoint has all
other ids, because their messages may be gone. Two kinds of records have the changes since:

    STORED_OFFSET    an offset, or its end; the payload is the reader's name. Without a name it is the position up to
                     which the stream is archived
    PUBLISHING_IDS   rows of ids (`broker.model.deduplication`): added, replacing all ids, or removed because their
                     messages were rolled back

As a part of a checkpoint: ::

    i64 size of the rows, the rows, then each offset: i64 offset, i64 size of the name, the name

Invariant: after a start the ids are those of the stored messages, and no others.

Not here: the deduplication window (`broker.model.deduplication`), when records are written
(`broker.journal.queue_index`).
"""

from typing import Final

from librt.strings import BytesWriter, read_i64_be, write_i64_be
from mypy_extensions import i64

from warren.broker.journal.batches import JournalBatch
from warren.broker.journal.payloads import payload_identity
from warren.broker.journal.records import MESSAGE, PUBLISHING_IDS, STORED_OFFSET, RecordScanner, write_triple
from warren.broker.model.ports import UNKNOWN_POSITION, QueueLog
from warren.errors import StoreError

IDS_ADDED: Final[i64] = 0
IDS_REPLACED: Final[i64] = 1
IDS_REMOVED: Final[i64] = 2

ARCHIVE_OFFSET: Final = ""
"""Not a reader's name: the offset of the stream's own archive."""


def write_offset(batch: JournalBatch, queue_id: i64, name: str, offset: i64) -> None:
    batch.note(STORED_OFFSET, _triple(queue_id, offset), name.encode("utf-8", "surrogateescape"))


def write_publishing_ids(batch: JournalBatch, queue_id: i64, what: i64, rows: bytes) -> None:
    batch.note(PUBLISHING_IDS, _triple(queue_id, what), rows)


def _triple(queue_id: i64, word: i64) -> bytes:
    out = BytesWriter()
    write_triple(out, queue_id, word, 0)
    return out.getvalue()


def replay_queue_state(log: QueueLog, scanner: RecordScanner, index: i64) -> None:
    """Apply one triple of an intact record to its queue."""
    if scanner.kind == MESSAGE:
        log.seen.add(payload_identity(scanner.data, scanner.payload_start - scanner.base), True)
    elif scanner.kind == STORED_OFFSET:
        _keep(log, scanner.payload().decode("utf-8", "surrogateescape"), scanner.b(index))
    elif scanner.kind == PUBLISHING_IDS:
        what = scanner.b(index)
        if what == IDS_REMOVED:
            log.seen.unload(scanner.payload())
            return
        if what == IDS_REPLACED:
            log.seen.clear()
        log.seen.load(scanner.payload(), True)


def _keep(log: QueueLog, name: str, offset: i64) -> None:
    if name == ARCHIVE_OFFSET:
        log.archived_to = offset
    else:
        log.offsets.keep(name, offset)


def encode_queue_state(log: QueueLog) -> bytes:
    """The state for a checkpoint; empty if there is none."""
    offsets = dict(log.offsets.by_name)
    if log.archived_to != UNKNOWN_POSITION:
        offsets[ARCHIVE_OFFSET] = int(log.archived_to)
    if log.seen.count == 0 and not offsets:
        return b""
    rows = b"".join(log.seen.rows(True))
    out = BytesWriter()
    write_i64_be(out, len(rows))
    out.write(rows)
    for name, offset in offsets.items():
        text = name.encode("utf-8", "surrogateescape")
        write_i64_be(out, offset)
        write_i64_be(out, len(text))
        out.write(text)
    return out.getvalue()


def load_queue_state(log: QueueLog, data: bytes) -> None:
    log.seen.clear()
    log.offsets.clear()
    log.archived_to = UNKNOWN_POSITION
    if not data:
        return
    size: i64 = len(data)
    at: i64 = 8 + read_i64_be(data, 0) if size >= 8 else -1
    if at < 8 or at > size:
        raise StoreError("a checkpoint that contradicts itself: its publishing ids end too late")
    log.seen.load(data[8:at], True)
    while at < size:
        if at + 16 > size:
            raise StoreError("a checkpoint that contradicts itself: an offset is cut short")
        offset, length = read_i64_be(data, at), read_i64_be(data, at + 8)
        at += 16 + length
        if length < 0 or at > size:
            raise StoreError("a checkpoint that contradicts itself: a name is cut short")
        _keep(log, data[at - length : at].decode("utf-8", "surrogateescape"), offset)
