"""Where a master takes in what one run of a node publishes to its queue.

Not here: what becomes of it (`broker.mirrors.mastery`).
"""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.model.message import Message
from warren.model.mirrored import Intake
from warren.model.turn import FlushWaiter

if TYPE_CHECKING:
    from warren.broker.mirrors.mastery import Mastery
    from warren.broker.mirrors.rings import Rings


@final
class NodeIntake(Intake):
    """For what one run of a node publishes."""

    def __init__(self, rings: "Rings", mastery: "Mastery", node: str, incarnation: int) -> None:
        self._rings: Rings = rings
        self._mastery: Mastery = mastery
        self._node: str = node
        self._incarnation: int = incarnation

    def publish(self, count: i64, message: Message, counted: bool) -> i64:
        return self._mastery.publish(self._node, self._incarnation, count, message, counted)

    def await_safe(self, waiter: FlushWaiter) -> None:
        self._mastery.await_safe(waiter)

    def deserted(self) -> None:
        if self._mastery.queue is not None:
            self._rings.deserted(self._mastery.queue)
