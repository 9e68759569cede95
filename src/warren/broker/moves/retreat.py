"""A node that stops on purpose lets others be masters first, so that clients elsewhere notice no more than a pause.

Its mirrored queues go to mirrors that are in sync; where there is none, a policy may say that another takes over with
what it has (`ha-promote-on-shutdown`), or else the queue waits for the node to come back. The node leaves when it is
master of nothing that somebody else could be master of, and its successors have heard of it as a mirror, which tells
them that it hands out nothing any more; or after a while, whatever is left.

Not here: who is chosen (`broker.moves.placing`), handing over (`mirroring.master`).
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.model.turn import Timed

if TYPE_CHECKING:
    from warren.broker.mirrors.rings import Rings

PATIENCE_MS: Final[i64] = 3_000
"""How long it tries."""

FAREWELL_MS: Final[i64] = 50
"""How long it stays when it is master no more."""


@final
class Retreat(Timed):
    """One node's."""

    def __init__(self, rings: "Rings") -> None:
        self._rings: Rings = rings
        self._begun: bool = False
        self._until_ms: i64 = 0
        self._saying_farewell: bool = False

    def begin(self) -> None:
        self._begun = True
        self._wait(PATIENCE_MS)
        self._rings.placing.retreats = True
        for part in self._rings.parts():
            self._rings.placing.look(part)

    def over(self) -> bool:
        """Whether the node may leave; one that does not retreat has nothing to wait for."""
        if not self._begun or self._rings.turn.now_ms >= self._until_ms:
            return True
        if not self._saying_farewell and not self._any_to_hand_over():
            self._saying_farewell = True
            self._wait(FAREWELL_MS)
        return False

    def _any_to_hand_over(self) -> bool:
        placing = self._rings.placing
        return any(part.mastery is not None and placing.successor(part) for part in self._rings.parts())

    def _wait(self, for_ms: i64) -> None:
        turn = self._rings.turn
        self._until_ms = turn.now_ms + for_ms
        turn.set_timer(self._until_ms, self)

    def timer_fired(self) -> None:
        """The turn it makes is all that is wanted: whoever asks is asked at its end."""
