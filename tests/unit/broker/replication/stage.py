"""Ports that record their calls, to test one master or one mirror at a time."""

from warren.broker.model.replica_contents import MirrorContents, PositionSpan
from warren.broker.model.replica_set import ReplicaSet
from warren.broker.model.turn import SpareBuffers, Turn
from warren.broker.replication.batches import OriginMarks, ReplicationBatch, ReplicationBatchWriter
from warren.broker.replication.master import DownstreamPort, Master, ReplicaSetOwner
from warren.broker.replication.mirror import Mirror, MirrorJoinRequest, UpstreamPort

PAYLOAD = b"payload"


class RecordedContents(MirrorContents):
    """Holds positions, and records all other calls."""

    def __init__(self) -> None:
        self.held: dict[int, bool] = {}
        self.watermark = 0
        self.calls: list[tuple[object, ...]] = []

    def store(
        self, position: int, priority: int, expires_at_ms: int, persistent: bool, payload: bytes, payload_crc: int
    ) -> bool:
        self.held[position] = persistent
        return persistent

    def remove(self, level: int, first: int, last: int) -> None:
        self.calls.append(("remove", level, first, last))
        self.held = {each: kind for each, kind in self.held.items() if not first <= each <= last}

    def remove_any(self, first: int, last: int) -> None:
        self.calls.append(("remove any", first, last))
        self.held = {each: kind for each, kind in self.held.items() if not first <= each <= last}

    def drop(self, priority: int, position: int) -> None:
        self.calls.append(("drop", priority, position))
        del self.held[position]

    def mark_delivered(self, position: int) -> bool:
        self.watermark = max(self.watermark, position)
        return self.watermark == position

    def returned(self, position: int, count: int) -> None:
        self.calls.append(("returned", position, count))

    def load_publishing_ids(self, rows: bytes, anew: bool) -> bool:
        self.calls.append(("seen", rows, anew))
        return True

    def spans(self) -> list[PositionSpan]:
        return [PositionSpan(position, position) for position in sorted(self.held)]

    def begin_catching_up(self) -> None:
        self.calls.append(("begin",))

    def caught_up(self) -> None:
        self.calls.append(("caught up",))


class MirrorStage(UpstreamPort):
    """One mirror."""

    def __init__(self) -> None:
        self.copy = RecordedContents()
        self.turn = Turn()
        self.sent: list[tuple[object, ...]] = []
        self.requests: list[MirrorJoinRequest] = []
        self.mirror = Mirror(self.copy, self, self.turn)

    def following(self, epoch: int = 1, number: int = 1) -> "MirrorStage":
        """It has caught up with an empty queue, after that batch."""
        self.mirror.follow(epoch)
        self.mirror.start(number, 0, OriginMarks())
        self.mirror.backfill_done()
        self.end_turn()
        self.flush()
        self.sent.clear()
        self.copy.calls.clear()
        return self

    def join(self, request: MirrorJoinRequest) -> None:
        self.requests.append(request)

    def flushed_to(self, number: int) -> None:
        self.sent.append(("flushed", number))

    def has(self, spans: list[PositionSpan]) -> None:
        self.sent.append(("has", spans))

    def caught_up(self) -> None:
        self.sent.append(("caught up",))

    def end_turn(self) -> None:
        self.mirror.end_turn()
        self.mirror.check()

    def flush(self) -> None:
        """Complete all flushes requested so far."""
        waiters, self.turn.flush_waiters = self.turn.flush_waiters, []
        for waiter in waiters:
            waiter.flushed()


class RecordedDownstream(DownstreamPort):
    """Records the messages to followers."""

    def __init__(self, sent: list[tuple[object, ...]]) -> None:
        self.sent = sent

    def resume(self, node: str, common: int, committed: int) -> None:
        self.sent.append(("resume", node, common, committed))

    def start(self, node: str, number: int) -> None:
        self.sent.append(("start", node, number))

    def batch(self, node: str, batch: ReplicationBatch) -> None:
        self.sent.append(("batch", node, int(batch.number), int(batch.epoch)))

    def commit(self, node: str, number: int) -> None:
        self.sent.append(("commit", node, number))


class MasterStage(ReplicaSetOwner):
    """One master; `own` is `a`."""

    def __init__(self, replica_set: ReplicaSet, end: int = 0) -> None:
        self.turn = Turn()
        self.sent: list[tuple[object, ...]] = []
        self.proposed: list[ReplicaSet] = []
        self.committed_batches: list[int] = []
        self.unreached: set[str] = set()
        self.lacking: dict[str, list[PositionSpan]] = {}
        self.master = Master(replica_set, ("a", 1), RecordedDownstream(self.sent), self, self.turn, end)

    def opened(self) -> "MasterStage":
        """Its first batch is written; nothing is committed if others are in sync."""
        self.master.open()
        self.master.end_turn()
        self.flush()
        self.sent.clear()
        return self

    def write_batch(self, *positions: int, flushed: bool = False) -> None:
        """End a turn that stores these."""
        for position in positions:
            self.master.writer.store(position, 0, 0, flushed, 0, PAYLOAD, 0)
        if flushed:
            self.master.must_be_flushed()
        self.master.end_turn()

    def committed(self, number: int) -> None:
        self.committed_batches.append(number)

    def propose(self, replica_set: ReplicaSet) -> None:
        self.proposed.append(replica_set)

    def reached(self, node: str) -> bool:
        return node not in self.unreached

    def lacks(self, node: str, spans: list[PositionSpan]) -> None:
        self.lacking[node] = spans

    def flush(self) -> None:
        """Complete all flushes requested so far."""
        waiters, self.turn.flush_waiters = self.turn.flush_waiters, []
        for waiter in waiters:
            waiter.flushed()

    def elapse(self, elapsed_ms: int) -> None:
        self.turn.now_ms += elapsed_ms
        self.turn.fire_timers()


def stored(number: int, *positions: int, epoch: int = 1, persistent: bool = False) -> ReplicationBatch:
    """A batch that stores these, without an origin."""
    writer = ReplicationBatchWriter(SpareBuffers())
    for position in positions:
        writer.store(position, 0, 0, persistent, 0, PAYLOAD, 0)
    return ReplicationBatch(number, epoch, writer.finish())


def removed(number: int, first: int, last: int, epoch: int = 1) -> ReplicationBatch:
    writer = ReplicationBatchWriter(SpareBuffers())
    writer.remove(0, first, last)
    return ReplicationBatch(number, epoch, writer.finish())


def empty_join_request(epoch: int = 1) -> MirrorJoinRequest:
    """The request of a mirror that has nothing to resume from."""
    return MirrorJoinRequest(epoch, False, 0, 0, [])
