"""A master's way to its followers: over the links between their nodes.

What is settled is said with the next step. If none comes for `LATER_MS` it is said for itself: nobody waits for it, and
a mirror that is busy need not be woken once more for each step.

Not here: what is said (`mirroring.messages`), when (`mirroring.master`).
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.mirroring import messages
from warren.mirroring.master import Downstream
from warren.mirroring.steps import Step
from warren.model.turn import Timed, Turn

if TYPE_CHECKING:
    from warren.broker.mirrors.mastery import Mastery
    from warren.broker.mirrors.rings import Rings

LATER_MS: Final[i64] = 10


@final
class Unsaid(Timed):
    """Whichever masters of this node have yet to say what is settled."""

    def __init__(self, turn: Turn) -> None:
        self._turn: Turn = turn
        self._downlinks: dict[Downlink, None] = {}

    def add(self, downlink: "Downlink") -> None:
        if not self._downlinks:
            self._turn.set_timer(self._turn.now_ms + LATER_MS, self)
        self._downlinks[downlink] = None

    def timer_fired(self) -> None:
        downlinks, self._downlinks = self._downlinks, {}
        for downlink in downlinks:
            downlink.say_settled()


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
        # of each follower: up to where what it has is settled, which it was not told
        self._settled: dict[str, int] = {}

    def forget(self, node: str) -> None:
        """It does not follow any more."""
        self.tags.pop(node, None)
        self._settled.pop(node, None)

    def resume(self, node: str, common: i64, settled: i64) -> None:
        self._settled.pop(node, None)
        self._send(node, messages.RESUME, [int(common), int(settled)], b"")

    def start(self, node: str, number: i64) -> None:
        mastery = self._mastery
        self._settled.pop(node, None)
        self.firsts[node] = mastery.next_position
        head = messages.start(self._queue_id, self.tags[node], number, mastery.copy.lent_to(), mastery.master.marks)
        self._rings.links.send_ring(node, head, b"")

    def step(self, node: str, step: Step) -> None:
        settled = self._settled.pop(node, 0) if self._settled else 0
        self._send(node, messages.STEP, [int(step.number), int(step.epoch), settled], step.data)

    def settle(self, node: str, number: i64) -> None:
        if not self._settled:
            self._rings.unsaid.add(self)
        self._settled[node] = int(number)

    def say_settled(self) -> None:
        """No step has said it so far."""
        settled, self._settled = self._settled, {}
        for node, number in settled.items():
            self._send(node, messages.SETTLE, [number], b"")

    def _send(self, node: str, kind: i64, values: list[int], data: bytes) -> None:
        head = messages.words(kind, self._queue_id, self.tags[node], values)
        self._rings.links.send_ring(node, head, data)
