"""A mirrored queue is to be deleted because it is empty, or unused; until that is decided nothing is confirmed.

If nobody knows what became of the removal it may still come about, until there is another version of the queue's
definition: so its ring is proposed as it is, again and again until that is seen.

Not here: checking it (`remote.hosted_questions`), the plan (`broker.vhost`).
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.model.agreeing import AgreementWaiter
from warren.model.turn import Timed, Turn

if TYPE_CHECKING:
    from warren.broker.mirrors.mastery import Mastery

AGAIN_MS: Final[i64] = 1_000


@final
class CheckedRemoval(AgreementWaiter, Timed):
    """One attempt."""

    def __init__(self, mastery: "Mastery", waiter: AgreementWaiter, turn: Turn) -> None:
        self._mastery: Mastery = mastery
        self._waiter: AgreementWaiter = waiter
        self._turn: Turn = turn
        mastery.may_go(True)

    def agreed(self) -> None:
        self._waiter.agreed()

    def outdated(self) -> None:
        self._mastery.may_go(False)
        self._waiter.outdated()

    def failed(self, reason: str) -> None:
        self._waiter.failed(reason)
        self.timer_fired()

    def timer_fired(self) -> None:
        if self._mastery.undecided():
            self._mastery.make_certain()
            self._turn.set_timer(self._turn.now_ms + AGAIN_MS, self)
