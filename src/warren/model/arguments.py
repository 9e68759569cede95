"""Values of declare and consume arguments, as RabbitMQ names and prints them in its replies.

Not here: which arguments a queue knows (`queue.settings`), an exchange (`session.exchange_arguments`).
"""

from decimal import Decimal

from warren.errors import PRECONDITION_FAILED, ChannelFault
from warren.wire.values import Table, Timestamp


def type_name(value: object) -> str:
    """RabbitMQ's word for the type of a field value."""
    if value is None:
        return "void"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "signedint" if -(2**31) <= value < 2**31 else "long"
    if isinstance(value, float):
        return "double"
    if isinstance(value, str):
        return "longstr"
    if isinstance(value, bytes):
        return "binary"
    if isinstance(value, list):
        return "array"
    if isinstance(value, dict):
        return "table"
    if isinstance(value, Timestamp):
        return "timestamp"
    assert isinstance(value, Decimal)
    return "decimal"


def shown(value: object) -> str:
    """A field value in a reply text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def check_same_argument(name: str, where: str, current: Table, received: Table) -> None:
    """Whether a redeclared argument equals the one in force; integers of any width are alike."""
    has_current, has_received = name in current, name in received
    if not has_current and not has_received:
        return
    now, given = current.get(name), received.get(name)
    if has_current and has_received:
        if now == given and isinstance(now, bool) == isinstance(given, bool):
            return
        raise inequivalent(name, where, f"'{shown(given)}'", f"'{shown(now)}'")
    raise inequivalent(name, where, _described(given, has_received), _described(now, has_current))


def inequivalent(name: str, where: str, received: str, current: str) -> ChannelFault:
    text = f"inequivalent arg '{name}' for {where}: received {received} but current is {current}"
    return ChannelFault(PRECONDITION_FAILED, text)


def _described(value: object, present: bool) -> str:
    return f"the value '{shown(value)}' of type '{type_name(value)}'" if present else "none"
