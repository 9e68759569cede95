"""How long a message asks to be delayed: the header `x-delay`, in milliseconds.

An exchange of type x-delayed-message keeps such a message and routes it by its inner type (`x-delayed-type`) once
due.

Not here: keeping and waking (`broker`); which exchanges delay (`topology`).
"""

from typing import Final

from mypy_extensions import i64

from warren.model.message import Message
from warren.wire.values import Table

DELAY_MS_MAX: Final = 4294967295
"""A longer delay is no delay, as in RabbitMQ's plugin: the message is routed at once."""


def delay_of(message: Message) -> i64:
    """The milliseconds a message asks to wait; 0 if none."""
    return delay_in(message.headers())


def delay_in(headers: Table) -> i64:
    """The delay in a message's headers, a number or its decimal text; 0 if none, below zero, or beyond the maximum."""
    value = headers.get("x-delay")
    delay_ms = 0
    if isinstance(value, bool):
        return 0
    if isinstance(value, int):
        delay_ms = value
    elif isinstance(value, float):
        delay_ms = int(value) if 0.0 < value <= 4294967295.0 else 0
    elif isinstance(value, str):
        delay_ms = int(value) if value.isascii() and value.isdigit() and len(value) < 32 else 0
    return delay_ms if 0 < delay_ms <= DELAY_MS_MAX else 0
