"""The properties of a message as JSON text, so that a person can read them in the table and any language write them.

What JSON has no word for is an object with one name that begins with `$`:

| value                   | text                              |
|-------------------------|-----------------------------------|
| bytes                   | `{"$bytes": "aGVsbG8="}`          |
| `Decimal`               | `{"$decimal": "12.50"}`           |
| `Timestamp`             | `{"$timestamp": 1767225600}`      |
| `Long`                  | `{"$long": 7}`                    |
| a table that looks so   | `{"$table": {"$bytes": "plain"}}` |

Invariants: what is read is what was written; what AMQP could not carry is a `CannotConvert` before it is written.

Not here: `message_id`, which is the row's `business_id`, and the headers that the relay adds (`outbox.publishing`).
"""

import base64
from collections.abc import Callable
from decimal import Decimal

import orjson

from warren.client.errors import CannotConvert
from warren.wire.properties import Properties, encode_header_payload
from warren.wire.values import Long, Table, Timestamp


def properties_text(properties: Properties) -> str:
    """All that are present, but the `message_id`."""
    present = {name: value for name, value in properties.fields() if value is not None}
    present.pop("message_id", None)
    try:
        encode_header_payload(properties, 0)
        if properties.headers is not None:
            present["headers"] = {name: _plain(value) for name, value in properties.headers.items()}
        return orjson.dumps(present).decode()
    except (TypeError, ValueError) as trouble:
        raise CannotConvert(f"the message's properties cannot be sent: {trouble}") from trouble


def stored_properties(text: str) -> Properties:
    """What was written; a `CannotConvert` if somebody else wrote something else."""
    try:
        found = orjson.loads(text)
        headers = found.pop("headers", {})
        properties = Properties(**found, headers={name: _value(plain) for name, plain in headers.items()})
        encode_header_payload(properties, 0)
    except (AttributeError, TypeError, ValueError, ArithmeticError) as trouble:
        raise CannotConvert(f"the row's properties cannot be read: {trouble}") from trouble
    return properties


def _plain(value: object) -> object:
    if isinstance(value, dict):
        plain: Table = {name: _plain(inner) for name, inner in value.items()}
        return {"$table": plain} if _looks_marked(plain) else plain
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    for kind, mark, write in WRITTEN:
        if isinstance(value, kind):
            return {mark: write(value)}
    return value


def _value(plain: object) -> object:
    if isinstance(plain, list):
        return [_value(inner) for inner in plain]
    if not isinstance(plain, dict):
        return plain
    if not _looks_marked(plain):
        return {name: _value(inner) for name, inner in plain.items()}
    [(mark, inner)] = plain.items()
    if mark not in READ:
        raise ValueError(f"{mark} marks no kind of value")
    return READ[mark](inner)


def _looks_marked(table: Table) -> bool:
    return len(table) == 1 and next(iter(table)).startswith("$")


def _table(inner: Table) -> Table:
    return {name: _value(each) for name, each in inner.items()}


WRITTEN: tuple[tuple[type, str, Callable[..., object]], ...] = (
    (bytes, "$bytes", lambda value: base64.b64encode(value).decode()),
    (Decimal, "$decimal", str),
    (Timestamp, "$timestamp", lambda value: value.seconds),
    (Long, "$long", lambda value: value.value),
)

READ: dict[str, Callable[..., object]] = {
    "$bytes": base64.b64decode,
    "$decimal": Decimal,
    "$timestamp": Timestamp,
    "$long": Long,
    "$table": _table,
}
