"""exchange.* and queue.*, but for queue.declare: making, binding and deleting what messages travel through.

An answer about something durable leaves when the disk has it, also if another client brought it about. Where others
must agree first, the method waits, and is handled again from its start once that is decided (`session.agreeing`). It
waits, too, where only a queue's home knows how many messages there are (`session.waiting`).

What a user may not do is refused before anybody looks whether the thing exists, so that nobody learns of it; only a
passive declaration, which RabbitMQ allows to everybody, tells.

Not here: queue.declare (`session.declaring_queues`), the tables themselves (`routing.topology`), who may do what
(`access.rights`).
"""

from typing import TYPE_CHECKING, Final

from warren.access.rights import EXCHANGE, QUEUE
from warren.errors import ACCESS_REFUSED, NOT_FOUND, PRECONDITION_FAILED, ChannelFault
from warren.model.distant import DistantQueue
from warren.model.partitions import check_not_a_partition, partition_count
from warren.model.ports import QueuePort
from warren.model.removal import check_removable
from warren.queue.arguments import type_of
from warren.queue.stream_arguments import STREAM
from warren.routing.exchange import Exchange
from warren.routing.types import alternate_of, validate_exchange_type
from warren.session import waiting
from warren.session.agreeing import Wish, wish_of
from warren.session.exchange_equivalence import check_exchange_equivalent
from warren.session.reading import unsupported
from warren.wire.methods import (
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)

if TYPE_CHECKING:
    from warren.session.channel import Channel

RESERVED_PREFIX: Final = "amq."


def exchange_declare(channel: "Channel", method: Method) -> None:
    assert isinstance(method, ExchangeDeclare)
    wish = wish_of(channel)
    name = one_line(method.exchange)
    if method.passive:
        _refuse_default(name)
        exchange = _existing_exchange(channel, name)
    else:
        validate_exchange_type(method.type)
        _refuse_default(name)
        channel.rights.to_configure(EXCHANGE, name)
        if not _declare_exchange(channel, name, method, wish):
            wish.wait()
            return
        exchange = channel.vhost.topology.exchanges[name]
    if not method.nowait:
        answer(channel, ExchangeDeclareOk(), exchange.durable)


def _declare_exchange(channel: "Channel", name: str, method: ExchangeDeclare, wish: Wish) -> bool:
    """Whether it is there."""
    existing = channel.vhost.topology.exchanges.get(name)
    if existing is not None:
        check_exchange_equivalent(existing, channel.vhost.name, method)
        return True
    if name.startswith(RESERVED_PREFIX):
        raise ChannelFault(ACCESS_REFUSED, f"exchange name '{name}' contains reserved prefix 'amq.*'")
    alternate = alternate_of(channel.vhost.name, name, method.arguments)
    if "alternate-exchange" in method.arguments:
        channel.rights.to_read(EXCHANGE, name)
        channel.rights.to_write(EXCHANGE, alternate)
    return channel.vhost.declare_exchange(
        name, method.type, method.durable, method.auto_delete, method.internal, method.arguments, wish
    )


def exchange_delete(channel: "Channel", method: Method) -> None:
    assert isinstance(method, ExchangeDelete)
    wish = wish_of(channel)
    name = one_line(method.exchange)
    _refuse_default(name)
    if name.startswith(RESERVED_PREFIX):
        where = f"'{name}' in vhost '{channel.vhost.name}'"
        raise ChannelFault(ACCESS_REFUSED, f"deletion of system exchange {where} not allowed")
    channel.rights.to_configure(EXCHANGE, name)
    exchange = channel.vhost.topology.exchanges.get(name)
    if exchange is not None and not wish.granted:
        if method.if_unused and channel.vhost.topology.bindings_from(exchange):
            raise ChannelFault(PRECONDITION_FAILED, f"exchange '{name}' in vhost '{channel.vhost.name}' in use")
        if not channel.vhost.delete_exchange(exchange, wish):
            wish.wait()
            return
    if not method.nowait:
        answer(channel, ExchangeDeleteOk(), True)


def exchange_bind(channel: "Channel", method: Method) -> None:
    assert isinstance(method, ExchangeBind)
    wish = wish_of(channel)
    destination_name, source_name = one_line(method.destination), one_line(method.source)
    channel.rights.to_write(EXCHANGE, destination_name)
    _refuse_default(destination_name)
    _check_source(channel, source_name, method.routing_key)
    source = _existing_exchange(channel, source_name)
    destination = _existing_exchange(channel, destination_name)
    if not channel.vhost.bind(source, destination, method.routing_key, method.arguments, wish):
        wish.wait()
        return
    if not method.nowait:
        answer(channel, ExchangeBindOk(), source.durable and destination.durable)


def exchange_unbind(channel: "Channel", method: Method) -> None:
    assert isinstance(method, ExchangeUnbind)
    wish = wish_of(channel)
    channel.rights.to_write(EXCHANGE, method.destination)
    _refuse_default(method.destination)
    _check_source(channel, method.source, method.routing_key)
    exchanges = channel.vhost.topology.exchanges
    source, destination = exchanges.get(method.source), exchanges.get(method.destination)
    done = True
    if source is not None and destination is not None:
        done = channel.vhost.unbind(source, destination, method.routing_key, method.arguments, wish)
    if not done:
        wish.wait()
    elif not method.nowait:
        answer(channel, ExchangeUnbindOk(), True)


def queue_bind(channel: "Channel", method: Method) -> None:
    assert isinstance(method, QueueBind)
    wish = wish_of(channel)
    name = channel.queue_name(one_line(method.queue))
    exchange_name = one_line(method.exchange)
    # an empty queue and an empty key both mean the last declared queue
    key = name if not method.queue and not method.routing_key else method.routing_key
    channel.rights.to_write(QUEUE, name)
    _check_source(channel, exchange_name, key)
    source = _existing_exchange(channel, exchange_name)
    if channel.vhost.queue(name) is not None:
        source.matcher.check(key, method.arguments)
    queue = channel.queue(name)
    if not channel.vhost.bind(source, queue, key, method.arguments, wish):
        wish.wait()
        return
    if not method.nowait:
        answer(channel, QueueBindOk(), source.durable and queue.durable)


def queue_unbind(channel: "Channel", method: Method) -> None:
    assert isinstance(method, QueueUnbind)
    wish = wish_of(channel)
    name = channel.queue_name(one_line(method.queue))
    exchange_name = one_line(method.exchange)
    key = name if not method.queue and not method.routing_key else method.routing_key
    channel.rights.to_write(QUEUE, name)
    _check_source(channel, exchange_name, key)
    vhost = channel.vhost
    source, queue = vhost.topology.exchanges.get(exchange_name), vhost.queue(name)
    done = True
    if source is not None and queue is not None and vhost.topology.is_bound(source, queue, key, method.arguments):
        channel.connection.check_owner(queue)
        done = vhost.unbind(source, queue, key, method.arguments, wish)
    if done:
        answer(channel, QueueUnbindOk(), True)
    else:
        wish.wait()


def queue_purge(channel: "Channel", method: Method) -> None:
    assert isinstance(method, QueuePurge)
    name = channel.queue_name(method.queue)
    channel.rights.to_read(QUEUE, name)
    queue = channel.queue(name)
    if type_of(queue.arguments) == STREAM:
        raise unsupported("queue.purge", queue)
    count = waiting.purged_count(channel, queue)
    if count >= 0 and not method.nowait:
        channel.send(QueuePurgeOk(message_count=count))
        if queue.durable and count:
            channel.connection.gate()


def queue_delete(channel: "Channel", method: Method) -> None:
    assert isinstance(method, QueueDelete)
    wish = wish_of(channel)
    vhost = channel.vhost
    name = channel.queue_name(one_line(method.queue))
    channel.rights.to_configure(QUEUE, name)
    removed_count = waiting.removed_count(channel)
    if removed_count >= 0:
        wish.granted = True
        wish.message_count = removed_count
    queue = None if wish.granted else vhost.queue(name)
    if queue is not None:
        channel.connection.check_owner(queue)
        check_not_a_partition(queue, vhost.topology.queues)
        if not _may_go(channel, queue, method):
            return
        wish.message_count = queue.ready_count()
    told = vhost.agrees_at_once()
    if told:
        # a consumer on this very channel learns of its cancellation after the answer
        _tell_deleted(channel, method, wish)
    if queue is not None and not _deleted(channel, queue, method, wish):
        wish.wait()
        return
    if not told:
        _tell_deleted(channel, method, wish)
    if not method.nowait:
        _gate_metadata(channel)


def _tell_deleted(channel: "Channel", method: QueueDelete, wish: Wish) -> None:
    if not method.nowait:
        channel.send(QueueDeleteOk(message_count=wish.message_count))


def _may_go(channel: "Channel", queue: QueuePort, method: QueueDelete) -> bool:
    """Whether it may be deleted, as things are; a fault if not, False if the frame at hand waits to know."""
    if not method.if_empty and not method.if_unused:
        return waiting.counts_at_hand(channel, queue)
    if partition_count(queue.arguments):
        if not waiting.counts_at_hand(channel, queue):
            return False
        check_removable(queue, method.if_empty, method.if_unused)
        return True
    if isinstance(queue, DistantQueue):
        waiting.ask_removal(channel, queue, method.if_empty, method.if_unused)
        return False
    if waiting.decided_elsewhere(channel, queue):
        return False
    check_removable(queue, method.if_empty, method.if_unused)
    return True


def _deleted(channel: "Channel", queue: QueuePort, method: QueueDelete, wish: Wish) -> bool:
    """Whether it is done; what was found of it must still be true when it is."""
    if (method.if_empty or method.if_unused) and not partition_count(queue.arguments):
        return channel.vhost.delete_checked_queue(queue, wish)
    return channel.vhost.delete_queue(queue, wish)


def answer(channel: "Channel", method: Method, durable: bool) -> None:
    channel.send(method)
    if durable:
        _gate_metadata(channel)


def _gate_metadata(channel: "Channel") -> None:
    if channel.node.metadata_pending():
        channel.connection.gate()


def _check_source(channel: "Channel", name: str, routing_key: str) -> None:
    """Whether the user may bind to an exchange, and with this key."""
    _refuse_default(name)
    channel.rights.to_read(EXCHANGE, name)
    exchange = channel.vhost.topology.exchanges.get(name)
    if exchange is not None and exchange.type == "topic":
        channel.rights.to_read_topic(name, routing_key)


def _existing_exchange(channel: "Channel", name: str) -> Exchange:
    exchange = channel.vhost.topology.exchanges.get(name)
    if exchange is None:
        raise ChannelFault(NOT_FOUND, f"no exchange '{name}' in vhost '{channel.vhost.name}'")
    return exchange


def _refuse_default(name: str) -> None:
    if not name:
        raise ChannelFault(ACCESS_REFUSED, "operation not permitted on the default exchange")


def one_line(name: str) -> str:
    """RabbitMQ takes line breaks out of names before it looks at them."""
    return name.replace("\r", "").replace("\n", "")
