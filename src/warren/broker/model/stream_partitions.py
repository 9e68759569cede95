"""Partitioned streams: one logical name, and one stream for each partition, chosen by a hash of the routing key.

    orders          x-stream-partitions: 3     the logical name: bindings and consumers use it, it has no messages
    orders-0 .. -2  x-stream-partition-of      ordinary streams, each on a node of its own

Messages with the same routing key are in the same partition, so their order is kept. The argument
`x-stream-partition-of` makes a stream a partition; only the broker can set it.

Not here: the queue object of the logical name (`broker.streams.partitioned_stream`), which reader of a group reads
which partition (`broker.streams.groups`).
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
    """Why this number of partitions is invalid; empty if it is valid."""
    if isinstance(value, bool) or not isinstance(value, int):
        return f'"expected integer, got {type_name(value)}"'
    return "" if 1 <= value <= PARTITIONS_MAX else f'"expected 1 to {PARTITIONS_MAX} partitions, got {value}"'


def partition_count(arguments: Table) -> int:
    """The number of partitions of a queue with these arguments; 0 if it is not a partitioned stream."""
    count = arguments.get(PARTITIONS)
    return count if isinstance(count, int) and arguments.get("x-queue-type") == "stream" else 0


def logical_name(arguments: Table) -> str:
    """The logical name of a partition with these arguments; empty if the queue is not a partition."""
    name = arguments.get(PARTITION_OF)
    return name if isinstance(name, str) else ""


def partition_name(name: str, index: int) -> str:
    return f"{name}-{index}"


def partition_names(name: str, arguments: Table) -> list[str]:
    return [partition_name(name, index) for index in range(partition_count(arguments))]


def partition_index(queue: QueuePort) -> int:
    """The index of a partition; -1 if the queue is not a partition."""
    logical = logical_name(queue.arguments)
    return int(queue.name[len(logical) + 1 :]) if logical else -1


def partition_arguments(name: str, arguments: Table) -> Table:
    """The arguments of each partition of this logical name."""
    own: Table = {key: arguments[key] for key in arguments if key != PARTITIONS}
    own[PARTITION_OF] = name
    return own


def index_for(routing_key: str, count: int) -> int:
    """The index of the partition for this routing key."""
    return crc32(routing_key.encode("utf-8", "surrogateescape")) % count


def check_partition_names(name: str, vhost: str, arguments: Table, queues: dict[str, QueuePort]) -> None:
    """Raise a `ChannelFault` if a partition's name is too long, or another queue has it."""
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
    """Raise a `ChannelFault` if the queue is a partition: it can be deleted only with its logical name."""
    logical = logical_name(queue.arguments)
    if logical and logical in queues and partition_count(queues[logical].arguments):
        text = f"queue '{queue.name}' in vhost '{queue.vhost}' is a partition of '{logical}', and goes only with that"
        raise ChannelFault(PRECONDITION_FAILED, text)
