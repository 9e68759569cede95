"""A node's simulated disk: it carries out a node's orders as `node.disk` does, one step after another, each of which
takes time. The node may die between any two.

::

    orders --> [ metadata | writes, seals, checkpoints, drops in their order | flush ] --> FlushCompleted
    reads  --> [ one after another ]                                                   --> IndexRead, JournalRead

The writer takes all waiting orders. The reader does not wait for the writer.

The disk numbers batches through all lives of its node, and remembers the bytes of unflushed ones. When the node dies it
looks for them, so it can say exactly what the node must find: every batch up to `survived_no`, and nothing of later
ones, because a batch is whole or void and what follows a void one is void, too.

Invariants: `flushed_no <= written_no <= changed_no`; a batch is reported as flushed when it and all before it are.

Not here: the files (`sim.files`), their contents (`broker.journal`).
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from warren.broker.journal.recovery import StartupState
from warren.broker.journal.segment_index import find_rows
from warren.broker.model.effects import (
    AppendRecords,
    DropSegments,
    Effect,
    ReadIndex,
    ReadJournal,
    SealSegment,
    WriteCheckpoint,
)
from warren.broker.model.events import DiskFull, Event, FlushCompleted, IndexRead, JournalRead
from warren.broker.model.journal import MetadataChange
from warren.sim.files import (
    CHECKPOINT,
    SimulatedArchives,
    SimulatedDirectory,
    SimulatedFile,
    SimulatedJournalFiles,
    index_name,
    segment_name,
)

SPARE = "spare"
UNFINISHED = ".new"
FLUSH_WITHIN_MS = 200
RETRY_MS = 100
SLOW_FLUSH_MS = 400
NO_ROOM = "No space left on device"

Schedule = Callable[[int, Callable[[], None]], None]
Steps = Iterator[tuple[str, int]]
"""The steps of some work: the name of each and its duration. The code after the `yield` runs at its end."""


@dataclass(frozen=True, slots=True, eq=False)
class UnflushedBatch:
    """Unflushed bytes, and where they belong."""

    number: int
    segment: int
    offset: int
    data: bytes


class SimulatedDisk:
    """The files and the metadata of one node, and the work on them."""

    def __init__(self, chance: Random, schedule: Schedule, emit: Callable[[Event], None]) -> None:
        self.directory = SimulatedDirectory(chance)
        self.archives = SimulatedArchives(chance, schedule, emit, self._report_step, self._flush_ms, self._is_full)
        self.values: dict[str, tuple[int, bytes]] = {}
        self.revision = 0
        self.incarnation = 0
        # the last incarnation that the cluster was asked to register
        self.asked = 0
        # number of this disk among a node's disks
        self.identity = 1
        # faults: flushes take long; there is no space
        self.slow = False
        self.full = False
        # how far metadata, writes and flushes have come, by batch, through all lives
        self.changed_no = 0
        self.written_no = 0
        self.flushed_no = 0
        # what the last death left
        self.survived_no = 0
        # batches before this life of the node
        self.base_no = 0
        # called with the name of each step before it is taken
        self.watch: Callable[[str], None] | None = None
        self._chance = chance
        self._schedule = schedule
        self._emit = emit
        self._life = 0
        self._orders: deque[Effect] = deque()
        self._reads: deque[ReadIndex | ReadJournal] = deque()
        self._writer: Steps | None = None
        self._reading = False
        self._unflushed: deque[UnflushedBatch] = deque()
        self._told_full = False

    # -- orders

    def order(self, order: Effect) -> None:
        """Carry out an `AppendRecords`, `SealSegment`, `WriteCheckpoint` or `DropSegments`, after all others."""
        self._orders.append(order)
        if self._writer is None:
            self._begin(self._work())

    def read(self, order: ReadIndex | ReadJournal) -> None:
        self._reads.append(order)
        if not self._reading:
            self._reading = True
            self._schedule_read()

    def idle(self) -> bool:
        """Whether all orders are carried out and everything is flushed."""
        return self._writer is None and not self._reads and not self._unflushed and self.archives.idle()

    def found(self, now_ms: int) -> StartupState:
        """The state that a new process finds."""
        found = StartupState(
            self.revision, dict(self.values), SimulatedJournalFiles(self.directory), self.incarnation, now_ms
        )
        found.archives = self.archives.found()
        return found

    # -- life and death

    def kill(self) -> None:
        """The process dies: its writes stay, its unfinished work does not."""
        self._life += 1
        self._orders.clear()
        self._reads.clear()
        self._writer = None
        self._reading = False
        self._told_full = False
        self.archives.kill()
        self._look_for_survivors()

    def lose_power(self) -> None:
        self.directory.lose_power()
        self.archives.lose_power()
        self.kill()

    def start(self) -> None:
        """A process begins: unfinished work of the last one is void."""
        self.incarnation += 1
        names = self.directory.names()
        for name in names:
            lone = name.endswith(".idx") and name.replace(".idx", ".seg") not in names
            if name.endswith(UNFINISHED) or lone:
                self.directory.unlink(name)
        self.base_no = self.changed_no = self.written_no = self.survived_no

    def _look_for_survivors(self) -> None:
        """Everything after the first incomplete batch is void."""
        survivors: deque[UnflushedBatch] = deque()
        self.survived_no = self.flushed_no
        for batch in self._unflushed:
            file = self.directory.find(segment_name(batch.segment))
            if batch.data and (file is None or file.read(batch.offset, len(batch.data)) != batch.data):
                break
            survivors.append(batch)
            self.survived_no = batch.number
        self._unflushed = survivors

    # -- the writer

    def _begin(self, work: Steps) -> None:
        self._writer = work
        self._take_step(self._life)

    def _take_step(self, life: int) -> None:
        if life != self._life or self._writer is None:
            return
        try:
            step, duration_ms = next(self._writer)
        except StopIteration:
            self._writer = None
            if self._orders:
                self._begin(self._work())
            elif self._unflushed:
                self._schedule(FLUSH_WITHIN_MS, lambda: self._flush_late(life))
            return
        self._report_step(step)
        self._schedule(duration_ms, lambda: self._take_step(life))

    def _report_step(self, step: str) -> None:
        if self.watch is not None:
            self.watch(step)

    def _flush_late(self, life: int) -> None:
        """No order asked for a flush in all that time."""
        if life == self._life and self._writer is None and self._unflushed:
            self._begin(self._flush_and_report())

    def _work(self) -> Steps:
        """Carry out all waiting orders."""
        orders = self._take_group()
        stores = [order for order in orders if isinstance(order, AppendRecords)]
        changes = [change for store in stores for change in store.changes]
        if changes:
            if any(change.value is None for change in changes):
                yield from self._flush_segments()
            yield from self._await_room()
            yield "change metadata", self._flush_ms()
            self._apply(changes)
        if stores:
            self.changed_no = self.base_no + stores[-1].batch_no
        for order in orders:
            if isinstance(order, AppendRecords):
                yield from self._store(order)
            elif isinstance(order, SealSegment):
                yield from self._seal(order)
            elif isinstance(order, WriteCheckpoint):
                yield from self._flush_segments()
                yield from self._replace(CHECKPOINT, "checkpoint", order.data)
            elif isinstance(order, DropSegments):
                yield from self._drop(order)
        if any(store.flush for store in stores):
            yield from self._flush_segments()
        self._report()

    def _take_group(self) -> list[Effect]:
        """All waiting orders, but not a deletion together with data before it."""
        group: list[Effect] = []
        data = False
        while self._orders:
            order = self._orders[0]
            if isinstance(order, AppendRecords):
                if data and any(change.value is None for change in order.changes):
                    break
                data = data or bool(order.data)
            group.append(self._orders.popleft())
        return group

    def _flush_and_report(self) -> Steps:
        yield from self._flush_segments()
        self._report()

    def _report(self) -> None:
        self._emit(FlushCompleted(self.written_no - self.base_no, max(0, self.flushed_no - self.base_no)))

    def _apply(self, changes: list[MetadataChange]) -> None:
        """One transaction: all of it, durable, or nothing."""
        for change in changes:
            assert change.revision == self.revision + 1, "changes follow one another"
            self.revision = change.revision
            if change.value is None:
                self.values.pop(change.key, None)
            else:
                created, _value = self.values.get(change.key, (change.revision, b""))
                self.values[change.key] = (created, change.value)

    # -- segments

    def _store(self, store: AppendRecords) -> Steps:
        number = self.base_no + store.batch_no
        self._unflushed.append(UnflushedBatch(number, store.segment, store.offset, store.data))
        if store.data:
            if store.offset == 0:
                yield from self._begin_segment(store)
            else:
                file = self.directory.find(segment_name(store.segment))
                assert file is not None, "a segment begins at its beginning"
                yield from self._write(file, store.offset, store.data)
        self.written_no = number
        self._forget_flushed(store.segment if store.offset == 0 else None)

    def _begin_segment(self, store: AppendRecords) -> Steps:
        """A segment gets its name once its first batch is on disk."""
        name, unfinished = segment_name(store.segment), SPARE
        file = self.directory.find(SPARE)
        if file is None:
            unfinished = name + UNFINISHED
            file = self.directory.create(unfinished)
        yield from self._write(file, 0, store.data)
        yield "flush new segment", self._flush_ms()
        file.flush()
        yield "name new segment", self._write_ms()
        self.directory.rename(unfinished, name)
        yield "sync directory", self._flush_ms()
        self.directory.sync()

    def _write(self, file: SimulatedFile, offset: int, data: bytes) -> Steps:
        end = offset + len(data)
        while offset < end:
            size = end - offset
            if self._chance.random() < 0.1:
                # the kernel may take less at a time
                size = self._chance.randint(1, size)
            piece, data = data[:size], data[size:]
            yield from self._await_room(file, offset, piece)
            yield "write", self._write_ms()
            file.write(offset, piece)
            offset += size
        if self._chance.random() < 0.2:
            file.reserve(end + self._chance.choice((1, 700, 5_000)))

    def _flush_segments(self) -> Steps:
        for segment in dict.fromkeys(batch.segment for batch in self._unflushed if batch.data):
            yield "flush", self._flush_ms()
            self._flush(segment)

    def _flush(self, segment: int) -> None:
        file = self.directory.find(segment_name(segment))
        if file is not None:
            file.flush()
        self._forget_flushed(segment)

    def _forget_flushed(self, segment: int | None) -> None:
        """All written batches of a segment are durable; one without bytes always is."""
        waiting = self._unflushed
        while waiting and waiting[0].number <= self.written_no:
            if waiting[0].data and waiting[0].segment != segment:
                break
            self.flushed_no = waiting.popleft().number

    def _seal(self, order: SealSegment) -> Steps:
        yield "flush sealed segment", self._flush_ms()
        self._flush(order.segment)
        yield "trim sealed segment", self._write_ms()
        file = self.directory.find(segment_name(order.segment))
        if file is not None and order.size_bytes > 0:
            file.trim(order.size_bytes)
        yield from self._replace(index_name(order.segment), "index", order.index)

    def _replace(self, name: str, what: str, data: bytes) -> Steps:
        """Afterwards the file has this content, or its old one."""
        yield from self._await_room()
        unfinished = self.directory.create(name + UNFINISHED)
        yield f"write {what}", self._write_ms()
        unfinished.write(0, data)
        yield f"flush {what}", self._flush_ms()
        unfinished.flush()
        yield f"name {what}", self._write_ms()
        self.directory.rename(name + UNFINISHED, name)
        yield "sync directory", self._flush_ms()
        self.directory.sync()

    def _drop(self, order: DropSegments) -> Steps:
        yield from self._flush_segments()
        for number in order.segments:
            yield "drop segment", self._write_ms()
            name = segment_name(number)
            if self.directory.find(SPARE) is None and self.directory.find(name) is not None:
                self.directory.rename(name, SPARE)
            self.directory.unlink(name)
            yield "drop index", self._write_ms()
            self.directory.unlink(index_name(number))
        yield "sync directory", self._flush_ms()
        self.directory.sync()

    def _await_room(self, file: SimulatedFile | None = None, offset: int = 0, data: bytes = b"") -> Steps:
        """Try again while the disk is full; what fitted in stays."""
        while self.full:
            if file is not None:
                file.write(offset, data[: self._chance.randrange(len(data))])
            if not self._told_full:
                self._told_full = True
                self._emit(DiskFull(NO_ROOM))
            if self.directory.find(SPARE) is not file:
                self.directory.unlink(SPARE)
            yield "wait for room", RETRY_MS
        if self._told_full:
            self._told_full = False
            self._emit(DiskFull(""))

    def _is_full(self) -> bool:
        return self.full

    def _write_ms(self) -> int:
        return self._chance.choice((0, 0, 0, 1))

    def _flush_ms(self) -> int:
        return SLOW_FLUSH_MS if self.slow else self._chance.choice((0, 1, 1, 2, 5))

    # -- the reader

    def _schedule_read(self) -> None:
        life = self._life
        self._schedule(self._chance.choice((0, 1, 3)), lambda: self._answer(life))

    def _answer(self, life: int) -> None:
        if life != self._life:
            return
        order = self._reads.popleft()
        self._emit(self._index_read(order) if isinstance(order, ReadIndex) else self._journal_read(order))
        self._reading = bool(self._reads)
        if self._reading:
            self._schedule_read()

    def _index_read(self, order: ReadIndex) -> IndexRead:
        file = self.directory.find(index_name(order.segment))
        if file is None:
            return IndexRead(order.ticket, b"", f"{index_name(order.segment)} is not there")
        offset, length = find_rows(file.read(), order.queue_id)
        return IndexRead(order.ticket, file.read(offset, length))

    def _journal_read(self, order: ReadJournal) -> JournalRead:
        file = self.directory.find(segment_name(order.segment))
        if file is None:
            return JournalRead(order.ticket, [], f"{segment_name(order.segment)} is not there")
        return JournalRead(order.ticket, [file.read(offset, length) for offset, length in order.extents])
