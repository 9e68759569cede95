"""A mirrored queue is to be deleted because it is empty, or unused; until that is decided nothing comes into it.

If nobody knows what became of it the queue takes in nothing any more, lest what is confirmed be lost with it; a restart
of its master, or another attempt to delete it, ends that.

Not here: checking it (`remote.hosted_questions`), the plan (`broker.vhost`).
"""

from typing import TYPE_CHECKING, final

from warren.model.agreeing import AgreementWaiter

if TYPE_CHECKING:
    from warren.broker.mirrors.mastery import Mastery


@final
class CheckedRemoval(AgreementWaiter):
    """One attempt."""

    def __init__(self, mastery: "Mastery", waiter: AgreementWaiter) -> None:
        self._mastery: Mastery = mastery
        self._waiter: AgreementWaiter = waiter
        mastery.may_go(True)

    def agreed(self) -> None:
        self._waiter.agreed()

    def outdated(self) -> None:
        self._mastery.may_go(False)
        self._waiter.outdated()

    def failed(self, reason: str) -> None:
        self._waiter.failed(reason)
