"""What the source is told of its deliveries, by what the destination said of the publishes that were made of them.

Publishes are numbered from 1, in the order of the deliveries they were made of. All up to `low` are decided and
forgotten; of those above it some may be decided *apart*.

**Acks.** A run that begins right above `low` settles every delivery up to its last one, so it is acked by one word.
Whatever is confirmed apart is acked singly.

**Refused** publishes go back to the source: not at once, or the same messages would go round and round as fast as both
brokers can, but all together after a pause, which grows while nothing is confirmed. A publish that came back is refused
too, although its confirm says otherwise: no queue has it.

Not here: how publishes are sent (`carrying.carrier`), which of all this is in doubt at the end (`carrying.uncertain`).
"""

from collections.abc import Callable
from itertools import islice
from typing import Final, Protocol

from warren.bridges.carrying.tally import Tally
from warren.bridges.carrying.terms import Outgoing
from warren.bridges.carrying.uncertain import LateAcks
from warren.client.machine.confirms import ConfirmRange
from warren.client.machine.deliveries import Delivery, ReturnedMessage
from warren.client.machine.returns import MandatoryPublishes

PAUSE_S: Final = 0.1
PAUSE_MAX_S: Final = 5.0
_COMPACT_AT: Final = 4096


class Source(Protocol):
    """Where deliveries are settled: a channel."""

    def ack(self, delivery: Delivery, *, multiple: bool = False) -> None: ...

    def nack(self, delivery: Delivery, *, multiple: bool = False, requeue: bool = True) -> None: ...


class Settling:
    """The publishes of one `carry` that waits for confirms."""

    def __init__(
        self, source: Source, tally: Tally, late_acks: LateAcks, later: Callable[[float, Callable[[], None]], object]
    ) -> None:
        self._source = source
        self._tally = tally
        self._late_acks = late_acks
        # calls a function after so many seconds
        self._later = later
        self.low = 0
        # of publish `low + 1` at `_from`, and so on
        self._sent: list[Delivery] = []
        self._from = 0
        self._apart: set[int] = set()
        self._mandatory = MandatoryPublishes()
        self._came_back: set[int] = set()
        self._refused: list[Delivery] = []
        self._pause_s = PAUSE_S

    @property
    def last_no(self) -> int:
        return self.low + len(self._sent) - self._from

    @property
    def under_way(self) -> int:
        return len(self._sent) - self._from - len(self._apart)

    def published(self, made: list[tuple[Delivery, Outgoing]], mandatory: bool) -> None:
        """Deliveries, and what was published in their place."""
        first_no = self.last_no + 1
        self._sent += [delivery for delivery, _ in made]
        if mandatory:
            for number, (_, (exchange, routing_key, properties, body)) in enumerate(made, first_no):
                self._mandatory.sent(number, (exchange, routing_key, properties, body))

    def undecided(self) -> list[Delivery]:
        ahead = enumerate(islice(self._sent, self._from, None), self.low + 1)
        return [delivery for number, delivery in ahead if number not in self._apart]

    # what the destination says

    def came_back(self, message: ReturnedMessage) -> None:
        looks = (message.exchange, message.routing_key, message.header_payload[12:], message.body)
        number = message.publish_no or self._mandatory.came_back(looks)
        if number:
            self._came_back.add(number)

    def decided(self, ranges: list[ConfirmRange]) -> None:
        for decided in ranges:
            if decided.acked and not self._came_back and decided.first == self.low + 1 and not self._apart:
                self._acked_up_to(decided.last)
            else:
                self._decide_singly(decided)
            if len(self._mandatory):
                self._mandatory.decided(decided.first, decided.last)

    def give_back(self) -> None:
        """What was refused goes to the source's queue."""
        refused, self._refused = self._refused, []
        for delivery in refused:
            self._source.nack(delivery)
        self._late_acks.gave_up(len(refused))

    def _acked_up_to(self, number: int) -> None:
        count = number - self.low
        end = self._from + count
        acked = self._sent[self._from : end]
        if self._refused:
            # one word would ack what is to be given back
            for delivery in acked:
                self._source.ack(delivery)
        else:
            self._source.ack(acked[-1], multiple=True)
        self._confirmed(acked)
        self.low = number
        self._from = end
        self._compact()

    def _decide_singly(self, decided: ConfirmRange) -> None:
        acked: list[Delivery] = []
        for number in range(decided.first, decided.last + 1):
            delivery = self._sent[self._from + number - self.low - 1]
            self._apart.add(number)
            if decided.acked and number not in self._came_back:
                self._source.ack(delivery)
                acked.append(delivery)
            else:
                self._came_back.discard(number)
                self._refuse(delivery)
        self._confirmed(acked)
        while self._apart and self.low + 1 in self._apart:
            self._apart.remove(self.low + 1)
            self.low += 1
            self._from += 1
        self._compact()

    def _confirmed(self, acked: list[Delivery]) -> None:
        self._late_acks.acked(acked)
        self._tally.confirmed += len(acked)
        if acked:
            self._pause_s = PAUSE_S

    def _refuse(self, delivery: Delivery) -> None:
        self._tally.refused += 1
        if not self._refused:
            self._later(self._pause_s, self.give_back)
            self._pause_s = min(self._pause_s * 2, PAUSE_MAX_S)
        self._refused.append(delivery)

    def _compact(self) -> None:
        if self._from >= _COMPACT_AT or self._from == len(self._sent):
            del self._sent[: self._from]
            self._from = 0
