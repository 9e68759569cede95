"""Partitioned streams: one logical name, and streams behind it among which a hash of the routing key chooses.

    orders          x-stream-partitions: 3     a name: bindings lead to it, clients consume it, it holds nothing
    orders-0 .. -2  x-stream-partition-of      streams like any others, each with a home of its own

Messages with one routing key are in one partition, so their order is kept. A partition is told apart from a stream
that only has such a name by the argument that the broker gives it, and no client may.

Not here: what stands for the logical name (`stream.partitioning`), who reads which partition (`broker.streams.groups`).
"""

from typing import Final
from zlib import crc32

from warren.broker.model.erlang_terms import type_name
from warren.broker.model.ports import QueuePort
from warren.errors import PRECONDITION_FAILED, ChannelFault
from warren.wire.field_tables import Table

PARTITIONS: Final = "x-stream-partitions"
PARTITION_OF: Final = "x-stream-partition-of"
PARTITION_HEADER: Final = "x-stream-partition"
PARTITIONS_MAX: Final = 1000
NAME_OCTETS_MAX: Final = 255


def partitions_refusal(value: object, arguments: Table) -> str:
    """Why a stream cannot have so many partitions; empty if it can."""
    if isinstance(value, bool) or not isinstance(value, int):
        return f'"expected integer, got {type_name(value)}"'
    return "" if 1 <= value <= PARTITIONS_MAX else f'"expected 1 to {PARTITIONS_MAX} partitions, got {value}"'


def partition_count(arguments: Table) -> int:
    """How many partitions the logical name with these arguments has; 0 if it is a queue like any other."""
    count = arguments.get(PARTITIONS)
    return count if isinstance(count, int) and arguments.get("x-queue-type") == "stream" else 0


def logical_name(arguments: Table) -> str:
    """Whose partition the stream with these arguments is; empty if it is none."""
    name = arguments.get(PARTITION_OF)
    return name if isinstance(name, str) else ""


def partition_name(name: str, index: int) -> str:
    return f"{name}-{index}"


def partition_names(name: str, arguments: Table) -> list[str]:
    return [partition_name(name, index) for index in range(partition_count(arguments))]


def partition_index(queue: QueuePort) -> int:
    """Which one of its logical name's partitions a stream is; -1 if it is none."""
    logical = logical_name(queue.arguments)
    return int(queue.name[len(logical) + 1 :]) if logical else -1


def partition_arguments(name: str, arguments: Table) -> Table:
    """What each partition of that name is declared with."""
    own: Table = {key: arguments[key] for key in arguments if key != PARTITIONS}
    own[PARTITION_OF] = name
    return own


def index_for(routing_key: str, count: int) -> int:
    """The partition of everything that is published with this key."""
    return crc32(routing_key.encode("utf-8", "surrogateescape")) % count


def check_partition_names(name: str, vhost: str, arguments: Table, queues: dict[str, QueuePort]) -> None:
    """Raise a `ChannelFault` if a partition's name is too long, or is taken by a queue that is none."""
    names = partition_names(name, arguments)
    where = f"queue '{name}' in vhost '{vhost}'"
    if names and len(names[-1].encode("utf-8", "surrogateescape")) > NAME_OCTETS_MAX:
        reason = f"the names of its partitions are longer than {NAME_OCTETS_MAX} bytes"
        raise ChannelFault(PRECONDITION_FAILED, f"invalid arg '{PARTITIONS}' for {where}: {reason}")
    for taken in names:
        queue = queues.get(taken)
        if queue is not None and logical_name(queue.arguments) != name:
            text = f"cannot make the partitions of {where}: there is a queue '{taken}' already"
            raise ChannelFault(PRECONDITION_FAILED, text)


def check_not_a_partition(queue: QueuePort, queues: dict[str, QueuePort]) -> None:
    """Raise a `ChannelFault` if a queue that is to be deleted is a partition of something that stays."""
    logical = logical_name(queue.arguments)
    if logical and logical in queues and partition_count(queues[logical].arguments):
        text = f"queue '{queue.name}' in vhost '{queue.vhost}' is a partition of '{logical}', and goes only with that"
        raise ChannelFault(PRECONDITION_FAILED, text)
