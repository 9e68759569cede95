"""A record as one line of JSON: the fields of RabbitMQ's tracing plugin, and the version of this schema.

Each field has one type, whatever the record, so that whoever reads many lines needs one schema for all of them:
`routed_queues` is always an array, where RabbitMQ writes the text `none` for messages that were received. Octets that
are not UTF-8 become a text that begins with `Not UTF-8, base64 is: `, as RabbitMQ writes them in headers. The payload
is in base64 always.

docs/tracing.md describes every field. Whoever changes what a field is called, is, or means, raises `SCHEMA_VERSION`
there and here; a further field does not change the version.

Not here: text (`tracing.text_format`).
"""

import base64
import math
from typing import Any, cast

from warren.admin.http.answers import to_json
from warren.admin.tracing.records import PUBLISHED, TraceRecord
from warren.admin.tracing.typed_fields import Field, Typed

SCHEMA_VERSION = 1
NO_QUEUE = "none"
NOT_TEXT = "Not UTF-8, base64 is: "


def json_of(record: TraceRecord) -> bytes:
    return to_json(document_of(record)) + b"\n"


def document_of(record: TraceRecord) -> dict[str, Any]:
    return {
        "channel": record.channel,
        "connection": _text(record.connection),
        "epoch": record.epoch,
        "exchange": _text(record.exchange),
        "node": _text(record.node),
        "nodes": [_text(name) for name in record.nodes],
        "payload": base64.b64encode(record.payload).decode(),
        "properties": _table(record.properties),
        "queue": NO_QUEUE if record.type == PUBLISHED else _text(record.queue),
        "reason": _text(record.reason),
        "redelivered": record.redelivered,
        "routed_queues": [_text(name) for name in record.routed_queues],
        "routing_keys": [_text(key) for key in record.routing_keys],
        "schema_version": SCHEMA_VERSION,
        "timestamp": record.timestamp,
        "type": record.type,
        "user": _text(record.user),
        "vhost": _text(record.vhost),
    }


def _text(octets: bytes) -> str:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return NOT_TEXT + base64.b64encode(octets).decode()


def _table(fields: list[Field]) -> dict[str, Any]:
    return {_text(field.name): _value(field.content) for field in fields}


def _value(content: Typed) -> Any:
    value = content.value
    if isinstance(value, list):
        if content.type == "table":
            return _table(cast(list[Field], value))
        return [_value(item) for item in cast(list[Typed], value)]
    if isinstance(value, bytes):
        return _text(value)
    if isinstance(value, tuple):
        scale, digits = value
        return digits / 10**scale
    if value is None:
        return "undefined"
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
