"""Messages that came, as slices of what was read.

A `Delivery` has its body and its header frame's payload as bytes, and exchange and routing key as the bytes with which
its method ended. They become text and properties when asked for, each time anew: who asks twice keeps the answer.
Properties that make no sense are a `ConnectionFault` then, and not before: nobody looked.

Not here: how they are cut out of the stream (`machine.input`), what acking one does (`machine.acks`).

Messages that come in several pieces, and what becomes of one that is whole.

Most messages are read in one piece and never become a `PartialContent`.

Not here: the frames (`machine.input`).

Which deliveries of one channel were settled, and the fewest acks that say so.

Delivery tags count from 1 through all consumers of a channel. A delivery is *settled* when it was acked or refused, or
needed neither. An ack waits here until the output is taken, and then goes one of two ways:

- All up to `low` are settled. So those of the waiting acks that are not above it need one `basic.ack` with `multiple`,
  at the highest of them: whatever else it passes is settled.
- An ack above `low` goes singly, because a `multiple` would pass a delivery that is not settled.

The tag of a `multiple` must be one that the broker still waits for. That is why it is the highest *waiting* ack and not
`low` itself, which may have been told before.

Not here: deliveries of a channel with transactions, whose acks go out one by one, as told.
"""

from typing import Final, final

from librt.strings import BytesWriter, read_i64_be
from mypy_extensions import i64

from warren.errors import UNEXPECTED_FRAME, ConnectionFault, InvariantBroken
from warren.wire.field_tables import Table
from warren.wire.frames import write_ack
from warren.wire.methods import Method
from warren.wire.properties import Properties, decode_properties
from warren.wire.property_scan import FIXED_BYTES
from warren.wire.scalars import lossless_text


@final
class Delivery:
    """A message for a consumer, or one that was fetched."""

    def __init__(
        self, channel: int, consumer_tag: str, tag: i64, redelivered: bool, route: bytes, header: bytes, body: bytes
    ) -> None:
        self.channel: int = channel
        # empty for one that was fetched
        self.consumer_tag: str = consumer_tag
        self.delivery_tag: i64 = tag
        self.redelivered: bool = redelivered
        self.body: bytes = body
        # how many were left in the queue when this one was fetched; -1 for one that came to a consumer
        self.messages_left: int = -1
        self._route: bytes = route
        self._header: bytes = header

    @property
    def exchange(self) -> str:
        return exchange_of(self._route)

    @property
    def routing_key(self) -> str:
        return routing_key_of(self._route)

    @property
    def header_payload(self) -> bytes:
        """The payload of the content header frame, undecoded."""
        return self._header

    @property
    def properties(self) -> Properties:
        return decode_properties(self._header, 0, len(self._header))

    @property
    def headers(self) -> Table:
        found = self.properties.headers
        return {} if found is None else found

    def __repr__(self) -> str:
        key = self.routing_key
        return f"<Delivery {self.delivery_tag} of {len(self.body)} bytes from {self.exchange!r} with key {key!r}>"


@final
class ReturnedMessage:
    """A message that came back; `publish_no` is its number if the channel has confirms, else 0."""

    def __init__(self, code: int, text: str, exchange: str, routing_key: str, header: bytes, body: bytes) -> None:
        self.code: int = code
        self.text: str = text
        self.exchange: str = exchange
        self.routing_key: str = routing_key
        self.body: bytes = body
        self.publish_no: int = 0
        self._header: bytes = header

    @property
    def header_payload(self) -> bytes:
        return self._header

    @property
    def properties(self) -> Properties:
        return decode_properties(self._header, 0, len(self._header))

    def __repr__(self) -> str:
        return f"<ReturnedMessage {self.code} {self.text} from {self.exchange!r} with key {self.routing_key!r}>"


def exchange_of(route: bytes) -> str:
    """The first of two short strings; whoever cut them out has checked that they fit."""
    return lossless_text(route[1 : 1 + route[0]])


def routing_key_of(route: bytes) -> str:
    return lossless_text(route[2 + route[0] :])


@final
class ContentMethod:
    """A method that content follows: a delivery in its parts, anything else as it was decoded."""

    def __init__(self, method: Method | None, consumer_tag: bytes, tag: i64, redelivered: bool, route: bytes) -> None:
        self.method: Method | None = method
        self.consumer_tag: bytes = consumer_tag
        self.delivery_tag: i64 = tag
        self.redelivered: bool = redelivered
        # exchange and routing key as two short strings
        self.route: bytes = route


@final
class PartialContent:
    """A message whose frames have not all come."""

    def __init__(self, opening: ContentMethod) -> None:
        self.opening: ContentMethod = opening
        self.header: bytes = b""
        self.missing_bytes: i64 = -1
        self._pieces: list[bytes] = []

    def add_header(self, payload: bytes) -> None:
        if self.missing_bytes >= 0:
            raise ConnectionFault(UNEXPECTED_FRAME, "a second content header")
        if len(payload) < FIXED_BYTES:
            raise ConnectionFault(UNEXPECTED_FRAME, "a content header that is cut short")
        self.header = payload
        self.missing_bytes = read_i64_be(payload, 4)
        if self.missing_bytes < 0:
            raise ConnectionFault(UNEXPECTED_FRAME, "a body beyond measure")

    def add_body(self, payload: bytes) -> None:
        if self.missing_bytes < len(payload):
            raise ConnectionFault(UNEXPECTED_FRAME, "more content than was announced")
        self._pieces.append(payload)
        self.missing_bytes -= len(payload)

    def complete(self) -> bool:
        return self.missing_bytes == 0

    def body(self) -> bytes:
        return b"".join(self._pieces)


ACK: Final[i64] = 80
NACK: Final[i64] = 120
MULTIPLE: Final[i64] = 1
REQUEUE: Final[i64] = 2


@final
class AckLedger:
    """The delivery tags of a channel, from the first to the last that came."""

    def __init__(self) -> None:
        self.last_tag: i64 = 0
        self.low: i64 = 0
        # settled, above `low`; those of them that the broker has not been told
        self._apart: set[int] = set()
        self._apart_untold: list[int] = []
        # the highest ack not above `low` that waits, 0 if none does, and how many do
        self._waiting_tag: i64 = 0
        self._waiting_count: i64 = 0

    def came(self, tag: i64, needs_ack: bool) -> None:
        if tag > self.last_tag:
            self.last_tag = tag
        if not needs_ack:
            self._settle(tag)

    def unsettled(self) -> i64:
        return self.last_tag - self.low - len(self._apart)

    def ack(self, tag: i64, multiple: bool) -> None:
        self._check(tag)
        if multiple:
            # goes out as a multiple, however few it is found to pass
            self._waiting_count += tag - self.low
            self._pass(tag)
            self._wait(tag)
        elif tag == self.low + 1:
            self._settle(tag)
            self._wait(tag)
        else:
            self._settle(tag)
            self._apart_untold.append(int(tag))

    def refuse(self, out: BytesWriter, channel: i64, tag: i64, multiple: bool, requeue: bool) -> None:
        """A nack; those that wait go before it, so that it passes none of them."""
        self._check(tag)
        self.write(out, channel)
        write_ack(out, channel, NACK, tag, (MULTIPLE if multiple else 0) | (REQUEUE if requeue else 0))
        if multiple:
            self._pass(tag)
        else:
            self._settle(tag)

    def forget_all(self) -> None:
        """The broker has taken back everything that was not settled (basic.recover)."""
        self.low = self.last_tag
        self._apart.clear()
        self._apart_untold.clear()
        self._waiting_tag = 0
        self._waiting_count = 0

    def write(self, out: BytesWriter, channel: i64) -> None:
        """Tell everything that waits."""
        if self._apart_untold:
            self._gather()
        if self._waiting_tag:
            write_ack(out, channel, ACK, self._waiting_tag, MULTIPLE if self._waiting_count > 1 else 0)
            self._waiting_tag = 0
            self._waiting_count = 0
        if self._apart_untold:
            for tag in self._apart_untold:
                write_ack(out, channel, ACK, tag, 0)
            self._apart_untold = []

    def waits(self) -> bool:
        return self._waiting_tag != 0 or len(self._apart_untold) > 0

    def check(self) -> None:
        if not 0 <= self.low <= self.last_tag or self._waiting_tag > self.low:
            raise InvariantBroken(f"deliveries up to {self.low} of {self.last_tag} are settled")
        if self._apart and not (self.low + 1 < min(self._apart) and max(self._apart) <= self.last_tag):
            raise InvariantBroken("a delivery is settled apart that is settled anyway, or never came")

    def _check(self, tag: i64) -> None:
        if tag > self.last_tag or tag <= 0:
            raise ValueError(f"delivery {tag} never came")
        if tag <= self.low or int(tag) in self._apart:
            raise ValueError(f"delivery {tag} was settled before")

    def _gather(self) -> None:
        """What was acked out of turn and is not above `low` any more joins those that one `multiple` tells."""
        above: list[int] = []
        for tag in self._apart_untold:
            if tag > self.low:
                above.append(tag)
            else:
                self._wait(max(i64(tag), self._waiting_tag))
        self._apart_untold = above

    def _wait(self, tag: i64) -> None:
        self._waiting_tag = tag
        self._waiting_count += 1

    def _settle(self, tag: i64) -> None:
        if tag != self.low + 1:
            self._apart.add(int(tag))
            return
        self.low = tag
        while self._apart and int(self.low + 1) in self._apart:
            self.low += 1
            self._apart.remove(int(self.low))

    def _pass(self, tag: i64) -> None:
        """Everything up to `tag` is settled by one word, which makes single ones below it needless."""
        if self._apart:
            self._apart = {settled for settled in self._apart if settled > tag}
            self._apart_untold = [untold for untold in self._apart_untold if untold > tag]
        self.low = tag - 1
        self._settle(tag)
