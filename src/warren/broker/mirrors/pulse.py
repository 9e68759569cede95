"""Whether the others have been heard of lately: whoever hands messages out must know that nobody else does.

A master that has not heard from every counted member for `DELIVERY_MS` hands out nothing: another may have been made
master without it. A new master hands out when the run before it is known to have ended, or cannot have gone on for so
long. Confirming needs none of this (`mirroring`, rules 10 and 11).

What counts is when a member was asked, not when it answered.

Not here: what is handed out (`broker.mirrors.mastery`), who counts (`mirroring.master`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.mirroring import messages
from warren.model.turn import Timed, Turn
from warren.remote.links import Links

DELIVERY_MS: Final[i64] = 2_000
MARGIN_MS: Final[i64] = 500
BEAT_EVERY_MS: Final[i64] = 500


@final
class Pulse(Timed):
    """One node's."""

    def __init__(self, links: Links, turn: Turn) -> None:
        self._links: Links = links
        self._turn: Turn = turn
        # when each node that answered was asked
        self._asked_ms: dict[str, i64] = {}
        # nodes that hold something of which this one is master
        self._partners: list[str] = []
        self._beating: bool = False

    def watch(self, partners: list[str]) -> None:
        """Ask these from here on."""
        self._partners = partners
        if partners and not self._beating:
            self._beating = True
            self._beat()

    def heard_ms(self, node: str) -> i64:
        """When a node was asked that has answered; 0 for never."""
        return self._asked_ms.get(node, 0)

    def asked(self, node: str, asked_ms: i64) -> None:
        """Another node wants to know that this one is there."""
        self._links.send_ring(node, messages.words(messages.PULSE, 0, 0, [int(asked_ms)]), b"")

    def answered(self, node: str, asked_ms: i64) -> None:
        self._asked_ms[node] = asked_ms

    def lost(self, node: str) -> None:
        self._asked_ms.pop(node, None)

    def timer_fired(self) -> None:
        if self._partners:
            self._beat()
        else:
            self._beating = False

    def _beat(self) -> None:
        head = messages.words(messages.BEAT, 0, 0, [int(self._turn.now_ms)])
        for node in self._partners:
            self._links.send_ring(node, head, b"")
        self._turn.set_timer(self._turn.now_ms + BEAT_EVERY_MS, self)
