"""Checks that a redeclared queue or exchange has the same flags and arguments as the existing one.

Values are compared, not their types' widths: 5000 in 16 bits equals 5000 in 64. An absent argument and a void one
differ only in the text of the fault.

Not here: which arguments are compared (`broker.queues.arguments`, `broker.sessions.declares`).
"""

from warren.broker.model.erlang_terms import printed_value, type_name
from warren.errors import PRECONDITION_FAILED, ChannelFault
from warren.wire.field_tables import Table, Timestamp


def compare_flag(name: str, received: bool, current: bool, where: str) -> None:
    if received != current:
        raise inequivalent(name, where, quoted(received), quoted(current))


def compare_argument(name: str, received: Table, current: Table, where: str) -> None:
    """Raise RabbitMQ's `ChannelFault` if the argument differs."""
    if name not in received and name not in current:
        return
    if name not in received:
        raise inequivalent(name, where, "none", _value_and_type(current[name]))
    if name not in current:
        raise inequivalent(name, where, _value_and_type(received[name]), "none")
    if not _same(received[name], current[name]):
        raise inequivalent(name, where, quoted(received[name]), quoted(current[name]))


def inequivalent(name: str, where: str, received: str, current: str) -> ChannelFault:
    text = f"inequivalent arg '{name}' for {where}: received {received} but current is {current}"
    return ChannelFault(PRECONDITION_FAILED, text)


def quoted(value: object) -> str:
    return "none" if value is None else f"'{printed_value(value)}'"


def _value_and_type(value: object) -> str:
    return f"the value '{printed_value(value)}' of type '{type_name(value)}'"


def _same(one: object, other: object) -> bool:
    # to RabbitMQ a timestamp is a number, a byte array is a string, and true is not 1
    one, other = _bare(one), _bare(other)
    return isinstance(one, bool) == isinstance(other, bool) and type(one) is type(other) and one == other


def _bare(value: object) -> object:
    if isinstance(value, Timestamp):
        return value.seconds
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return value
