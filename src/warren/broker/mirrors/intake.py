"""Where a master takes in what one run of a node publishes to its queue.

Not here: what becomes of it (`broker.mirrors.mastery`).
"""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.mirroring.marks import Marks
from warren.model.message import Message
from warren.model.mirrored import Intake
from warren.model.turn import FlushWaiter

if TYPE_CHECKING:
    from warren.broker.mirrors.mastery import Mastery


@final
class NodeIntake(Intake):
    """For what one run of a node publishes."""

    def __init__(self, mastery: "Mastery", node: str, incarnation: int) -> None:
        self.node: str = node
        self.incarnation: int = incarnation
        # how far it has come since this was last put down; 0 for no further
        self.count: i64 = 0
        self._mastery: Mastery = mastery

    def publish(self, count: i64, message: Message, counted: bool) -> i64:
        return self._mastery.publish(self, count, message, counted)

    def await_safe(self, waiter: FlushWaiter) -> None:
        self._mastery.await_safe(waiter)


@final
class Counts:
    """How far each node has come since that was last put down: once for all that it publishes in a turn."""

    def __init__(self) -> None:
        self._further: list[NodeIntake] = []

    def took(self, intake: NodeIntake, count: i64) -> None:
        if intake.count == 0:
            self._further.append(intake)
        intake.count = count

    def put_down(self, marks: Marks) -> None:
        further = self._further
        if further:
            self._further = []
            for intake in further:
                marks.heard(intake.node, intake.incarnation, intake.count)
                intake.count = 0
