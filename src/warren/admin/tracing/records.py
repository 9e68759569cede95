"""One traced message, read from the Firehose's copy of it.

A trace shows the message as it was on the wire, so headers keep the type of every field, the width of integers and the
bytes of strings. The tables come from the broker, which has validated them.

Not here: making the copy (`broker.sessions.firehose`), writing a record (`tracing.formats`), tables as Python values
(`wire.field_tables`).
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

from warren.wire.method_stream import ReceivedMethod
from warren.wire.methods import BasicDeliver
from warren.wire.property_scan import PropertyScan

Value = bytes | int | float | None | tuple[int, int] | list["TypedField"] | list["TypedValue"]


@dataclass(frozen=True)
class TypedValue:
    """A value with RabbitMQ's name for its type. A decimal is its scale and its digits."""

    type: str
    value: Value


@dataclass(frozen=True)
class TypedField:
    """A named value in a table."""

    name: bytes
    content: TypedValue


_FIXED: dict[int, tuple[str, struct.Struct]] = {
    ord("t"): ("bool", struct.Struct(">?")),
    ord("b"): ("byte", struct.Struct(">b")),
    ord("B"): ("unsignedbyte", struct.Struct(">B")),
    ord("s"): ("short", struct.Struct(">h")),
    ord("u"): ("unsignedshort", struct.Struct(">H")),
    ord("I"): ("signedint", struct.Struct(">i")),
    ord("i"): ("unsignedint", struct.Struct(">I")),
    ord("l"): ("long", struct.Struct(">q")),
    ord("L"): ("long", struct.Struct(">q")),
    ord("f"): ("float", struct.Struct(">f")),
    ord("d"): ("double", struct.Struct(">d")),
    ord("T"): ("timestamp", struct.Struct(">Q")),
}
_DECIMAL = struct.Struct(">BI")
_SIZE = struct.Struct(">I")


def headers_of(header: bytes) -> dict[bytes, TypedValue]:
    """The headers in the payload of a content header frame."""
    scan = PropertyScan()
    scan.scan(header, 0, len(header))
    return {field.name: field.content for field in _table(header, scan.headers_start, scan.headers_end)}


def _table(data: bytes, at: int, end: int) -> list[TypedField]:
    fields: list[TypedField] = []
    while at < end:
        name_end = at + 1 + data[at]
        content, after = _value(data, name_end)
        fields.append(TypedField(data[at + 1 : name_end], content))
        at = after
    return fields


def _array(data: bytes, at: int, end: int) -> list[TypedValue]:
    items: list[TypedValue] = []
    while at < end:
        item, at = _value(data, at)
        items.append(item)
    return items


def _long_string(data: bytes, at: int, end: int) -> bytes:
    return data[at:end]


_SIZED: dict[int, tuple[str, Callable[[bytes, int, int], Value]]] = {
    ord("S"): ("longstr", _long_string),
    ord("x"): ("binary", _long_string),
    ord("F"): ("table", _table),
    ord("A"): ("array", _array),
}


def _value(data: bytes, at: int) -> tuple[TypedValue, int]:
    """The value whose type byte is at `at`, and the position after it."""
    kind = data[at]
    at += 1
    if kind in _SIZED:
        type_name, read = _SIZED[kind]
        start = at + _SIZE.size
        end = start + _SIZE.unpack_from(data, at)[0]
        return TypedValue(type_name, read(data, start, end)), end
    if kind == ord("V"):
        return TypedValue("void", None), at
    if kind == ord("D"):
        return TypedValue("decimal", _DECIMAL.unpack_from(data, at)), at + _DECIMAL.size
    type_name, shape = _FIXED[kind]
    return TypedValue(type_name, shape.unpack_from(data, at)[0]), at + shape.size


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
    """One record. Names are bytes, as in AMQP."""

    timestamp: str
    type: str
    node: bytes
    connection: bytes
    vhost: bytes
    user: bytes
    channel: int
    exchange: bytes
    # empty for a published message
    queue: bytes
    # of a published or dead-lettered message
    routed_queues: list[bytes]
    routing_keys: list[bytes]
    properties: list[TypedField]
    payload: bytes
    # of a received, acked or rejected message
    redelivered: bool
    # of a rejected message: whether it is requeued; of a dead-lettered message: why
    reason: bytes
    # of a held publish: the epoch and the node
    epoch: int
    nodes: list[bytes]


def record_of(received: ReceivedMethod, at_ms: int, payload_bytes_max: int | None) -> TraceRecord:
    """The record of a copy that was delivered at this time."""
    assert isinstance(received.method, BasicDeliver)
    kind, _dot, subject = received.method.routing_key.partition(".")
    headers = headers_of(received.header)
    type_ = _TYPES.get(kind, RECEIVED)
    return TraceRecord(
        timestamp=timestamp_of(at_ms),
        type=type_,
        node=_as_octets(headers, b"node"),
        connection=_as_octets(headers, b"connection"),
        vhost=_as_octets(headers, b"vhost"),
        user=_as_octets(headers, b"user"),
        channel=_number(headers, b"channel"),
        exchange=_as_octets(headers, b"exchange_name"),
        queue=b"" if type_ == PUBLISHED else subject.encode("utf-8", "surrogateescape"),
        routed_queues=_names(headers, b"routed_queues"),
        routing_keys=_names(headers, b"routing_keys"),
        properties=cast(list[TypedField], headers[b"properties"].value) if b"properties" in headers else [],
        payload=received.body if payload_bytes_max is None else received.body[:payload_bytes_max],
        redelivered=_number(headers, b"redelivered") != 0,
        reason=_as_octets(headers, b"reason"),
        epoch=_number(headers, b"epoch"),
        nodes=_names(headers, b"nodes"),
    )


def timestamp_of(at_ms: int) -> str:
    """RFC 3339, UTC, with milliseconds."""
    at = datetime.fromtimestamp(at_ms // 1000, UTC).replace(microsecond=at_ms % 1000 * 1000)
    return at.isoformat(timespec="milliseconds")


def _number(headers: dict[bytes, TypedValue], name: bytes) -> int:
    return cast(int, headers[name].value) if name in headers else 0


def _as_octets(headers: dict[bytes, TypedValue], name: bytes) -> bytes:
    return cast(bytes, headers[name].value) if name in headers else b""


def _names(headers: dict[bytes, TypedValue], name: bytes) -> list[bytes]:
    items = cast(list[TypedValue], headers[name].value) if name in headers else []
    return [cast(bytes, item.value) for item in items]
