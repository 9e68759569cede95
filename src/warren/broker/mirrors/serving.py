"""Whether a master may hand messages out: only if nobody else does.

Not here: when members were heard of (`broker.mirrors.pulse`), what is handed out (`broker.mirrors.lending`).
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.broker.mirrors.pulse import DELIVERY_MS, MARGIN_MS
from warren.model.rings import Run
from warren.model.turn import Timed, Turn

if TYPE_CHECKING:
    from warren.broker.mirrors.mastery import Mastery
    from warren.broker.mirrors.rings import Rings

EVER: Final[i64] = 1 << 62


@final
class Serving(Timed):
    """One master's."""

    def __init__(self, rings: "Rings", mastery: "Mastery") -> None:
        self._rings: Rings = rings
        self._mastery: Mastery = mastery
        self._turn: Turn = rings.turn
        # until when something may be handed out, as far as is known
        self._until_ms: i64 = 0
        # the run that was master before, until it can hand out nothing any more; and since when there is another
        self._predecessor: Run | None = None
        self._since_ms: i64 = rings.turn.now_ms
        self._waits: bool = False

    def succeeds(self, run: Run | None) -> None:
        """Who was master before, and may not know that it is not any more."""
        self._predecessor = run

    def follows(self, run: Run) -> None:
        """A run follows this master, so it knows that it is not master any more."""
        if run == self._predecessor:
            self._predecessor = None
            self.look()

    def allowed(self) -> bool:
        """Whether something may be handed out now; if not, the master is told when."""
        if self._turn.now_ms < self._until_ms:
            return True
        self.look()
        return self._turn.now_ms < self._until_ms

    def look(self) -> None:
        """See until when something may be handed out."""
        was_allowed = self._turn.now_ms < self._until_ms
        self._until_ms = self._allowed_until()
        if not was_allowed and self._turn.now_ms < self._until_ms:
            self._mastery.go_on()

    def timer_fired(self) -> None:
        self._waits = False
        self.look()

    def _allowed_until(self) -> i64:
        predecessor = self._predecessor
        if predecessor is not None:
            over_ms = self._since_ms + DELIVERY_MS + MARGIN_MS
            if self._turn.now_ms < over_ms and not self._rings.has_ended(predecessor):
                self._look_again_at(over_ms)
                return 0
            self._predecessor = None
        until_ms: i64 = EVER
        for name, _incarnation in self._mastery.master.counted():
            if name != self._rings.own_run[0]:
                until_ms = min(until_ms, self._rings.pulse.heard_ms(name) + DELIVERY_MS)
        return until_ms

    def _look_again_at(self, at_ms: i64) -> None:
        if not self._waits:
            self._waits = True
            self._turn.set_timer(at_ms, self)
