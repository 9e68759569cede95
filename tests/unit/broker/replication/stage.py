"""A copy, a way to a master and a way to mirrors that write down what they are told, for one machine at a time."""

from warren.broker.model.replica_contents import MirrorContents, PositionSpan
from warren.broker.model.replica_set import ReplicaSet
from warren.broker.model.turn import Turn
from warren.broker.replication.batches import OriginMarks, ReplicationBatch, ReplicationBatchWriter
from warren.broker.replication.master import DownstreamPort, Master, ReplicaSetOwner
from warren.broker.replication.mirror import Mirror, MirrorJoinRequest, UpstreamPort

PAYLOAD = b"payload"


class NotedCopy(MirrorContents):
    """Holds positions, and notes what else it is told."""

    def __init__(self) -> None:
        self.held: dict[int, bool] = {}
        self.lent = 0
        self.told: list[tuple[object, ...]] = []

    def store(
        self, position: int, priority: int, expires_at_ms: int, persistent: bool, payload: bytes, payload_crc: int
    ) -> bool:
        self.held[position] = persistent
        return persistent

    def remove(self, level: int, first: int, last: int) -> None:
        self.told.append(("remove", level, first, last))
        self.held = {each: kind for each, kind in self.held.items() if not first <= each <= last}

    def remove_any(self, first: int, last: int) -> None:
        self.told.append(("remove any", first, last))
        self.held = {each: kind for each, kind in self.held.items() if not first <= each <= last}

    def drop(self, priority: int, position: int) -> None:
        self.told.append(("drop", priority, position))
        del self.held[position]

    def mark_delivered(self, position: int) -> bool:
        self.lent = max(self.lent, position)
        return self.lent == position

    def returned(self, position: int, count: int) -> None:
        self.told.append(("returned", position, count))

    def load_publishing_ids(self, rows: bytes, anew: bool) -> bool:
        self.told.append(("seen", rows, anew))
        return True

    def spans(self) -> list[PositionSpan]:
        return [PositionSpan(position, position) for position in sorted(self.held)]

    def begin_catching_up(self) -> None:
        self.told.append(("begin",))

    def caught_up(self) -> None:
        self.told.append(("caught up",))


class MirrorStage(UpstreamPort):
    """One mirror."""

    def __init__(self) -> None:
        self.copy = NotedCopy()
        self.turn = Turn()
        self.said: list[tuple[object, ...]] = []
        self.requests: list[MirrorJoinRequest] = []
        self.mirror = Mirror(self.copy, self, self.turn)

    def following(self, epoch: int = 1, number: int = 1) -> "MirrorStage":
        """It has caught up with an empty queue, behind that step."""
        self.mirror.follow(epoch)
        self.mirror.start(number, 0, OriginMarks())
        self.mirror.backfill_done()
        self.end_turn()
        self.flush()
        self.said.clear()
        self.copy.told.clear()
        return self

    def join(self, request: MirrorJoinRequest) -> None:
        self.requests.append(request)

    def flushed_to(self, number: int) -> None:
        self.said.append(("safe", number))

    def has(self, spans: list[PositionSpan]) -> None:
        self.said.append(("has", spans))

    def caught_up(self) -> None:
        self.said.append(("caught up",))

    def end_turn(self) -> None:
        self.mirror.end_turn()
        self.mirror.check()

    def flush(self) -> None:
        """What was asked for so far is on disk."""
        waiters, self.turn.flush_waiters = self.turn.flush_waiters, []
        for waiter in waiters:
            waiter.flushed()


class NotedDownstream(DownstreamPort):
    """Writes down what followers are told."""

    def __init__(self, said: list[tuple[object, ...]]) -> None:
        self.said = said

    def resume(self, node: str, common: int, committed: int) -> None:
        self.said.append(("resume", node, common, committed))

    def start(self, node: str, number: int) -> None:
        self.said.append(("start", node, number))

    def batch(self, node: str, batch: ReplicationBatch) -> None:
        self.said.append(("step", node, int(batch.number), int(batch.epoch)))

    def commit(self, node: str, number: int) -> None:
        self.said.append(("settle", node, number))


class MasterStage(ReplicaSetOwner):
    """One master; `own` is `a`."""

    def __init__(self, replica_set: ReplicaSet, end: int = 0) -> None:
        self.turn = Turn()
        self.said: list[tuple[object, ...]] = []
        self.proposed: list[ReplicaSet] = []
        self.settled_steps: list[int] = []
        self.unreached: set[str] = set()
        self.lacking: dict[str, list[PositionSpan]] = {}
        self.master = Master(replica_set, ("a", 1), NotedDownstream(self.said), self, self.turn, end)

    def opened(self) -> "MasterStage":
        """Its first step is written; nothing is settled if others are in sync."""
        self.master.open()
        self.master.end_turn()
        self.flush()
        self.said.clear()
        return self

    def step_of(self, *positions: int, flushed: bool = False) -> None:
        """A turn that stores these."""
        for position in positions:
            self.master.writer.store(position, 0, 0, flushed, 0, PAYLOAD, 0)
        if flushed:
            self.master.must_be_flushed()
        self.master.end_turn()

    def committed(self, number: int) -> None:
        self.settled_steps.append(number)

    def propose(self, replica_set: ReplicaSet) -> None:
        self.proposed.append(replica_set)

    def reached(self, node: str) -> bool:
        return node not in self.unreached

    def lacks(self, node: str, spans: list[PositionSpan]) -> None:
        self.lacking[node] = spans

    def flush(self) -> None:
        """What was asked for so far is on disk."""
        waiters, self.turn.flush_waiters = self.turn.flush_waiters, []
        for waiter in waiters:
            waiter.flushed()

    def elapse(self, elapsed_ms: int) -> None:
        self.turn.now_ms += elapsed_ms
        self.turn.fire_timers()


def stored(number: int, *positions: int, epoch: int = 1, persistent: bool = False) -> ReplicationBatch:
    """A step that stores these, sent by nobody."""
    writer = ReplicationBatchWriter()
    for position in positions:
        writer.store(position, 0, 0, persistent, 0, PAYLOAD, 0)
    return ReplicationBatch(number, epoch, writer.finish())


def removed(number: int, first: int, last: int, epoch: int = 1) -> ReplicationBatch:
    writer = ReplicationBatchWriter()
    writer.remove(0, first, last)
    return ReplicationBatch(number, epoch, writer.finish())


def newcomer(epoch: int = 1) -> MirrorJoinRequest:
    """Of one that has nothing to go on from."""
    return MirrorJoinRequest(epoch, False, 0, 0, [])
