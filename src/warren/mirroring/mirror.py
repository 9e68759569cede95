"""A mirror: holds what its master holds, and can take its place.

::

              follow                   resume: it was in sync, and goes on
    alone ─────────────► joining ──────────────────────────────────────────────► following
      ▲                     └─────────► start: it tells what it has, catches up ─────┘
      └──── the link is lost, the epoch is over, it is about to propose itself ──────┘

What it holds it keeps in every state. `whole` says that this is all of the queue up to step `end`.

Invariants: `steps` are those above `settled` up to `end`, in order; whatever they store is in the copy, and nothing
that they remove is gone from it for that.

Not here: the theory (`mirroring`), what a copy is (`model.copies`), the link (`broker.mirrors`).
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from warren.errors import InvariantBroken, PeerFault
from warren.mirroring.epochs import Beginning, Epochs
from warren.mirroring.marks import Marks
from warren.mirroring.steps import LEND, ORIGIN, PERSISTENT, REMEMBER, REMOVE, RETURNED, STORE, Step, StepReader
from warren.model.copies import Held, Span, check_range
from warren.model.stored_offsets import NOWHERE
from warren.model.turn import FlushWaiter, Turn

ALONE: Final = "alone"
JOINING: Final = "joining"
FOLLOWING: Final = "following"


@final
class JoinRequest:
    """What a mirror tells a master that it wants to follow."""

    def __init__(
        self, epoch: int, whole: bool, end: i64, settled: i64, beginnings: list[Beginning], known: int = 0
    ) -> None:
        self.epoch: int = epoch
        # it holds the whole queue up to `end`, so that it may go on from there
        self.whole: bool = whole
        self.end: i64 = end
        self.settled: i64 = settled
        self.beginnings: list[Beginning] = beginnings
        # how far it has followed what is agreed upon; whoever sends the request knows
        self.known: int = known


@mypyc_attr(allow_interpreted_subclasses=True)
class Upstream:
    """The way to the master."""

    @abstractmethod
    def join(self, request: JoinRequest) -> None: ...

    @abstractmethod
    def safe(self, number: i64) -> None:
        """Everything up to this step is held and, where it has to be, on disk."""

    @abstractmethod
    def has(self, spans: list[Span]) -> None:
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

    def __init__(self, copy: Held, upstream: Upstream, turn: Turn) -> None:
        self.copy: Held = copy
        self.state: str = ALONE
        self.whole: bool = False
        self.end: i64 = 0
        self.settled: i64 = 0
        self.steps: list[Step] = []
        self.epochs: Epochs = Epochs()
        # of the steps that are settled
        self.marks: Marks = Marks()
        self._upstream: Upstream = upstream
        self._turn: Turn = turn
        self._epoch: int = 0
        self._safe: i64 = 0
        self._flushes: list[FlushMark] = []
        # answers to flushes that were asked for before it joined anew, and say nothing any more
        self._void: int = 0
        # what this turn brought
        self._moved: bool = False
        self._unflushed: bool = False
        self._all_here: bool = False
        # names that it remembered when it began to catch up, and was not told of since
        self._untold: dict[str, None] = {}

    # -- whom it follows

    def follow(self, epoch: int) -> None:
        """There is a way to the master of this epoch."""
        self.leave()
        self.state = JOINING
        self._epoch = epoch
        self._upstream.join(JoinRequest(epoch, self.whole, self.end, self.settled, list(self.epochs.beginnings)))

    def leave(self) -> None:
        """It follows nobody: whatever comes from now on does not count."""
        self.state = ALONE
        self._void += len(self._flushes)
        self._flushes = []
        self._moved = False
        self._all_here = False

    # -- what the master says

    def resume(self, common: i64, settled: i64) -> None:
        """It goes on behind the step that both have; what it has beyond does not count."""
        if self.state == ALONE:
            return
        if self.state != JOINING or not self.whole or not self.settled <= common <= self.end or settled > common:
            raise PeerFault(f"a mirror that ends with step {self.end} was told to go on behind {common}")
        self._drop_beyond(common)
        self.state = FOLLOWING
        self._carry_out_to(settled)
        self._moved = True
        # nothing tells whether what it had was flushed
        self._unflushed = True

    def start(self, number: i64, lent: i64, marks: Marks) -> None:
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
        self.settled = number
        self.steps = []
        self.epochs = Epochs([(self._epoch, int(number))])
        self.marks = marks
        self._safe = 0
        # nothing tells whether what it has was flushed
        self._unflushed = True
        self.copy.begin_catching_up()
        self.copy.lend(lent)
        self._untold = dict.fromkeys(self.copy.names())
        self._upstream.has(self.copy.claims())

    def take(self, step: Step) -> None:
        """The next step."""
        if self.state != FOLLOWING:
            return
        if step.number != self.end + 1 or step.epoch > self._epoch:
            raise PeerFault(f"step {step.number} of epoch {step.epoch} came behind step {self.end}")
        if self._store(step):
            self._unflushed = True
        self.end = step.number
        self.steps.append(step)
        self.epochs.add(step.epoch, step.number)
        self._moved = True

    def settle(self, number: i64) -> None:
        """Everything up to this step is settled."""
        if self.state != FOLLOWING:
            return
        if number > self.end:
            raise PeerFault(f"step {number} was settled, which a mirror that has {self.end} has not got")
        self._carry_out_to(number)

    def take_past(
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
        if self.copy.store(position, priority, expires_at_ms, persistent, payload, payload_crc):
            self._unflushed = True
        if returned:
            self.copy.returned(position, returned)
        self.copy.past_stored(position)

    def take_seen(self, rows: bytes, anew: bool) -> None:
        """Publishing ids that the master knows, when it has sent all else."""
        if self.state == FOLLOWING and self.copy.take_seen(rows, anew):
            self._unflushed = True

    def take_offset(self, name: str, offset: i64) -> None:
        """How far a reader has come."""
        if self.state == FOLLOWING:
            self._remember(name, offset)

    def _remember(self, name: str, offset: i64) -> None:
        self._untold.pop(name, None)
        self.copy.remember(name, offset)

    def remove_past(self, span: Span) -> None:
        """Something it has that the master has not.

        Some of it may never have counted, and whoever published that publishes it again. So until it is told which
        publishing ids the master knows, when all else is here, it knows none.
        """
        if self.state == FOLLOWING:
            self.copy.remove_any(span.first, span.last)
            if self.copy.take_seen(b"", True):
                self._unflushed = True

    def past_is_over(self) -> None:
        """It has been sent all that it lacked, and told all that the master remembers."""
        if self.state == FOLLOWING:
            for name in self._untold:
                self.copy.remember(name, NOWHERE)
            self._untold = {}
            self._all_here = True
            self._moved = True

    # -- the turn

    def end_turn(self) -> None:
        """Tell what is safe, or wait for the disk."""
        if not self._moved:
            return
        self._moved = False
        mark = FlushMark(self.end, self._all_here)
        self._all_here = False
        if self._unflushed or self._flushes:
            self._unflushed = False
            self._flushes.append(mark)
            self._turn.await_flush(self)
        else:
            self._tell(mark)

    def flushed(self) -> None:
        if self._void:
            self._void -= 1
        else:
            self._tell(self._flushes.pop(0))

    def _tell(self, mark: FlushMark) -> None:
        if mark.end > self._safe:
            self._safe = mark.end
            self._upstream.safe(mark.end)
        if mark.caught_up:
            self.whole = True
            self.copy.caught_up()
            self._upstream.caught_up()

    # -- what steps say

    def _store(self, step: Step) -> bool:
        """Hold what must be safe, and note what comes later; whether a part of it must be on disk."""
        copy = self.copy
        reader = StepReader(step)
        unflushed = False
        name, incarnation = "", 0
        count: i64 = 0
        while reader.next():
            if reader.kind == STORE:
                position, expires_at_ms = reader.word(0), reader.word(1)
                persistent = reader.flags & PERSISTENT != 0
                count = max(count, reader.word(2))
                step.stored_to = position
                if copy.store(position, reader.priority, expires_at_ms, persistent, reader.payload(), reader.word(3)):
                    unflushed = True
            elif reader.kind == LEND and copy.lend(reader.word(0)):
                unflushed = True
            elif reader.kind == ORIGIN:
                if count:
                    step.heard.append((name, incarnation, int(count)))
                    count = 0
                name, incarnation = reader.name(), int(reader.word(0))
            elif reader.kind == REMEMBER:
                self._remember(reader.name(), reader.word(0))
            elif reader.kind in (REMOVE, RETURNED):
                self._defer(step, reader)
        if count:
            step.heard.append((name, incarnation, int(count)))
        return unflushed

    def _defer(self, step: Step, reader: StepReader) -> None:
        first, last = reader.word(0), reader.word(1)
        if reader.kind == REMOVE:
            # whoever carries it out one day may be promoted by then, and have nobody to blame
            check_range(reader.priority, self.copy.max_priority, first, last)
        step.later.append((int(reader.kind), int(reader.priority), int(first), int(last)))

    def _carry_out_to(self, settled: i64) -> None:
        """Do what waited until it was settled."""
        if settled <= self.settled:
            return
        self.settled = settled
        count = 0
        while count < len(self.steps) and self.steps[count].number <= settled:
            self.carry_out(self.steps[count])
            count += 1
        del self.steps[:count]
        self.epochs.forget(settled)

    def carry_out(self, step: Step) -> None:
        """The part of a step that counts once it is settled."""
        for name, incarnation, count in step.heard:
            self.marks.heard(name, incarnation, count)
        for kind, level, first, last in step.later:
            if kind == REMOVE:
                self.copy.remove(level, first, last)
            elif kind == RETURNED:
                self.copy.returned(first, last)
        if step.stored_to:
            self.copy.settled(step.stored_to)

    def _drop_beyond(self, common: i64) -> None:
        while self.steps and self.steps[-1].number > common:
            drop_stored(self.copy, self.steps.pop())
        self.end = common
        self._safe = 0
        self.epochs.cut(common)

    def check(self) -> None:
        """Raise `InvariantBroken` if it contradicts itself."""
        numbers = [int(step.number) for step in self.steps]
        if numbers != list(range(int(self.settled) + 1, int(self.end) + 1)):
            raise InvariantBroken(f"a mirror has steps {numbers} between {self.settled} and {self.end}")


def drop_stored(copy: Held, step: Step) -> None:
    """Take out what a step stored, which does not count."""
    payloads: list[bytes] = []
    reader = StepReader(step)
    while reader.next():
        if reader.kind == STORE:
            copy.drop(reader.priority, reader.word(0))
            payloads.append(reader.payload())
    # the last one is the one that was seen last
    for payload in reversed(payloads):
        copy.unsee(payload)
