"""A disk in memory that carries out effects at once and exactly; and an oracle that reads a journal naively.

`PlainDisk` carries out one effect at a time, so that a test can stop between any two, or within one. `Truth` is the
oracle: it takes every batch in order and keeps messages in dictionaries, without checkpoints, indexes or dropped
segments.

Not here: a slow disk that loses unflushed bytes (`warren.sim.disk`).
"""

from typing import NamedTuple

from warren.broker.journal.payloads import decode_message
from warren.broker.journal.records import MESSAGE, REMOVED, RETURNED, SEGMENT_HEADER_BYTES, RecordScanner
from warren.broker.journal.recovery import JournalFiles, StartupState
from warren.broker.journal.segment_index import find_rows
from warren.broker.metadata.definition_kinds import decode_definition
from warren.broker.metadata.store import Snapshot
from warren.broker.metadata.topology_definitions import QueueDefinition
from warren.broker.model.effects import (
    AppendRecords,
    DropSegments,
    Effect,
    ReadIndex,
    ReadJournal,
    SealSegment,
    WriteCheckpoint,
)
from warren.broker.model.events import Event, IndexRead, JournalRead
from warren.broker.queues.settings import queue_settings
from warren.errors import StoreError

CHECKPOINT = "checkpoint"


def segment_name(number: int) -> str:
    return f"{number:012}.seg"


def index_name(number: int) -> str:
    return f"{number:012}.idx"


class Living(NamedTuple):
    """One message in one queue."""

    position: int
    priority: int
    body: bytes
    expires_at_ms: int
    delivery_count: int


class Truth:
    """The living messages of every queue, by id and position."""

    def __init__(self) -> None:
        self.queues: dict[int, dict[int, Living]] = {}
        # by queue
        self.max_priority: dict[int, int] = {}

    def take(self, segment: int, data: bytes, offset: int) -> None:
        """Apply one batch that begins at this byte of its segment."""
        start = offset or int(SEGMENT_HEADER_BYTES)
        scanner = RecordScanner(data, segment, start, offset)
        while scanner.next():
            for index in range(int(scanner.count)):
                queue_id, b, c = int(scanner.a(index)), int(scanner.b(index)), int(scanner.c(index))
                queue = self.queues.get(queue_id, {})
                if scanner.kind == MESSAGE:
                    body = decode_message(scanner.payload(), scanner.priority, True).body()
                    self.queues.setdefault(queue_id, queue)[b] = Living(b, int(scanner.priority), body, c, 0)
                elif scanner.kind == REMOVED:
                    for living in [one for one in queue.values() if b <= one.position <= c]:
                        if min(living.priority, self.max_priority.get(queue_id, 0)) == scanner.priority:
                            del queue[living.position]
                elif scanner.kind == RETURNED and b in queue:
                    queue[b] = queue[b]._replace(delivery_count=c)
        assert scanner.complete

    def copy(self) -> "Truth":
        copied = Truth()
        copied.queues = {queue_id: dict(queue) for queue_id, queue in self.queues.items()}
        copied.max_priority = dict(self.max_priority)
        return copied


class PlainFiles(JournalFiles):
    """`JournalFiles` on a `PlainDisk`."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self._files = files

    def checkpoint(self) -> bytes | None:
        return self._files.get(CHECKPOINT)

    def segments(self) -> list[int]:
        return sorted(int(name[:-4]) for name in self._files if name.endswith(".seg"))

    def segment(self, number: int) -> bytes:
        return self._files[segment_name(number)]

    def index(self, number: int) -> bytes | None:
        return self._files.get(index_name(number))

    def has_index(self, number: int) -> bool:
        return index_name(number) in self._files


class Written(NamedTuple):
    """A stored batch, its end, and the truth at that time."""

    segment: int
    offset: int
    end: int
    truth: Truth


class PlainDisk:
    """Files by name, and metadata."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.values: Snapshot = {}
        self.revision = 0
        self.incarnation = 0
        self.truth = Truth()
        self.batches: list[Written] = []
        self.reads = 0

    def copy(self) -> "PlainDisk":
        copied = PlainDisk()
        copied.files = dict(self.files)
        copied.values = dict(self.values)
        copied.revision = self.revision
        copied.incarnation = self.incarnation
        copied.truth = self.truth.copy()
        copied.batches = list(self.batches)
        return copied

    def found(self, now_ms: int = 0) -> StartupState:
        self.incarnation += 1
        return StartupState(self.revision, dict(self.values), PlainFiles(self.files), self.incarnation, now_ms)

    def segments(self) -> list[int]:
        return PlainFiles(self.files).segments()

    def size_bytes(self) -> int:
        return sum(len(content) for name, content in self.files.items() if name.endswith(".seg"))

    # -- effects

    def carry_out(self, effect: Effect) -> None:
        if isinstance(effect, AppendRecords):
            self.change(effect)
            self.write(effect, len(effect.data))
            self.truth.take(effect.segment, effect.data, effect.offset)
            end = effect.offset + len(effect.data)
            self.batches.append(Written(effect.segment, effect.offset, end, self.truth.copy()))
        elif isinstance(effect, SealSegment):
            self.files[index_name(effect.segment)] = effect.index
            if effect.size_bytes:
                name = segment_name(effect.segment)
                self.files[name] = self.files[name][: effect.size_bytes]
        elif isinstance(effect, WriteCheckpoint):
            self.files[CHECKPOINT] = effect.data
        elif isinstance(effect, DropSegments):
            for number in effect.segments:
                self.files.pop(segment_name(number), None)
                self.files.pop(index_name(number), None)

    def change(self, store: AppendRecords) -> None:
        """Apply a batch's changes of the metadata."""
        for change in store.changes:
            assert change.revision == self.revision + 1, "changes follow one another"
            self.revision = change.revision
            if change.value is None:
                self.values.pop(change.key, None)
            else:
                created = self.values.get(change.key, (change.revision, b""))[0]
                self.values[change.key] = (created, change.value)
                definition = decode_definition(change.key, change.value)
                if isinstance(definition, QueueDefinition):
                    self.truth.max_priority[created] = int(queue_settings(definition.arguments).max_priority)

    def write(self, store: AppendRecords, size: int) -> None:
        """Write the first bytes of a batch."""
        name = segment_name(store.segment)
        old = self.files.get(name, b"")
        assert store.offset == 0 or len(old) >= store.offset, "a batch follows the one before it"
        assert store.offset > 0 or name not in self.files, "a segment begins once"
        self.files[name] = old[: store.offset] + store.data[:size] + old[store.offset + size :]

    def read(self, effect: Effect) -> Event | None:
        """The answer to a read; None for any other effect."""
        if isinstance(effect, ReadIndex):
            self.reads += 1
            data = self.files.get(index_name(effect.segment))
            if data is None:
                return IndexRead(effect.ticket, b"", f"{index_name(effect.segment)}: No such file or directory")
            try:
                start, size = find_rows(data, effect.queue_id)
            except StoreError as fault:
                return IndexRead(effect.ticket, b"", str(fault))
            return IndexRead(effect.ticket, data[start : start + size])
        if isinstance(effect, ReadJournal):
            self.reads += 1
            content = self.files.get(segment_name(effect.segment))
            if content is None or any(offset + size > len(content) for offset, size in effect.extents):
                return JournalRead(effect.ticket, [], f"{segment_name(effect.segment)}: it ends too soon")
            return JournalRead(effect.ticket, [content[offset : offset + size] for offset, size in effect.extents])
        return None
