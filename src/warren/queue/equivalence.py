"""Whether declaring a queue that exists asks for the queue that exists.

`exclusive` is compared first, then `durable` and `auto_delete`, then the arguments that the queue's type knows;
what it does not know is ignored. Values are compared, not their widths: 5000 in 16 bits is 5000 in 64. Not given at
all and given as nothing differ in the wording only.

Not here: whether arguments are acceptable at all (`queue.arguments`); a redeclaration is only compared.
"""

from decimal import Decimal
from typing import Final

from warren.errors import PRECONDITION_FAILED, RESOURCE_LOCKED, ChannelFault
from warren.model.ports import QueuePort
from warren.queue.arguments import CLASSIC_ARGUMENTS, QUORUM_ARGUMENTS, type_name, type_of
from warren.wire.values import Table, Timestamp

COMPARED_FIRST: Final = "x-queue-type"


def check_equivalent(queue: QueuePort, durable: bool, exclusive: bool, auto_delete: bool, arguments: Table) -> None:
    """Raise the `ChannelFault` RabbitMQ would, for the first thing that differs."""
    where = f"queue '{queue.name}' in vhost '{queue.vhost}'"
    if exclusive != queue.exclusive:
        raise locked(queue)
    _compare_flag("durable", durable, queue.durable, where)
    _compare_flag("auto_delete", auto_delete, queue.auto_delete, where)
    if not arguments and not queue.arguments:
        return
    if arguments.get(COMPARED_FIRST, "classic") != queue.arguments.get(COMPARED_FIRST, "classic"):
        _compare(COMPARED_FIRST, arguments, queue.arguments, where)
    known = QUORUM_ARGUMENTS if type_of(queue.arguments) == "quorum" else CLASSIC_ARGUMENTS
    for name in known:
        if name != COMPARED_FIRST:
            _compare(name, arguments, queue.arguments, where)


def locked(queue: QueuePort) -> ChannelFault:
    """What a connection is told that touches an exclusive queue of another one, or mistakes one for the other."""
    return ChannelFault(
        RESOURCE_LOCKED,
        f"cannot obtain exclusive access to locked queue '{queue.name}' in vhost '{queue.vhost}'. It could be "
        "originally declared on another connection or the exclusive property value does not match "
        "that of the original declaration.",
    )


def _compare_flag(name: str, received: bool, current: bool, where: str) -> None:
    if received != current:
        raise _inequivalent(name, where, f"'{term(received)}'", f"'{term(current)}'")


def _compare(name: str, received: Table, current: Table, where: str) -> None:
    if name not in received and name not in current:
        return
    if name not in received:
        raise _inequivalent(name, where, "none", _value_and_type(current[name]))
    if name not in current:
        raise _inequivalent(name, where, _value_and_type(received[name]), "none")
    if not _same(received[name], current[name]):
        raise _inequivalent(name, where, _quoted(received[name]), _quoted(current[name]))


def _inequivalent(name: str, where: str, received: str, current: str) -> ChannelFault:
    text = f"inequivalent arg '{name}' for {where}: received {received} but current is {current}"
    return ChannelFault(PRECONDITION_FAILED, text)


def _value_and_type(value: object) -> str:
    return f"the value '{term(value)}' of type '{type_name(value)}'"


def _quoted(value: object) -> str:
    return "none" if value is None else f"'{term(value)}'"


def _same(one: object, other: object) -> bool:
    # a timestamp is a number to RabbitMQ, a byte array a string, and true is never 1
    one, other = _bare(one), _bare(other)
    return isinstance(one, bool) == isinstance(other, bool) and type(one) is type(other) and one == other


def _bare(value: object) -> object:
    if isinstance(value, Timestamp):
        return value.seconds
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return value


def term(value: object) -> str:
    """A value in Erlang's notation, as RabbitMQ prints it into a sentence."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, Timestamp):
        return str(value.seconds)
    if isinstance(value, Decimal):
        sign, digits, exponent = value.as_tuple()
        unscaled = "".join([str(digit) for digit in digits])
        return f"{{{-int(exponent)},{'-' if sign else ''}{unscaled}}}"
    if isinstance(value, list):
        return "[" + ",".join([f"{{{type_name(item)},{_inner(item)}}}" for item in value]) + "]"
    if isinstance(value, dict):
        fields = [f'{{<<"{name}">>,{type_name(item)},{_inner(item)}}}' for name, item in value.items()]
        return "[" + ",".join(fields) + "]"
    return str(value)


def _inner(value: object) -> str:
    return f'<<"{value}">>' if isinstance(value, str) else term(value)
