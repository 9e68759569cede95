"""A master's way to its followers: over the links between their nodes.

Not here: what is said (`mirroring.messages`), when (`mirroring.master`).
"""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.mirroring import messages
from warren.mirroring.master import Downstream
from warren.mirroring.steps import Step

if TYPE_CHECKING:
    from warren.broker.mirrors.mastery import Mastery
    from warren.broker.mirrors.rings import Rings


@final
class Downlink(Downstream):
    """Of one queue's master."""

    def __init__(self, rings: "Rings", queue_id: int, mastery: "Mastery") -> None:
        # of each follower: what its messages and those to it bear, and the first position it gets in a step
        self.tags: dict[str, int] = {}
        self.firsts: dict[str, i64] = {}
        self._rings: Rings = rings
        self._queue_id: int = queue_id
        self._mastery: Mastery = mastery

    def resume(self, node: str, common: i64, settled: i64) -> None:
        self._send(node, messages.RESUME, [int(common), int(settled)], b"")

    def start(self, node: str, number: i64) -> None:
        mastery = self._mastery
        self.firsts[node] = mastery.next_position
        head = messages.start(self._queue_id, self.tags[node], number, mastery.copy.lent_to(), mastery.master.marks)
        self._rings.links.send_ring(node, head, b"")

    def step(self, node: str, step: Step) -> None:
        self._send(node, messages.STEP, [int(step.number), int(step.epoch)], step.data)

    def settle(self, node: str, number: i64) -> None:
        self._send(node, messages.SETTLE, [int(number)], b"")

    def _send(self, node: str, kind: i64, values: list[int], data: bytes) -> None:
        head = messages.words(kind, self._queue_id, self.tags[node], values)
        self._rings.links.send_ring(node, head, data)
