"""What a session may ask of a stream, and in which words RabbitMQ refuses the rest; what members of groups are called.

Not here: where a reader begins, and what else its arguments say (`stream`).
"""

from typing import Final

from mypy_extensions import i64

from warren.errors import NOT_IMPLEMENTED, PRECONDITION_FAILED, ChannelFault, ConnectionFault
from warren.model.ports import QueuePort
from warren.session.ports import NodePort
from warren.stream.groups import GROUP, MEMBER
from warren.stream.offsets import OFFSET_ARGUMENT
from warren.stream.readers.chunks import BODIES_ARGUMENT, CHUNKS_ARGUMENT
from warren.stream.readers.opening import NAME_ARGUMENT
from warren.stream.readers.probe import PROBE_ARGUMENT
from warren.stream.readers.wish import FILTER_ARGUMENT, UNFILTERED_ARGUMENT
from warren.wire.values import Table

BOOLEANS: Final = (CHUNKS_ARGUMENT, BODIES_ARGUMENT, PROBE_ARGUMENT, UNFILTERED_ARGUMENT)
STRINGS: Final = (GROUP, MEMBER, NAME_ARGUMENT)
OF_STREAMS: Final = (OFFSET_ARGUMENT, CHUNKS_ARGUMENT, PROBE_ARGUMENT)
"""Whoever says one of these to another queue waits for an answer that never comes, or takes messages for one."""


def checked_reader(queue: QueuePort, no_ack: bool, prefetch: i64, arguments: Table) -> i64:
    """The priority of whoever wants to read, which is none; a fault if it cannot read like that."""
    where = f"queue '{queue.name}' in vhost '{queue.vhost}'"
    for name in ("x-priority", "x-cancel-on-ha-failover"):
        if name in arguments:
            text = f"invalid arg '{name}' for {where} of queue type rabbit_stream_queue"
            raise ChannelFault(PRECONDITION_FAILED, text)
    _check_types(where, arguments)
    if no_ack:
        raise unsupported("automatic acknowledgement", queue)
    # a limit for the whole channel does not count: what others take would hold the reader up
    if prefetch == 0:
        raise ChannelFault(PRECONDITION_FAILED, f"consumer prefetch count is not set for '{where}'")
    return 0


def _check_types(where: str, arguments: Table) -> None:
    """Raise a `ChannelFault` if an argument is of a type that would have it overlooked."""
    reason = ""
    for name, value in arguments.items():
        if value is None:
            continue
        if name in BOOLEANS and not isinstance(value, bool):
            reason = "not a boolean"
        elif name in STRINGS and not isinstance(value, str):
            reason = "not a string"
        elif name == FILTER_ARGUMENT and not _are_strings(value):
            reason = "neither a string nor a list of strings"
        if reason:
            raise ChannelFault(PRECONDITION_FAILED, f"invalid arg '{name}' for {where}: {reason}")


def _are_strings(value: object) -> bool:
    values = value if isinstance(value, list) else [value]
    return all(isinstance(one, str) for one in values)


def member_arguments(node: NodePort, tag: str, arguments: Table) -> Table:
    """Those of a reader; if it names a group and not itself, with a name that no other member of the group has."""
    if GROUP not in arguments or MEMBER in arguments:
        return arguments
    named: Table = dict(arguments)
    named[MEMBER] = node.fresh_name(f"{tag}-")
    return named


def gets_messages(arguments: Table) -> bool:
    """Whether a reader is given messages, and not chunks of many, or an answer about the stream."""
    return arguments.get(CHUNKS_ARGUMENT) is not True and arguments.get(PROBE_ARGUMENT) is not True


def unsupported(what: str, queue: QueuePort) -> ConnectionFault:
    text = f"{what} not supported by stream queues queue '{queue.name}' in vhost '{queue.vhost}'"
    return ConnectionFault(NOT_IMPLEMENTED, text)
