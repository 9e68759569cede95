"""queue.declare: finding a queue, or making one.

Declarations of queues that have come directly behind one that others must agree to are agreed upon with it
(`session.ahead`). Whoever declares a queue that copies another must be allowed to read that one, if it exists or not.

Not here: the other methods of queues (`session.declaring`), which arguments there are (`queue.arguments`).
"""

from typing import TYPE_CHECKING, Final

from warren.access.limits import MAX_QUEUES, UNLIMITED, limit_of
from warren.access.rights import EXCHANGE, QUEUE
from warren.errors import ACCESS_REFUSED, NOT_FOUND, PRECONDITION_FAILED, ChannelFault, ProtocolFault
from warren.model.named_copies import copy_sources
from warren.model.partitions import (
    PARTITIONS,
    check_partition_names,
    partition_arguments,
    partition_count,
    partition_names,
)
from warren.model.ports import QueuePort
from warren.queue.argument_aliases import without_aliases
from warren.queue.arguments import validate_declaration
from warren.queue.equivalence import check_equivalent
from warren.session import ahead, direct_reply, waiting
from warren.session.agreeing import Wish, wish_of
from warren.session.declaring import RESERVED_PREFIX, answer, one_line
from warren.store.topology_definitions import QueueDefinition
from warren.wire.methods import Method, QueueDeclare, QueueDeclareOk
from warren.wire.values import Table

if TYPE_CHECKING:
    from warren.session.channel import Channel

GENERATED_PREFIX: Final = "amq.gen-"


def queue_declare(channel: "Channel", method: Method) -> None:
    assert isinstance(method, QueueDeclare)
    wish = wish_of(channel)
    name = one_line(method.queue)
    if name.startswith(direct_reply.REPLY_TO):
        _declare_reply_queue(channel, name, method)
        return
    if not method.passive:
        name = _name_to_declare(channel, name, wish)
        if not _declare_queue(channel, name, method, wish):
            wish.wait()
            return
    queue = _open_queue(channel, name)
    queue.check_usable()
    if not waiting.counts_at_hand(channel, queue):
        # a name that was made up is to be the same when the frame is handled again
        channel.wish = wish
        return
    if not method.passive:
        channel.node.turn.figures.queues_declared += 1
    queue.touch()
    queue.drain()
    channel.last_queue = queue.name
    if not method.nowait:
        counts = QueueDeclareOk(queue.name, queue.ready_count(), queue.consumer_count())
        answer(channel, counts, queue.durable)


def _open_queue(channel: "Channel", name: str) -> QueuePort:
    queue = channel.vhost.queue(name)
    if queue is None:
        raise ChannelFault(NOT_FOUND, f"no queue '{name}' in vhost '{channel.vhost.name}'")
    channel.connection.check_owner(queue)
    return queue


def _name_to_declare(channel: "Channel", name: str, wish: Wish) -> str:
    if not name:
        if not wish.fresh_name:
            wish.fresh_name = channel.node.fresh_name(GENERATED_PREFIX)
        return wish.fresh_name
    if name.startswith(RESERVED_PREFIX):
        raise ChannelFault(ACCESS_REFUSED, f"queue name '{name}' contains reserved prefix 'amq.*'")
    return name


def _declare_queue(channel: "Channel", name: str, method: QueueDeclare, wish: Wish) -> bool:
    """Whether it is there."""
    channel.rights.to_configure(QUEUE, name)
    existing = channel.vhost.queue(name)
    if existing is not None:
        channel.connection.check_owner(existing)
        arguments = without_aliases(name, channel.vhost.name, method.arguments)
        check_equivalent(existing, _is_durable(method), method.exclusive, method.auto_delete, arguments)
        return _has_all_partitions(channel, existing, wish)
    new = [_new_queue(channel, name, method, 0)]
    if not channel.vhost.agrees_at_once():
        _add_following(channel, new)
    return channel.vhost.declare_queues(new, wish)


def _has_all_partitions(channel: "Channel", existing: QueuePort, wish: Wish) -> bool:
    """Whether nothing of it is missing. A partition may be lost with its node."""
    queues = channel.vhost.topology.queues
    names = partition_names(existing.name, existing.arguments)
    if all(name in queues for name in names):
        return True
    arguments = partition_arguments(existing.name, existing.arguments)
    missing = [name for name in names if name not in queues]
    lost = [QueueDefinition(existing.vhost, name, True, False, False, arguments) for name in missing]
    return channel.vhost.declare_queues(lost, wish)


def _is_durable(method: QueueDeclare) -> bool:
    """An exclusive queue dies with its connection, so it is never durable."""
    return method.durable and not method.exclusive


def _new_queue(channel: "Channel", name: str, method: QueueDeclare, before: int) -> QueueDefinition:
    """What is to be made, if it may be; so many are made before it."""
    vhost, durable, exclusive = channel.vhost.name, _is_durable(method), method.exclusive
    arguments = without_aliases(name, vhost, method.arguments)
    _check_new_queue(channel, name, arguments, before)
    validate_declaration(name, vhost, durable, exclusive, method.auto_delete, arguments)
    check_partition_names(name, vhost, arguments, channel.vhost.topology.queues)
    owner_id = channel.connection.connection_id if exclusive else 0
    return QueueDefinition(vhost, name, durable, exclusive, method.auto_delete, arguments, owner=owner_id)


def _add_following(channel: "Channel", row: list[QueueDefinition]) -> None:
    """Also make the queues whose declarations have come behind this one: up to the first that may end otherwise."""
    queues = channel.vhost.topology.queues
    for method in ahead.queue_declarations(channel):
        name = one_line(method.queue)
        known = name in queues or name in [queue.name for queue in row] or PARTITIONS in method.arguments
        if known or method.passive or not name or name.startswith(RESERVED_PREFIX):
            return
        try:
            channel.rights.to_configure(QUEUE, name)
            row.append(_new_queue(channel, name, method, len(row)))
        except ProtocolFault:
            return


def _check_new_queue(channel: "Channel", name: str, arguments: Table, before: int) -> None:
    """Whether there is room for it, and whether its dead letters may go, and its copies come from, where they would."""
    vhost = channel.vhost
    limit = limit_of(vhost.limits, MAX_QUEUES)
    if limit != UNLIMITED and len(vhost.topology.queues) + before + partition_count(arguments) >= limit:
        reached = f"queue limit in vhost '{vhost.name}' ({limit}) is reached"
        raise ChannelFault(PRECONDITION_FAILED, f"cannot declare queue '{name}': {reached}")
    dead_letter_exchange = arguments.get("x-dead-letter-exchange")
    if isinstance(dead_letter_exchange, str):
        channel.rights.to_read(QUEUE, name)
        channel.rights.to_write(EXCHANGE, dead_letter_exchange)
    for copied in copy_sources(arguments):
        channel.rights.to_read(QUEUE, copied.name)
        source = vhost.queue(copied.name)
        if source is not None:
            channel.connection.check_owner(source)


def _declare_reply_queue(channel: "Channel", name: str, method: QueueDeclare) -> None:
    """A client may ask whether an inbox is still there by declaring it."""
    if name != direct_reply.REPLY_TO and not direct_reply.is_open(channel.node, name):
        raise ChannelFault(NOT_FOUND, f"no queue '{name}' in vhost '{channel.vhost.name}'")
    if not method.nowait:
        channel.send(QueueDeclareOk(queue=name, message_count=0, consumer_count=1))
