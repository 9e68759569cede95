"""Queues that are to go, at their home, between the wish and the moment they are unmade.

A queue that *outlived its use* (its last consumer, its owner or its time is gone) goes without a client waiting for it.
It is closed at once, and whoever declares one of its name waits until it is unmade. Its removal is planned again
whenever something it relies on has changed, and after a pause when it could not be agreed upon, as long as the queue is
there: nobody else would. A mirrored one is not closed before it is unmade: another node may become its master. A new
master waits until those who consumed under the one before have had time to come back.

A queue that was *checked* is deleted because it is empty, or unused. It stays as it is, but that nothing comes into it
and nobody begins to consume, until that is decided; if the plan is outdated it goes on as if nothing had been. If
nobody knows what became of the plan it may still come about, so the queue is touched first: that is agreed upon before
the removal, which is outdated then, or after it.

Either way what is published meanwhile is neither confirmed nor lost before it is decided (`queue.withholding`).

Not here: which queues go (`queue.keeper`, `broker.vhost`), what goes along (`broker.topology_plans`).
"""

from typing import Final, final

from warren.broker.agreement import Agreement
from warren.broker.topology_plans import plan_queue_removal
from warren.model.agreeing import AgreementWaiter
from warren.model.own_queue import OwnQueue
from warren.model.ports import QueuePort
from warren.model.turn import Timed, Turn
from warren.queue.withholding import Withheld
from warren.remote.seat import Seat
from warren.routing.topology import Topology
from warren.store.plan import Plan
from warren.store.topology_definitions import queue_key

PAUSE_MS: Final = 1000


@final
class Departures:
    """Those of one virtual host."""

    def __init__(self, topology: Topology, agreement: Agreement, turn: Turn) -> None:
        self._topology: Topology = topology
        self._agreement: Agreement = agreement
        self._turn: Turn = turn
        # of queues that outlived their use, by name
        self._departures: dict[str, Departure] = {}

    def let_go(self, queue: OwnQueue, refuses: bool) -> None:
        """A queue outlived its use; `refuses`: what comes to it before it is unmade might have prevented that."""
        departure = Departure(queue, self._topology, self._agreement, self._turn)
        if not departure.plan():
            self._departures[queue.name] = departure
            if queue.withheld is None:
                departure.withheld = Withheld(queue, self._turn, refuses)
                queue.withheld = departure.withheld
            queue.close()

    def let_go_mirrored(self, queue: OwnQueue, seat: Seat) -> None:
        """A queue that several nodes hold outlived its use, as its master, here, found."""
        MirroredDeparture(queue, seat, self._topology, self._agreement, self._turn).begin()

    def remove_checked(self, queue: QueuePort, waiter: AgreementWaiter) -> bool:
        """Whether it is done; if not, the waiter is told."""
        plan = Plan()
        plan_queue_removal(plan, self._topology, queue)
        if self._agreement.at_once():
            return self._agreement.agree(plan, None)
        withheld = Withheld(queue, self._turn, refuses=True)
        queue.withheld = withheld
        revocation = Revocation(queue, withheld, self._topology, self._agreement, self._turn)
        return self._agreement.agree(plan, CheckedRemoval(withheld, revocation, waiter))

    def await_end(self, name: str, waiter: AgreementWaiter | None) -> bool:
        """Whether a queue of that name is yet to be unmade; then whoever wants to make another plans after that."""
        departure = self._departures.get(name)
        if departure is not None and waiter is not None:
            departure.waiters.append(waiter)
        return departure is not None

    def unmade(self, queue: QueuePort) -> None:
        if queue.withheld is not None:
            queue.withheld.gone()
        departure = self._departures.pop(queue.name, None)
        if departure is not None:
            departure.ended()


@final
class Departure(AgreementWaiter, Timed):
    """One queue's that outlived its use."""

    def __init__(self, queue: QueuePort, topology: Topology, agreement: Agreement, turn: Turn) -> None:
        self.waiters: list[AgreementWaiter] = []
        # nothing if it was to be deleted anyway
        self.withheld: Withheld | None = None
        self._queue: QueuePort = queue
        self._topology: Topology = topology
        self._agreement: Agreement = agreement
        self._turn: Turn = turn

    def plan(self) -> bool:
        """Whether it is unmade already."""
        plan = Plan()
        plan_queue_removal(plan, self._topology, self._queue)
        return self._agreement.agree(plan, self)

    def ended(self) -> None:
        """The queue is unmade."""
        for waiter in self.waiters:
            waiter.outdated()

    def agreed(self) -> None:
        """It is unmade, and whoever wanted to make another was told."""
        if self.withheld is not None:
            self.withheld.known()

    def outdated(self) -> None:
        self._go_on()

    def failed(self, reason: str) -> None:
        self._turn.set_timer(self._turn.now_ms + PAUSE_MS, self)
        waiters = self.waiters
        self.waiters = []
        for waiter in waiters:
            waiter.failed(reason)

    def timer_fired(self) -> None:
        self._go_on()

    def _go_on(self) -> None:
        if self._topology.queues.get(self._queue.name) is self._queue:
            self.plan()
        else:
            self.agreed()


@final
class MirroredDeparture(AgreementWaiter, Timed):
    """One queue's that several nodes hold. It is there until it is unmade, and stays if somebody begins to use it."""

    def __init__(self, queue: OwnQueue, seat: Seat, topology: Topology, agreement: Agreement, turn: Turn) -> None:
        self._queue: OwnQueue = queue
        self._seat: Seat = seat
        self._topology: Topology = topology
        self._agreement: Agreement = agreement
        self._turn: Turn = turn

    def begin(self) -> None:
        reunited_at_ms = self._seat.reunited_at_ms()
        if self._turn.now_ms < reunited_at_ms:
            self._turn.set_timer(reunited_at_ms, self)
        else:
            self._plan()

    def _plan(self) -> None:
        plan = Plan()
        plan_queue_removal(plan, self._topology, self._seat)
        self._agreement.agree(plan, self)

    def agreed(self) -> None:
        """It is unmade."""

    def outdated(self) -> None:
        """Its ring may have changed meanwhile."""
        self._go_on()

    def failed(self, reason: str) -> None:
        self._turn.set_timer(self._turn.now_ms + PAUSE_MS, self)

    def timer_fired(self) -> None:
        self._go_on()

    def _go_on(self) -> None:
        queue = self._queue
        # it is closed when another node becomes its master
        unused = not queue.deleted and queue.consumer_count() == 0
        if unused and self._topology.queues.get(queue.name) is self._seat:
            self._plan()


@final
class CheckedRemoval(AgreementWaiter):
    """One queue's that was found to be as whoever deletes it wants it to be."""

    def __init__(self, withheld: Withheld, revocation: "Revocation", waiter: AgreementWaiter) -> None:
        self._withheld: Withheld = withheld
        self._revocation: Revocation = revocation
        self._waiter: AgreementWaiter = waiter

    def agreed(self) -> None:
        self._withheld.known()
        self._waiter.agreed()

    def outdated(self) -> None:
        self._withheld.release()
        self._waiter.outdated()

    def failed(self, reason: str) -> None:
        self._waiter.failed(reason)
        self._revocation.plan()


@final
class Revocation(AgreementWaiter, Timed):
    """Makes certain that a removal comes about no more, or has."""

    def __init__(
        self, queue: QueuePort, withheld: Withheld, topology: Topology, agreement: Agreement, turn: Turn
    ) -> None:
        self._queue: QueuePort = queue
        self._withheld: Withheld = withheld
        self._topology: Topology = topology
        self._agreement: Agreement = agreement
        self._turn: Turn = turn

    def plan(self) -> None:
        if self._topology.queues.get(self._queue.name) is not self._queue:
            self._withheld.known()
            return
        plan = Plan()
        plan.touch(queue_key(self._queue.vhost, self._queue.name))
        if self._agreement.agree(plan, self):
            self.agreed()

    def agreed(self) -> None:
        self._withheld.release()

    def outdated(self) -> None:
        self.plan()

    def failed(self, reason: str) -> None:
        self._turn.set_timer(self._turn.now_ms + PAUSE_MS, self)

    def timer_fired(self) -> None:
        self.plan()
