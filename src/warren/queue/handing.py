"""Handing out: ready entries go to able consumers, whoever's turn it is.

With a log, an entry goes only when it is in memory and the log gives leave; until then nothing goes, for the order
is that of the queue.

Not here: when to hand out (`queue.queue`), whose turn it is (`queue.consumers`), reading and leave (`queue.paging`).
"""

from typing import final

from warren.model.ports import Consumer
from warren.model.turn import Turn
from warren.queue.capacity import Capacity
from warren.queue.consumers import Consumers
from warren.queue.contents import Contents
from warren.queue.losses import Losses
from warren.queue.paging import Paging


@final
class Handing:
    """Gives one queue's entries to its consumers."""

    def __init__(
        self, contents: Contents, consumers: Consumers, losses: Losses, paging: Paging | None, turn: Turn
    ) -> None:
        self._capacity: Capacity = Capacity(turn)
        self._contents: Contents = contents
        self._consumers: Consumers = consumers
        self._losses: Losses = losses
        self._paging: Paging | None = paging
        # a delivery may end its consumer, which must not start handing out within handing out
        self._under_way: bool = False

    def hand_out(self) -> None:
        """Everything that consumers can take goes; then, what is due."""
        contents = self._contents
        if contents.ready_count == 0 or self._under_way:
            return
        self._under_way = True
        if self._paging is not None:
            self._paging.pass_over()
        sole = self._consumers.sole
        behind = False
        if sole is not None:
            behind = self._hand_to(sole)
        elif self._consumers.members:
            behind = self._hand_in_turns()
        if behind != self._capacity.behind:
            self._capacity.turned(behind)
        self._under_way = False
        if contents.deadlines:
            self._losses.expire_due()

    def capacity_share(self) -> float:
        """How much of the time the consumers could have taken more, between 0 and 1; 0 without any."""
        return self._capacity.share() if self._consumers.members else 0.0

    def _hand_to(self, consumer: Consumer) -> bool:
        """Whether something is left that the consumer cannot take."""
        contents = self._contents
        consumers = self._consumers
        paging = self._paging
        # a delivery may end the consumer, or the queue
        while contents.ready_count != 0 and consumers.sole is consumer and consumer.able():
            if contents.deadlines and self._losses.expired_overdue():
                continue
            if paging is None or (paging.passing and contents.paged_count == 0):
                consumer.deliver(contents.take(consumer.no_ack))
            elif paging.may_go():
                consumer.deliver(paging.take(consumer.no_ack))
            else:
                return False
        return contents.ready_count != 0

    def _hand_in_turns(self) -> bool:
        """Whether something is left that none of the consumers can take."""
        contents = self._contents
        paging = self._paging
        # nothing is read or lent for consumers that cannot take it
        if paging is not None and not self._consumers.any_able():
            return True
        while contents.ready_count != 0:
            if contents.deadlines and self._losses.expired_overdue():
                continue
            if paging is not None and not paging.may_go():
                return False
            consumer = self._consumers.pick()
            if consumer is None:
                return True
            consumer.deliver(contents.take(consumer.no_ack) if paging is None else paging.take(consumer.no_ack))
        return False
