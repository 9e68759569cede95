"""A mirror: has the contents that its master has, and can be promoted.

::

              follow                   resume: it continues after the last common batch
    alone ─────────────► joining ──────────────────────────────────────────────► following
      ▲                     └─────────► start: it reports its spans, gets a backfill ┘
      └──── the link is lost, the epoch is over, it is about to propose itself ──────┘

It keeps its contents in every state. `whole` says that they are all of the queue up to batch `end`.

Invariants: `batches` are those after `committed` up to `end`, in order; the messages that they store are in the
contents, and their removals are not carried out.

Not here: the theory (`broker.replication`), contents (`broker.model.replica_contents`), the link
(`broker.replication.replica_links`).
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from warren.broker.model.reader_positions import NO_OFFSET
from warren.broker.model.replica_contents import MirrorContents, PositionSpan, check_range
from warren.broker.model.turn import FlushWaiter, Turn
from warren.broker.replication.batches import (
    ORIGIN,
    PERSISTENT,
    REMOVE,
    RETURNED,
    STORE,
    STORED_OFFSET,
    WATERMARK,
    Epochs,
    EpochStart,
    OriginMarks,
    ReplicationBatch,
    ReplicationBatchReader,
)
from warren.errors import InvariantBroken, PeerFault

ALONE: Final = "alone"
JOINING: Final = "joining"
FOLLOWING: Final = "following"


@final
class MirrorJoinRequest:
    """The state of a mirror that asks to follow a master."""

    def __init__(
        self, epoch: int, whole: bool, end: i64, committed: i64, beginnings: list[EpochStart], known_revision: int = 0
    ) -> None:
        self.epoch: int = epoch
        # it has the whole queue up to `end`, so it can resume after a batch
        self.whole: bool = whole
        self.end: i64 = end
        self.committed: i64 = committed
        self.beginnings: list[EpochStart] = beginnings
        # the metadata revision that the node has applied; set when the request is sent
        self.known_revision: int = known_revision


@mypyc_attr(allow_interpreted_subclasses=True)
class UpstreamPort:
    """Sends to the master."""

    @abstractmethod
    def join(self, request: MirrorJoinRequest) -> None: ...

    @abstractmethod
    def flushed_to(self, number: i64) -> None:
        """All batches up to this one are held and, where required, flushed."""

    @abstractmethod
    def has(self, spans: list[PositionSpan]) -> None:
        """The spans of the contents when the backfill starts."""

    @abstractmethod
    def caught_up(self) -> None:
        """The whole backfill is on disk."""


@final
class FlushMark:
    """What can be reported after a flush."""

    def __init__(self, end: i64, caught_up: bool) -> None:
        self.end: i64 = end
        self.caught_up: bool = caught_up


@final
class Mirror(FlushWaiter):
    """One node's replica of one queue, while another node is the master."""

    def __init__(self, contents: MirrorContents, upstream: UpstreamPort, turn: Turn) -> None:
        self.contents: MirrorContents = contents
        self.state: str = ALONE
        self.whole: bool = False
        self.end: i64 = 0
        self.committed: i64 = 0
        self.batches: list[ReplicationBatch] = []
        self.epochs: Epochs = Epochs()
        # of the committed batches
        self.marks: OriginMarks = OriginMarks()
        self._upstream: UpstreamPort = upstream
        self._turn: Turn = turn
        self._epoch: int = 0
        self._flushed_to: i64 = 0
        self._flushes: list[FlushMark] = []
        # flushes that were requested before it last joined: their results are ignored
        self._stale_flushes: int = 0
        # of this turn
        self._progressed: bool = False
        self._unflushed: bool = False
        self._backfill_received: bool = False
        # names with a stored offset when the backfill started, which the master has not sent since
        self._unreported_names: dict[str, None] = {}

    # -- following

    def follow(self, epoch: int) -> None:
        """The master of this epoch can be reached: ask to follow it."""
        self.leave()
        self.state = JOINING
        self._epoch = epoch
        self._upstream.join(
            MirrorJoinRequest(epoch, self.whole, self.end, self.committed, list(self.epochs.beginnings))
        )

    def leave(self) -> None:
        """Follow no master: ignore messages from here on."""
        self.state = ALONE
        self._stale_flushes += len(self._flushes)
        self._flushes = []
        self._progressed = False
        self._backfill_received = False

    # -- messages of the master

    def resume(self, common: i64, committed: i64) -> None:
        """Continue after the last common batch, and drop later ones."""
        if self.state == ALONE:
            return
        if self.state != JOINING or not self.whole or not self.committed <= common <= self.end or committed > common:
            raise PeerFault(f"a mirror that ends with batch {self.end} was told to resume after batch {common}")
        self._drop_after(common)
        self.state = FOLLOWING
        self._carry_out_to(committed)
        self._progressed = True
        # its earlier writes may not have been flushed
        self._unflushed = True

    def start(self, number: i64, watermark: i64, marks: OriginMarks) -> None:
        """Get a backfill, and the batches after this one.

        The mirror is admitted only when this batch is committed, so it counts as committed here.
        """
        if self.state == ALONE:
            return
        if self.state != JOINING:
            raise PeerFault("a mirror was told to start that did not ask to join")
        self.state = FOLLOWING
        self.whole = False
        self.end = number
        self.committed = number
        self.batches = []
        self.epochs = Epochs([(self._epoch, int(number))])
        self.marks = marks
        self._flushed_to = 0
        # its earlier writes may not have been flushed
        self._unflushed = True
        self.contents.begin_catching_up()
        self.contents.mark_delivered(watermark)
        self._unreported_names = dict.fromkeys(self.contents.offset_names())
        self._upstream.has(self.contents.skippable_spans())

    def take(self, batch: ReplicationBatch) -> None:
        """The next batch."""
        if self.state != FOLLOWING:
            return
        if batch.number != self.end + 1 or batch.epoch > self._epoch:
            raise PeerFault(f"batch {batch.number} of epoch {batch.epoch} came after batch {self.end}")
        if self._store(batch):
            self._unflushed = True
        self.end = batch.number
        self.batches.append(batch)
        self.epochs.add(batch.epoch, batch.number)
        self._progressed = True

    def commit(self, number: i64) -> None:
        """All batches up to this one are committed."""
        if self.state != FOLLOWING:
            return
        if number > self.end:
            raise PeerFault(f"batch {number} was committed, and the mirror has batches up to {self.end} only")
        self._carry_out_to(number)

    def take_backfill(
        self,
        position: i64,
        priority: i64,
        expires_at_ms: i64,
        persistent: bool,
        returned: i64,
        payload: bytes,
        payload_crc: i64,
    ) -> None:
        """A message of the backfill; `returned` is how often it was requeued."""
        if self.state != FOLLOWING:
            return
        if self.contents.store(position, priority, expires_at_ms, persistent, payload, payload_crc):
            self._unflushed = True
        if returned:
            self.contents.returned(position, returned)
        self.contents.backfill_stored(position)

    def load_publishing_ids(self, rows: bytes, anew: bool) -> None:
        """Publishing ids of the master, which follow the backfill's messages."""
        if self.state == FOLLOWING and self.contents.load_publishing_ids(rows, anew):
            self._unflushed = True

    def take_offset(self, name: str, offset: i64) -> None:
        """The stored offset of a reader."""
        if self.state == FOLLOWING:
            self._store_offset(name, offset)

    def _store_offset(self, name: str, offset: i64) -> None:
        self._unreported_names.pop(name, None)
        self.contents.store_offset(name, offset)

    def remove_surplus(self, span: PositionSpan) -> None:
        """Remove messages that the master does not have.

        Some of them may never have been committed, and their publishers send them again. So the mirror forgets all
        publishing ids, and gets those of the master after the backfill.
        """
        if self.state == FOLLOWING:
            self.contents.remove_any(span.first, span.last)
            if self.contents.load_publishing_ids(b"", True):
                self._unflushed = True

    def backfill_done(self) -> None:
        """The backfill is complete, with ids and offsets."""
        if self.state == FOLLOWING:
            for name in self._unreported_names:
                self.contents.store_offset(name, NO_OFFSET)
            self._unreported_names = {}
            self._backfill_received = True
            self._progressed = True

    # -- the turn

    def end_turn(self) -> None:
        """Report progress, or wait for the flush."""
        if not self._progressed:
            return
        self._progressed = False
        mark = FlushMark(self.end, self._backfill_received)
        self._backfill_received = False
        if self._unflushed or self._flushes:
            self._unflushed = False
            self._flushes.append(mark)
            self._turn.await_flush(self)
        else:
            self._report_flush(mark)

    def flushed(self) -> None:
        if self._stale_flushes:
            self._stale_flushes -= 1
        else:
            self._report_flush(self._flushes.pop(0))

    def _report_flush(self, mark: FlushMark) -> None:
        if mark.end > self._flushed_to:
            self._flushed_to = mark.end
            self._upstream.flushed_to(mark.end)
        if mark.caught_up:
            self.whole = True
            self.contents.caught_up()
            self._upstream.caught_up()

    # -- batches

    def _store(self, batch: ReplicationBatch) -> bool:
        """Carry out the operations that must be safe, and keep the others for the commit; whether a flush is needed."""
        contents = self.contents
        reader = ReplicationBatchReader(batch)
        unflushed = False
        name, incarnation = "", 0
        count: i64 = 0
        while reader.next():
            if reader.kind == STORE:
                persistent = reader.flags & PERSISTENT != 0
                count = max(count, reader.origin_count)
                batch.stored_to = reader.position
                if contents.store(
                    reader.position,
                    reader.priority,
                    reader.expires_at_ms,
                    persistent,
                    reader.payload(),
                    reader.payload_crc,
                ):
                    unflushed = True
            elif reader.kind == WATERMARK and contents.mark_delivered(reader.word(0)):
                unflushed = True
            elif reader.kind == ORIGIN:
                if count:
                    batch.origin_counts.append((name, incarnation, int(count)))
                    count = 0
                name, incarnation = reader.name(), int(reader.word(0))
            elif reader.kind == STORED_OFFSET:
                self._store_offset(reader.name(), reader.word(0))
            elif reader.kind in (REMOVE, RETURNED):
                self._defer(batch, reader)
        if count:
            batch.origin_counts.append((name, incarnation, int(count)))
        return unflushed

    def _defer(self, batch: ReplicationBatch, reader: ReplicationBatchReader) -> None:
        first, last = reader.word(0), reader.word(1)
        if reader.kind == REMOVE:
            # checked here: when it is carried out, this node may be master, and could not blame its peer
            check_range(reader.priority, self.contents.max_priority, first, last)
        batch.deferred.append((int(reader.kind), int(reader.priority), int(first), int(last)))

    def _carry_out_to(self, committed: i64) -> None:
        """Carry out the deferred operations of batches up to this one."""
        if committed <= self.committed:
            return
        self.committed = committed
        count = 0
        while count < len(self.batches) and self.batches[count].number <= committed:
            self.carry_out(self.batches[count])
            count += 1
        del self.batches[:count]
        self.epochs.forget(committed)

    def carry_out(self, batch: ReplicationBatch) -> None:
        """Carry out the operations that waited for the commit."""
        for name, incarnation, count in batch.origin_counts:
            self.marks.record(name, incarnation, count)
        for kind, level, first, last in batch.deferred:
            if kind == REMOVE:
                self.contents.remove(level, first, last)
            elif kind == RETURNED:
                self.contents.returned(first, last)
        if batch.stored_to:
            self.contents.committed(batch.stored_to)

    def _drop_after(self, common: i64) -> None:
        while self.batches and self.batches[-1].number > common:
            discard_batch(self.contents, self.batches.pop())
        self.end = common
        self._flushed_to = 0
        self.epochs.cut(common)

    def check(self) -> None:
        """Raise `InvariantBroken` if an invariant does not hold."""
        numbers = [int(batch.number) for batch in self.batches]
        if numbers != list(range(int(self.committed) + 1, int(self.end) + 1)):
            raise InvariantBroken(f"a mirror has batches {numbers} between {self.committed} and {self.end}")
        reported = [int(self._flushed_to), *[int(mark.end) for mark in self._flushes], int(self.end)]
        if reported != sorted(reported):
            raise InvariantBroken(f"a mirror's flushes are out of order: {reported}")
        self.epochs.check(self.committed)
        self.marks.check()


def discard_batch(contents: MirrorContents, batch: ReplicationBatch) -> None:
    """Remove the messages that an uncommitted batch stored."""
    payloads: list[bytes] = []
    reader = ReplicationBatchReader(batch)
    while reader.next():
        if reader.kind == STORE:
            contents.drop(reader.priority, reader.position)
            payloads.append(reader.payload())
    # in reverse order: the last id was added last
    for payload in reversed(payloads):
        contents.drop_publishing_id(payload)
