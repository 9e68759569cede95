"""A mirror: holds what its master holds, and can take its place.

::

              follow                   resume: it was in sync, and goes on
    alone ─────────────► joining ──────────────────────────────────────────────► following
      ▲                     └─────────► start: it tells what it has, catches up ─────┘
      └──── the link is lost, the epoch is over, it is about to propose itself ──────┘

What it holds it keeps in every state. `whole` says that this is all of the queue up to step `end`.

Invariants: `steps` are those above `settled` up to `end`, in order; whatever they store is in the copy, and nothing
that they remove is gone from it for that.

Not here: the theory (`mirroring`), what a copy is (`broker.model.replica_contents`), the link (`broker.mirrors`).
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
    """What a mirror tells a master that it wants to follow."""

    def __init__(
        self, epoch: int, whole: bool, end: i64, committed: i64, beginnings: list[EpochStart], known: int = 0
    ) -> None:
        self.epoch: int = epoch
        # it holds the whole queue up to `end`, so that it may go on from there
        self.whole: bool = whole
        self.end: i64 = end
        self.committed: i64 = committed
        self.beginnings: list[EpochStart] = beginnings
        # how far it has followed what is agreed upon; whoever sends the request knows
        self.known: int = known


@mypyc_attr(allow_interpreted_subclasses=True)
class UpstreamPort:
    """The way to the master."""

    @abstractmethod
    def join(self, request: MirrorJoinRequest) -> None: ...

    @abstractmethod
    def flushed_to(self, number: i64) -> None:
        """Everything up to this step is held and, where it has to be, on disk."""

    @abstractmethod
    def has(self, spans: list[PositionSpan]) -> None:
        """What the copy had when it started to catch up."""

    @abstractmethod
    def caught_up(self) -> None:
        """All that was lacking is here, and on disk."""


@final
class FlushMark:
    """What is safe once a batch is on disk."""

    def __init__(self, end: i64, caught_up: bool) -> None:
        self.end: i64 = end
        self.caught_up: bool = caught_up


@final
class Mirror(FlushWaiter):
    """One node's part in one ring, while another is the master."""

    def __init__(self, contents: MirrorContents, upstream: UpstreamPort, turn: Turn) -> None:
        self.contents: MirrorContents = contents
        self.state: str = ALONE
        self.whole: bool = False
        self.end: i64 = 0
        self.committed: i64 = 0
        self.batches: list[ReplicationBatch] = []
        self.epochs: Epochs = Epochs()
        # of the steps that are settled
        self.marks: OriginMarks = OriginMarks()
        self._upstream: UpstreamPort = upstream
        self._turn: Turn = turn
        self._epoch: int = 0
        self._flushed_to: i64 = 0
        self._flushes: list[FlushMark] = []
        # answers to flushes that were asked for before it joined anew, and say nothing any more
        self._stale_flushes: int = 0
        # what this turn brought
        self._progressed: bool = False
        self._unflushed: bool = False
        self._backfill_received: bool = False
        # names that it remembered when it began to catch up, and was not told of since
        self._unreported_names: dict[str, None] = {}

    # -- whom it follows

    def follow(self, epoch: int) -> None:
        """There is a way to the master of this epoch."""
        self.leave()
        self.state = JOINING
        self._epoch = epoch
        self._upstream.join(
            MirrorJoinRequest(epoch, self.whole, self.end, self.committed, list(self.epochs.beginnings))
        )

    def leave(self) -> None:
        """It follows nobody: whatever comes from now on does not count."""
        self.state = ALONE
        self._stale_flushes += len(self._flushes)
        self._flushes = []
        self._progressed = False
        self._backfill_received = False

    # -- what the master says

    def resume(self, common: i64, committed: i64) -> None:
        """It goes on behind the step that both have; what it has beyond does not count."""
        if self.state == ALONE:
            return
        if self.state != JOINING or not self.whole or not self.committed <= common <= self.end or committed > common:
            raise PeerFault(f"a mirror that ends with step {self.end} was told to go on behind {common}")
        self._drop_after(common)
        self.state = FOLLOWING
        self._carry_out_to(committed)
        self._progressed = True
        # nothing tells whether what it had was flushed
        self._unflushed = True

    def start(self, number: i64, lent: i64, marks: OriginMarks) -> None:
        """It catches up; steps above this one will come.

        It is admitted only when that step is settled, so it may take it to be so.
        """
        if self.state == ALONE:
            return
        if self.state != JOINING:
            raise PeerFault("a mirror was told to catch up that did not ask")
        self.state = FOLLOWING
        self.whole = False
        self.end = number
        self.committed = number
        self.batches = []
        self.epochs = Epochs([(self._epoch, int(number))])
        self.marks = marks
        self._flushed_to = 0
        # nothing tells whether what it has was flushed
        self._unflushed = True
        self.contents.begin_catching_up()
        self.contents.mark_delivered(lent)
        self._unreported_names = dict.fromkeys(self.contents.offset_names())
        self._upstream.has(self.contents.skippable_spans())

    def take(self, batch: ReplicationBatch) -> None:
        """The next step."""
        if self.state != FOLLOWING:
            return
        if batch.number != self.end + 1 or batch.epoch > self._epoch:
            raise PeerFault(f"step {batch.number} of epoch {batch.epoch} came behind step {self.end}")
        if self._store(batch):
            self._unflushed = True
        self.end = batch.number
        self.batches.append(batch)
        self.epochs.add(batch.epoch, batch.number)
        self._progressed = True

    def commit(self, number: i64) -> None:
        """Everything up to this step is settled."""
        if self.state != FOLLOWING:
            return
        if number > self.end:
            raise PeerFault(f"step {number} was settled, which a mirror that has {self.end} has not got")
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
        """Something it lacked, which came back to its queue so often."""
        if self.state != FOLLOWING:
            return
        if self.contents.store(position, priority, expires_at_ms, persistent, payload, payload_crc):
            self._unflushed = True
        if returned:
            self.contents.returned(position, returned)
        self.contents.backfill_stored(position)

    def load_publishing_ids(self, rows: bytes, anew: bool) -> None:
        """Publishing ids that the master knows, when it has sent all else."""
        if self.state == FOLLOWING and self.contents.load_publishing_ids(rows, anew):
            self._unflushed = True

    def take_offset(self, name: str, offset: i64) -> None:
        """How far a reader has come."""
        if self.state == FOLLOWING:
            self._store_offset(name, offset)

    def _store_offset(self, name: str, offset: i64) -> None:
        self._unreported_names.pop(name, None)
        self.contents.store_offset(name, offset)

    def remove_surplus(self, span: PositionSpan) -> None:
        """Something it has that the master has not.

        Some of it may never have counted, and whoever published that publishes it again. So until it is told which
        publishing ids the master knows, when all else is here, it knows none.
        """
        if self.state == FOLLOWING:
            self.contents.remove_any(span.first, span.last)
            if self.contents.load_publishing_ids(b"", True):
                self._unflushed = True

    def backfill_done(self) -> None:
        """It has been sent all that it lacked, and told all that the master remembers."""
        if self.state == FOLLOWING:
            for name in self._unreported_names:
                self.contents.store_offset(name, NO_OFFSET)
            self._unreported_names = {}
            self._backfill_received = True
            self._progressed = True

    # -- the turn

    def end_turn(self) -> None:
        """Tell what is safe, or wait for the disk."""
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
            self._tell(mark)

    def flushed(self) -> None:
        if self._stale_flushes:
            self._stale_flushes -= 1
        else:
            self._tell(self._flushes.pop(0))

    def _tell(self, mark: FlushMark) -> None:
        if mark.end > self._flushed_to:
            self._flushed_to = mark.end
            self._upstream.flushed_to(mark.end)
        if mark.caught_up:
            self.whole = True
            self.contents.caught_up()
            self._upstream.caught_up()

    # -- what steps say

    def _store(self, batch: ReplicationBatch) -> bool:
        """Hold what must be safe, and note what comes later; whether a part of it must be on disk."""
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
                    batch.heard.append((name, incarnation, int(count)))
                    count = 0
                name, incarnation = reader.name(), int(reader.word(0))
            elif reader.kind == STORED_OFFSET:
                self._store_offset(reader.name(), reader.word(0))
            elif reader.kind in (REMOVE, RETURNED):
                self._defer(batch, reader)
        if count:
            batch.heard.append((name, incarnation, int(count)))
        return unflushed

    def _defer(self, batch: ReplicationBatch, reader: ReplicationBatchReader) -> None:
        first, last = reader.word(0), reader.word(1)
        if reader.kind == REMOVE:
            # whoever carries it out one day may be promoted by then, and have nobody to blame
            check_range(reader.priority, self.contents.max_priority, first, last)
        batch.later.append((int(reader.kind), int(reader.priority), int(first), int(last)))

    def _carry_out_to(self, committed: i64) -> None:
        """Do what waited until it was settled."""
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
        """The part of a step that counts once it is settled."""
        for name, incarnation, count in batch.heard:
            self.marks.heard(name, incarnation, count)
        for kind, level, first, last in batch.later:
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
        """Raise `InvariantBroken` if it contradicts itself."""
        numbers = [int(batch.number) for batch in self.batches]
        if numbers != list(range(int(self.committed) + 1, int(self.end) + 1)):
            raise InvariantBroken(f"a mirror has steps {numbers} between {self.committed} and {self.end}")


def discard_batch(contents: MirrorContents, batch: ReplicationBatch) -> None:
    """Take out what a step stored, which does not count."""
    payloads: list[bytes] = []
    reader = ReplicationBatchReader(batch)
    while reader.next():
        if reader.kind == STORE:
            contents.drop(reader.priority, reader.position)
            payloads.append(reader.payload())
    # the last one is the one that was seen last
    for payload in reversed(payloads):
        contents.drop_publishing_id(payload)
