"""One traced message: what the Firehose's copy says of it.

Not here: the copy's making (`session.firehose`), how a record is written (`tracing.text_format`,
`tracing.json_format`).
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

from warren.admin.tracing.typed_fields import Field, Typed, headers_of
from warren.wire.method_stream import Heard
from warren.wire.methods import BasicDeliver

PUBLISHED = "published"
RECEIVED = "received"
CONFIRMED = "confirmed"
ACKED = "acked"
REJECTED = "rejected"
DEAD_LETTERED = "dead_lettered"
_TYPES = {
    "publish": PUBLISHED,
    "deliver": RECEIVED,
    "confirm": CONFIRMED,
    "ack": ACKED,
    "reject": REJECTED,
    "dead": DEAD_LETTERED,
}


@dataclass(frozen=True)
class TraceRecord:
    """Names are octets, as AMQP has them."""

    timestamp: str
    type: str
    node: bytes
    connection: bytes
    vhost: bytes
    user: bytes
    channel: int
    exchange: bytes
    # of any but a message that was published
    queue: bytes
    # of one that was published, or dead-lettered
    routed_queues: list[bytes]
    routing_keys: list[bytes]
    properties: list[Field]
    payload: bytes
    # of one that was received, acked or rejected: whether it had been delivered before
    redelivered: bool
    # of one that was rejected: whether it goes back; of one that was dead-lettered: what it died of
    reason: bytes
    # of one that is held: in which epoch, and by whom
    epoch: int
    nodes: list[bytes]


def record_of(heard: Heard, at_ms: int, payload_bytes_max: int | None) -> TraceRecord:
    """The record of a copy that was delivered at this time."""
    assert isinstance(heard.method, BasicDeliver)
    kind, _dot, subject = heard.method.routing_key.partition(".")
    headers = headers_of(heard.header)
    type_ = _TYPES.get(kind, RECEIVED)
    return TraceRecord(
        timestamp=timestamp_of(at_ms),
        type=type_,
        node=_octets(headers, b"node"),
        connection=_octets(headers, b"connection"),
        vhost=_octets(headers, b"vhost"),
        user=_octets(headers, b"user"),
        channel=_number(headers, b"channel"),
        exchange=_octets(headers, b"exchange_name"),
        queue=b"" if type_ == PUBLISHED else subject.encode("utf-8", "surrogateescape"),
        routed_queues=_names(headers, b"routed_queues"),
        routing_keys=_names(headers, b"routing_keys"),
        properties=cast(list[Field], headers[b"properties"].value) if b"properties" in headers else [],
        payload=heard.body if payload_bytes_max is None else heard.body[:payload_bytes_max],
        redelivered=_number(headers, b"redelivered") != 0,
        reason=_octets(headers, b"reason"),
        epoch=_number(headers, b"epoch"),
        nodes=_names(headers, b"nodes"),
    )


def timestamp_of(at_ms: int) -> str:
    """As RFC 3339 has it, in UTC, to the millisecond."""
    at = datetime.fromtimestamp(at_ms // 1000, UTC).replace(microsecond=at_ms % 1000 * 1000)
    return at.isoformat(timespec="milliseconds")


def _number(headers: dict[bytes, Typed], name: bytes) -> int:
    return cast(int, headers[name].value) if name in headers else 0


def _octets(headers: dict[bytes, Typed], name: bytes) -> bytes:
    return cast(bytes, headers[name].value) if name in headers else b""


def _names(headers: dict[bytes, Typed], name: bytes) -> list[bytes]:
    items = cast(list[Typed], headers[name].value) if name in headers else []
    return [cast(bytes, item.value) for item in items]
