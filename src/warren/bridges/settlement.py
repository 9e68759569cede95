"""Settlement: acks at the source, decided by the confirms of the destination.

Publishes are numbered from 1, in the order of their deliveries. All publishes up to `low` are decided and forgotten;
above it, some may be decided *apart*.

**Acks.** A run of confirms that begins right above `low` settles every delivery up to its last one, so one multiple ack
is enough. Publishes confirmed apart are acked singly.

**Refused** publishes go back to the source. They go all together after a pause, which grows while nothing is confirmed;
otherwise the same messages would circle as fast as both brokers can. A returned publish counts as refused even though
it is confirmed: no queue has it.

**Possible duplicates.** At the end of a run these messages may arrive twice:

- Messages that were published and neither confirmed nor refused.
- If the source was not closed in good order, the latest acks, because an ack has no answer. The source hears acks in
  order, and with a prefetch of P at most P deliveries are unsettled. So once it has delivered n, it has heard the first
  n - P settlements. Any answer of the source proves that it heard everything sent before the question.

The source delivers them again; here they are only logged.

**Poison messages.** A broker refuses some messages by closing the channel, for example a message with a foreign user-id
or one that is too large. It does not say which message, and everything in flight is transferred again. Without a guard,
each run would duplicate all messages in front of the bad one.

So the messages in flight when a channel was closed are *suspects*. The next run publishes that many messages one by
one, each after the one before is decided, which finds the bad message. It stays at the head of the source queue:
nothing overtakes it, and the messages behind it wait until it is removed or the destination accepts it.

A message that cannot be encoded for the destination (its properties do not fit a frame, or its headers nest too deep)
is found at once and treated the same way.

Not here: sending (`bridges.transfer`), delays between runs (`bridges.supervisor`), rates (`warren.admin`).
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final, Protocol

from warren.bridges.host import BridgeLog
from warren.bridges.transfer_options import RewrittenMessage
from warren.client.errors import RETRIABLE_CODES, ChannelClosed, ClientError, ConnectionClosed
from warren.client.machine.deliveries import Delivery, ReturnedMessage
from warren.client.machine.publishes import ConfirmRange, MandatoryPublishes
from warren.errors import WarrenError
from warren.wire.properties import decode_properties

IDS_PER_LINE: Final = 50
PUBLISHING_ID: Final = "x-warren-publishing-id"


class RecentAcks:
    """The latest acks, as many as the source may not have heard.

    Deliveries and settlements are counted, each in the order in which it happened on one channel.
    """

    def __init__(self, prefetch: int) -> None:
        self._prefetch = prefetch
        # how many deliveries the source may have out that it knows to be unsettled
        self._allowed = prefetch
        self._delivered = 0
        self.settled = 0
        # each with the number of settlements at its time
        self._acked: deque[tuple[int, bytes]] = deque()

    def answered(self, asked_at: int) -> None:
        """The source answered `basic.consume`: it has heard the first `asked_at` settlements.

        Deliveries that an earlier consumer left unsettled do not count for this consumer's prefetch.
        """
        self._forget_up_to(asked_at)
        self._allowed = self._prefetch + self._delivered - asked_at

    def delivered(self, last_tag: int) -> None:
        self._delivered = last_tag
        self._forget_up_to(last_tag - self._allowed)

    def gave_up(self, count: int) -> None:
        """That many deliveries were settled otherwise: requeued or dropped."""
        self.settled += count

    def acked(self, deliveries: Sequence[Delivery]) -> None:
        self._acked.extend([(number, each.header_payload) for number, each in enumerate(deliveries, self.settled + 1)])
        self.settled += len(deliveries)

    def possibly_lost(self) -> list[bytes]:
        """The headers of the messages that the source may deliver again."""
        return [header for _, header in self._acked]

    def _forget_up_to(self, number: int) -> None:
        while self._acked and self._acked[0][0] <= number:
            self._acked.popleft()


def message_ids(headers: Iterable[bytes]) -> list[str]:
    """The message ids in these header payloads, where there are any."""
    ids = [_id_of(header) for header in headers]
    return [each for each in ids if each]


def log_possible_duplicates(log: BridgeLog, described: dict[str, object], headers: list[bytes]) -> list[str]:
    """Log the messages that may arrive twice, with their ids where they have one."""
    ids = message_ids(headers)
    counts = {"count": len(headers), "without_id": len(headers) - len(ids)}
    for at in range(0, max(len(ids), 1), IDS_PER_LINE):
        log.warning("bridge.doubted", **described, **counts, message_ids=",".join(ids[at : at + IDS_PER_LINE]))
    return ids


def _id_of(header: bytes) -> str:
    try:
        properties = decode_properties(header, 0, len(header))
    except WarrenError:
        return ""
    if properties.message_id:
        return properties.message_id
    publishing_id = (properties.headers or {}).get(PUBLISHING_ID)
    return publishing_id if isinstance(publishing_id, str) else ""


_STAYS: Final = (
    "it stays at the source, in front of all others, until it is taken out there or the destination takes it"
)


class MessageRefused(ChannelClosed):
    """The destination refuses one known message, or it cannot be encoded for the destination."""


class PoisonMessageGuard:
    """The suspects of one bridge."""

    def __init__(self) -> None:
        # how many messages to publish one by one
        self.suspects = 0

    def decided(self, count: int) -> None:
        """That many messages were accepted or rejected."""
        self.suspects = max(self.suspects - count, 0)

    def closed(self, error: ClientError, undecided: Sequence[Delivery]) -> ClientError:
        """The error that ended the run, with the bad message if it is known; `undecided` messages were in flight."""
        if not isinstance(error, ChannelClosed | ConnectionClosed) or not undecided:
            return error
        if not error.code or error.code in RETRIABLE_CODES:
            # the connection was lost, or the broker stops
            return error
        self.suspects = max(self.suspects, len(undecided))
        if len(undecided) > 1:
            return error
        method = error.method if isinstance(error, ChannelClosed) else ""
        return MessageRefused(_sentence(undecided[0], error), error.code, error.text, method)


def describe_unsendable(delivery: Delivery, trouble: Exception) -> str:
    """A sentence about a message that was not encoded."""
    return f"{_known_as(delivery)}, cannot be sent to the destination: {trouble}"


def unsendable_error(delivery: Delivery, trouble: Exception) -> MessageRefused:
    """The same sentence as an error, for a message that the source still has."""
    return MessageRefused(f"{describe_unsendable(delivery, trouble)}; {_STAYS}")


def _sentence(delivery: Delivery, error: ClientError) -> str:
    return f"the destination refuses {_known_as(delivery)}: {error}; {_STAYS}"


def _known_as(delivery: Delivery) -> str:
    ids = message_ids([delivery.header_payload])
    which = f"message {ids[0]!r}" if ids else "the first message, which has no message id"
    return f"{which}, published to exchange {delivery.exchange!r} with routing key {delivery.routing_key!r}"


UNCERTAIN_IDS_MAX: Final = 50


class BridgeStats:
    """The counters of a bridge over all its runs."""

    def __init__(self) -> None:
        self.delivered = 0
        self.published = 0
        self.confirmed = 0
        # rejected or returned by the destination, and requeued at the source
        self.refused = 0
        # skipped by `rewrite` or not encodable, and acked at the source
        self.dropped = 0
        # published in a run that ended before the outcome was known: the source delivers them again
        self.uncertain = 0
        # the message ids of the latest of these
        self.uncertain_ids: list[str] = []

    def in_doubt(self, count: int, ids: Iterable[str]) -> None:
        self.uncertain += count
        self.uncertain_ids = [*self.uncertain_ids, *ids][-UNCERTAIN_IDS_MAX:]


PAUSE_S: Final = 0.1
PAUSE_MAX_S: Final = 5.0
_COMPACT_AT: Final = 4096


class SourceChannel(Protocol):
    """The channel on which deliveries are settled."""

    def ack(self, delivery: Delivery, *, multiple: bool = False) -> None: ...

    def nack(self, delivery: Delivery, *, multiple: bool = False, requeue: bool = True) -> None: ...


class SourceAcks:
    """The publishes of one transfer that waits for confirms."""

    def __init__(
        self,
        source: SourceChannel,
        stats: BridgeStats,
        late_acks: RecentAcks,
        later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._source = source
        self._stats = stats
        self._late_acks = late_acks
        # calls a function after that many seconds
        self._later = later
        self.low = 0
        # the delivery of publish `low + 1` is at `_from`, and so on
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

    def published(self, made: list[tuple[Delivery, RewrittenMessage]], mandatory: bool) -> None:
        """Deliveries, and the publishes made of them."""
        first_no = self.last_no + 1
        self._sent += [delivery for delivery, _ in made]
        if mandatory:
            for number, (_, (exchange, routing_key, properties, body)) in enumerate(made, first_no):
                self._mandatory.sent(number, (exchange, routing_key, properties, body))

    def undecided(self) -> list[Delivery]:
        ahead = enumerate(islice(self._sent, self._from, None), self.low + 1)
        return [delivery for number, delivery in ahead if number not in self._apart]

    # -- confirms and returns

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
        """Requeue the refused messages at the source."""
        refused, self._refused = self._refused, []
        for delivery in refused:
            self._source.nack(delivery)
        self._late_acks.gave_up(len(refused))

    def _acked_up_to(self, number: int) -> None:
        count = number - self.low
        end = self._from + count
        acked = self._sent[self._from : end]
        if self._refused:
            # a multiple ack would also ack messages that are to be requeued
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
        self._stats.confirmed += len(acked)
        if acked:
            self._pause_s = PAUSE_S

    def _refuse(self, delivery: Delivery) -> None:
        self._stats.refused += 1
        if not self._refused:
            self._later(self._pause_s, self.give_back)
            self._pause_s = min(self._pause_s * 2, PAUSE_MAX_S)
        self._refused.append(delivery)

    def _compact(self) -> None:
        if self._from >= _COMPACT_AT or self._from == len(self._sent):
            del self._sent[: self._from]
            self._from = 0
