"""AMQP tables as JSON: arguments of queues, exchanges, bindings and consumers, properties of clients.

Most tables hold texts, numbers and truths only, and are shown as they are.

Not here: the way back, from JSON to tables.
"""

from decimal import Decimal
from typing import Any

from warren.wire.values import Long, Table, Timestamp

_PLAIN = (str, int, float)


def plain(table: Table) -> dict[str, Any]:
    for value in table.values():
        if not isinstance(value, _PLAIN):
            return {name: _plain(item) for name, item in table.items()}
    return table


def _plain(value: object) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, Timestamp):
        return value.seconds
    if isinstance(value, Long):
        return value.value
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return value
