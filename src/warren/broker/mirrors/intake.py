"""Where a master takes in what one run of a node publishes to its queue.

Where a policy has `ha-confirm` = `master`, publishers are told when this node holds what they published, flushed if it
has to be; when it is settled they need not be told again. Consumers, and everybody else, wait for that as always.

Not here: what becomes of it (`broker.mirrors.mastery`).
"""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.mirroring.marks import Marks
from warren.model.message import Message
from warren.model.mirrored import Intake, MasterWaiter
from warren.model.ports import PENDING
from warren.model.turn import FlushWaiter, Turn

if TYPE_CHECKING:
    from warren.broker.mirrors.mastery import Mastery
    from warren.broker.mirrors.rings import Rings


@final
class NodeIntake(Intake):
    """For what one run of a node publishes."""

    def __init__(
        self, rings: "Rings", mastery: "Mastery", node: str, incarnation: int, publisher: MasterWaiter
    ) -> None:
        self.epoch = mastery.master.ring.epoch
        self.publisher: MasterWaiter = publisher
        self.node: str = node
        self.incarnation: int = incarnation
        # how far it has come since this was last put down; 0 for no further
        self.further: i64 = 0
        # of what was taken in last, if that is to be confirmed early
        self.count: i64 = 0
        self._rings: Rings = rings
        self._mastery: Mastery = mastery

    def publish(self, count: i64, message: Message, counted: bool) -> i64:
        outcome = self._mastery.publish(self, count, message, counted)
        if self._mastery.early.wanted and outcome == PENDING:
            self.count = count
            self._mastery.early.taken(self, message.persistent)
        return outcome

    def await_safe(self, waiter: FlushWaiter) -> None:
        self._mastery.await_safe(waiter)

    def acked_late(self, positions: list[int]) -> None:
        if self._mastery.queue is not None:
            self._mastery.queue.acked_late(positions)

    def deserted(self) -> None:
        if self._mastery.queue is not None:
            self._rings.deserted(self._mastery.queue)


@final
class EarlyConfirms(FlushWaiter):
    """Of one master: what it alone holds, and whose publishers it will tell so."""

    def __init__(self, turn: Turn, mastery: "Mastery") -> None:
        # whether the policy says so, and this node is still the master
        self.wanted: bool = False
        self._turn: Turn = turn
        self._mastery: Mastery = mastery
        # of the step that is being made
        self._taken: list[NodeIntake] = []
        self._unflushed: bool = False
        # steps on their way to the disk: who sent something, and up to which count
        self._unsafe: list[list[tuple[NodeIntake, int]]] = []

    def taken(self, intake: NodeIntake, persistent: bool) -> None:
        if intake not in self._taken:
            self._taken.append(intake)
        queue = self._mastery.queue
        if persistent and queue is not None and queue.durable:
            self._unflushed = True

    def end_round(self) -> None:
        """What was taken in is in a step of this turn."""
        if not self._taken:
            return
        held = [(intake, int(intake.count)) for intake in self._taken]
        self._taken = []
        if self._unflushed or self._unsafe:
            self._unflushed = False
            self._unsafe.append(held)
            self._turn.await_flush(self)
        else:
            self._tell(held)

    def flushed(self) -> None:
        self._tell(self._unsafe.pop(0))

    def _tell(self, held: list[tuple[NodeIntake, int]]) -> None:
        # while it is not known whether the queue goes, nothing is confirmed
        if self.wanted and not self._mastery.undecided():
            for intake, count in held:
                intake.publisher.held(count)


@final
class Counts:
    """How far each node has come since that was last put down: once for all that it publishes in a turn."""

    def __init__(self) -> None:
        self._intakes: list[NodeIntake] = []

    def took(self, intake: NodeIntake, count: i64) -> None:
        if intake.further == 0:
            self._intakes.append(intake)
        intake.further = count

    def put_down(self, marks: Marks) -> None:
        intakes = self._intakes
        if intakes:
            self._intakes = []
            for intake in intakes:
                marks.heard(intake.node, intake.incarnation, intake.further)
                intake.further = 0
