"""Messages that came, as slices of what was read.

A `Delivery` has its body and its header frame's payload as bytes, and exchange and routing key as the bytes with which
its method ended. They become text and properties when asked for, each time anew: who asks twice keeps the answer.
Properties that make no sense are a `ConnectionFault` then, and not before: nobody looked.

Not here: how they are cut out of the stream (`machine.input`), what acking one does (`machine.acks`).
"""

from typing import final

from mypy_extensions import i64

from warren.wire.properties import Properties, decode_properties
from warren.wire.scalars import lossless_text
from warren.wire.values import Table


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
