"""A queue that goes without a client waiting for it: its last consumer, its owner or its time is gone.

Its removal is planned again whenever something it relies on has changed, and after a pause when it could not be agreed
upon, as long as the queue is there: nobody else would.

Not here: which queues go (`queue.keeper`, `broker.vhost`), what goes along (`broker.topology_plans`).
"""

from typing import Final, final

from warren.broker.agreement import Agreement
from warren.broker.topology_plans import plan_queue_removal
from warren.model.ports import QueuePort
from warren.model.turn import Timed, Turn
from warren.routing.topology import Topology
from warren.store.plan import AgreementWaiter, Plan

PAUSE_MS: Final = 1000


@final
class Departure(AgreementWaiter, Timed):
    """One queue's, from the moment nobody needs it to the moment it is unmade."""

    def __init__(self, queue: QueuePort, topology: Topology, agreement: Agreement, turn: Turn) -> None:
        self._queue: QueuePort = queue
        self._topology: Topology = topology
        self._agreement: Agreement = agreement
        self._turn: Turn = turn
        self._waiters: list[AgreementWaiter] = []

    def plan(self) -> bool:
        """Whether it is unmade already."""
        plan = Plan()
        plan_queue_removal(plan, self._topology, self._queue)
        return self._agreement.agree(plan, self)

    def await_end(self, waiter: AgreementWaiter | None) -> None:
        """Whoever wants to make another queue of that name plans once this one is unmade."""
        if waiter is not None:
            self._waiters.append(waiter)

    def ended(self) -> None:
        """The queue is unmade."""
        for waiter in self._waiters:
            waiter.outdated()

    def agreed(self) -> None:
        """Then it is unmade, and whoever waited was told."""

    def outdated(self) -> None:
        self._go_on()

    def failed(self, reason: str) -> None:
        self._turn.set_timer(self._turn.now_ms + PAUSE_MS, self)
        waiters = self._waiters
        self._waiters = []
        for waiter in waiters:
            waiter.failed(reason)

    def timer_fired(self) -> None:
        self._go_on()

    def _go_on(self) -> None:
        if self._topology.queues.get(self._queue.name) is self._queue:
            self.plan()
