"""A copy, a way to a master and a way to mirrors that write down what they are told, for one machine at a time."""

from warren.mirroring.marks import Marks
from warren.mirroring.master import Downstream, Master, RingOwner
from warren.mirroring.mirror import JoinRequest, Mirror, Upstream
from warren.mirroring.steps import Step, StepWriter
from warren.model.copies import Held, Span
from warren.model.rings import Ring
from warren.model.turn import Turn

PAYLOAD = b"payload"


class NotedCopy(Held):
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

    def lend(self, position: int) -> bool:
        self.lent = max(self.lent, position)
        return self.lent == position

    def returned(self, position: int, count: int) -> None:
        self.told.append(("returned", position, count))

    def take_seen(self, rows: bytes, anew: bool) -> bool:
        self.told.append(("seen", rows, anew))
        return True

    def spans(self) -> list[Span]:
        return [Span(position, position) for position in sorted(self.held)]

    def begin_catching_up(self) -> None:
        self.told.append(("begin",))

    def caught_up(self) -> None:
        self.told.append(("caught up",))


class MirrorStage(Upstream):
    """One mirror."""

    def __init__(self) -> None:
        self.copy = NotedCopy()
        self.turn = Turn()
        self.said: list[tuple[object, ...]] = []
        self.requests: list[JoinRequest] = []
        self.mirror = Mirror(self.copy, self, self.turn)

    def following(self, epoch: int = 1, number: int = 1) -> "MirrorStage":
        """It has caught up with an empty queue, behind that step."""
        self.mirror.follow(epoch)
        self.mirror.start(number, 0, Marks())
        self.mirror.past_is_over()
        self.end_turn()
        self.flush()
        self.said.clear()
        self.copy.told.clear()
        return self

    def join(self, request: JoinRequest) -> None:
        self.requests.append(request)

    def safe(self, number: int) -> None:
        self.said.append(("safe", number))

    def has(self, spans: list[Span]) -> None:
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


class NotedDownstream(Downstream):
    """Writes down what followers are told."""

    def __init__(self, said: list[tuple[object, ...]]) -> None:
        self.said = said

    def resume(self, node: str, common: int, settled: int) -> None:
        self.said.append(("resume", node, common, settled))

    def start(self, node: str, number: int) -> None:
        self.said.append(("start", node, number))

    def step(self, node: str, step: Step) -> None:
        self.said.append(("step", node, int(step.number), int(step.epoch)))

    def settle(self, node: str, number: int) -> None:
        self.said.append(("settle", node, number))


class MasterStage(RingOwner):
    """One master; `own` is `a`."""

    def __init__(self, ring: Ring, end: int = 0) -> None:
        self.turn = Turn()
        self.said: list[tuple[object, ...]] = []
        self.proposed: list[Ring] = []
        self.settled_steps: list[int] = []
        self.unreached: set[str] = set()
        self.lacking: dict[str, list[Span]] = {}
        self.master = Master(ring, ("a", 1), NotedDownstream(self.said), self, self.turn, end)

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

    def settled(self, number: int) -> None:
        self.settled_steps.append(number)

    def propose(self, ring: Ring) -> None:
        self.proposed.append(ring)

    def reached(self, node: str) -> bool:
        return node not in self.unreached

    def lacks(self, node: str, spans: list[Span]) -> None:
        self.lacking[node] = spans

    def flush(self) -> None:
        """What was asked for so far is on disk."""
        waiters, self.turn.flush_waiters = self.turn.flush_waiters, []
        for waiter in waiters:
            waiter.flushed()

    def elapse(self, elapsed_ms: int) -> None:
        self.turn.now_ms += elapsed_ms
        self.turn.fire_timers()


def stored(number: int, *positions: int, epoch: int = 1, persistent: bool = False) -> Step:
    """A step that stores these, sent by nobody."""
    writer = StepWriter()
    for position in positions:
        writer.store(position, 0, 0, persistent, 0, PAYLOAD, 0)
    return Step(number, epoch, writer.finish())


def removed(number: int, first: int, last: int, epoch: int = 1) -> Step:
    writer = StepWriter()
    writer.remove(0, first, last)
    return Step(number, epoch, writer.finish())


def newcomer(epoch: int = 1) -> JoinRequest:
    """Of one that has nothing to go on from."""
    return JoinRequest(epoch, False, 0, 0, [])
