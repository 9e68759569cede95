"""Deliveries, returned messages, and the acks of one channel.

A `Delivery` keeps slices of the bytes read: the body, the payload of the header frame, and the exchange and routing key
from the end of the method. Text and properties are decoded at each access, so a caller that needs them twice keeps the
result. Malformed properties raise a `ConnectionFault` at that access.

Most messages arrive in one read. A message that arrives in several reads is a `PartialContent` until it is complete.

`AckLedger` sends the fewest acks. Delivery tags count from 1 over all consumers of a channel. A delivery is *settled*
when it was acked or nacked, or needs no ack. An ack waits until the output is taken:

- All deliveries up to `low` are settled. So the waiting acks up to `low` become one `basic.ack` with `multiple`, at the
  highest of them.
- An ack above `low` is sent alone, because a `multiple` would cover a delivery that is not settled.

The tag of a `multiple` must be one that the broker still waits for. Therefore it is the highest *waiting* ack and not
`low`, which may have been sent before.

Not here: frames (`machine.connection`); acks of a channel with transactions, which are written one by one.
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
    """A message for a consumer, or the answer to basic.get."""

    def __init__(
        self, channel: int, consumer_tag: str, tag: i64, redelivered: bool, route: bytes, header: bytes, body: bytes
    ) -> None:
        self.channel: int = channel
        # empty after basic.get
        self.consumer_tag: str = consumer_tag
        self.delivery_tag: i64 = tag
        self.redelivered: bool = redelivered
        self.body: bytes = body
        # the messages left in the queue after basic.get; -1 for a consumer
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
    """A message returned by the broker; `publish_no` is its number if the channel has confirms, else 0."""

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
    """The first of two short strings. The caller has checked that both fit."""
    return lossless_text(route[1 : 1 + route[0]])


def routing_key_of(route: bytes) -> str:
    return lossless_text(route[2 + route[0] :])


@final
class ContentMethod:
    """A method with content: the fields of a delivery, or another method decoded."""

    def __init__(self, method: Method | None, consumer_tag: bytes, tag: i64, redelivered: bool, route: bytes) -> None:
        self.method: Method | None = method
        self.consumer_tag: bytes = consumer_tag
        self.delivery_tag: i64 = tag
        self.redelivered: bool = redelivered
        # exchange and routing key as two short strings
        self.route: bytes = route


@final
class PartialContent:
    """A message with frames still to come."""

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
    """The delivery tags of a channel, and the acks that wait for the next output."""

    def __init__(self) -> None:
        self.last_tag: i64 = 0
        self.low: i64 = 0
        # settled above `low`; those of them whose ack has not been sent
        self._apart: set[int] = set()
        self._apart_unsent: list[int] = []
        # the highest waiting ack up to `low` (0 for none), and how many wait
        self._waiting_tag: i64 = 0
        self._waiting_count: i64 = 0

    def record_delivery(self, tag: i64, needs_ack: bool) -> None:
        if tag > self.last_tag:
            self.last_tag = tag
        if not needs_ack:
            self._settle(tag)

    def unsettled(self) -> i64:
        return self.last_tag - self.low - len(self._apart)

    def ack(self, tag: i64, multiple: bool) -> None:
        self._check(tag)
        if multiple:
            # sent as a multiple even if it covers one delivery
            self._waiting_count += tag - self.low
            self._pass(tag)
            self._wait(tag)
        elif tag == self.low + 1:
            self._settle(tag)
            self._wait(tag)
        else:
            self._settle(tag)
            self._apart_unsent.append(int(tag))

    def refuse(self, out: BytesWriter, channel: i64, tag: i64, multiple: bool, requeue: bool) -> None:
        """Write a nack, after the acks that wait, so that a multiple nack does not cover them."""
        self._check(tag)
        self.write(out, channel)
        write_ack(out, channel, NACK, tag, (MULTIPLE if multiple else 0) | (REQUEUE if requeue else 0))
        if multiple:
            self._pass(tag)
        else:
            self._settle(tag)

    def forget_all(self) -> None:
        """The broker requeued all unsettled deliveries (basic.recover)."""
        self.low = self.last_tag
        self._apart.clear()
        self._apart_unsent.clear()
        self._waiting_tag = 0
        self._waiting_count = 0

    def write(self, out: BytesWriter, channel: i64) -> None:
        """Write all acks that wait."""
        if self._apart_unsent:
            self._gather()
        if self._waiting_tag:
            write_ack(out, channel, ACK, self._waiting_tag, MULTIPLE if self._waiting_count > 1 else 0)
            self._waiting_tag = 0
            self._waiting_count = 0
        if self._apart_unsent:
            for tag in self._apart_unsent:
                write_ack(out, channel, ACK, tag, 0)
            self._apart_unsent = []

    def waits(self) -> bool:
        return self._waiting_tag != 0 or len(self._apart_unsent) > 0

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
        """Move waiting single acks that are no longer above `low` to the `multiple`."""
        above: list[int] = []
        for tag in self._apart_unsent:
            if tag > self.low:
                above.append(tag)
            else:
                self._wait(max(i64(tag), self._waiting_tag))
        self._apart_unsent = above

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
        """Settle everything up to `tag` at once; waiting single acks below it are not needed."""
        if self._apart:
            self._apart = {settled for settled in self._apart if settled > tag}
            self._apart_unsent = [unsent for unsent in self._apart_unsent if unsent > tag]
        self.low = tag - 1
        self._settle(tag)
