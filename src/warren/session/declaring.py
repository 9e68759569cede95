"""exchange.* and queue.*: making, binding and deleting what messages travel through.

An answer about something durable leaves when the disk has it, also if another client brought it about.

What a user may not do is refused before anybody looks whether the thing exists, so that nobody learns of it; only a
passive declaration, which RabbitMQ allows to everybody, tells.

Not here: the tables themselves (`routing.topology`), a queue's arguments (`queue.arguments`), who may do what
(`access.rights`).
"""

from typing import TYPE_CHECKING, Final

from warren.access.limits import MAX_QUEUES, UNLIMITED, limit_of
from warren.access.rights import EXCHANGE, QUEUE
from warren.errors import ACCESS_REFUSED, NOT_FOUND, PRECONDITION_FAILED, ChannelFault
from warren.model.ports import QueuePort
from warren.queue.arguments import validate_declaration
from warren.queue.equivalence import check_equivalent
from warren.routing.exchange import Exchange
from warren.routing.types import alternate_of, validate_exchange_type
from warren.session import direct_reply
from warren.session.exchange_equivalence import check_exchange_equivalent
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
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)
from warren.wire.values import Table

if TYPE_CHECKING:
    from warren.session.channel import Channel

RESERVED_PREFIX: Final = "amq."
GENERATED_PREFIX: Final = "amq.gen-"


def exchange_declare(channel: "Channel", method: Method) -> None:
    assert isinstance(method, ExchangeDeclare)
    name = _one_line(method.exchange)
    if method.passive:
        _refuse_default(name)
        exchange = _existing_exchange(channel, name)
    else:
        validate_exchange_type(method.type)
        _refuse_default(name)
        channel.rights.to_configure(EXCHANGE, name)
        exchange = _declared_exchange(channel, name, method)
    if not method.nowait:
        _answer(channel, ExchangeDeclareOk(), exchange.durable)


def _declared_exchange(channel: "Channel", name: str, method: ExchangeDeclare) -> Exchange:
    existing = channel.vhost.topology.exchanges.get(name)
    if existing is not None:
        check_exchange_equivalent(existing, channel.vhost.name, method)
        return existing
    if name.startswith(RESERVED_PREFIX):
        raise ChannelFault(ACCESS_REFUSED, f"exchange name '{name}' contains reserved prefix 'amq.*'")
    alternate = alternate_of(channel.vhost.name, name, method.arguments)
    if "alternate-exchange" in method.arguments:
        channel.rights.to_read(EXCHANGE, name)
        channel.rights.to_write(EXCHANGE, alternate)
    return channel.vhost.declare_exchange(
        name, method.type, method.durable, method.auto_delete, method.internal, method.arguments
    )


def exchange_delete(channel: "Channel", method: Method) -> None:
    assert isinstance(method, ExchangeDelete)
    name = _one_line(method.exchange)
    _refuse_default(name)
    if name.startswith(RESERVED_PREFIX):
        where = f"'{name}' in vhost '{channel.vhost.name}'"
        raise ChannelFault(ACCESS_REFUSED, f"deletion of system exchange {where} not allowed")
    channel.rights.to_configure(EXCHANGE, name)
    exchange = channel.vhost.topology.exchanges.get(name)
    if exchange is not None:
        if method.if_unused and channel.vhost.topology.bindings_from(exchange):
            raise ChannelFault(PRECONDITION_FAILED, f"exchange '{name}' in vhost '{channel.vhost.name}' in use")
        channel.vhost.delete_exchange(exchange)
    if not method.nowait:
        _answer(channel, ExchangeDeleteOk(), True)


def exchange_bind(channel: "Channel", method: Method) -> None:
    assert isinstance(method, ExchangeBind)
    destination_name, source_name = _one_line(method.destination), _one_line(method.source)
    channel.rights.to_write(EXCHANGE, destination_name)
    _refuse_default(destination_name)
    _check_source(channel, source_name, method.routing_key)
    source = _existing_exchange(channel, source_name)
    destination = _existing_exchange(channel, destination_name)
    channel.vhost.topology.bind(source, destination, method.routing_key, method.arguments)
    if not method.nowait:
        _answer(channel, ExchangeBindOk(), source.durable and destination.durable)


def exchange_unbind(channel: "Channel", method: Method) -> None:
    assert isinstance(method, ExchangeUnbind)
    channel.rights.to_write(EXCHANGE, method.destination)
    _refuse_default(method.destination)
    _check_source(channel, method.source, method.routing_key)
    exchanges = channel.vhost.topology.exchanges
    source, destination = exchanges.get(method.source), exchanges.get(method.destination)
    if source is not None and destination is not None:
        channel.vhost.unbind(source, destination, method.routing_key, method.arguments)
    if not method.nowait:
        _answer(channel, ExchangeUnbindOk(), True)


def queue_declare(channel: "Channel", method: Method) -> None:
    assert isinstance(method, QueueDeclare)
    name = _one_line(method.queue)
    if name.startswith(direct_reply.REPLY_TO):
        _declare_reply_queue(channel, name, method)
        return
    if method.passive:
        queue = _passive_queue(channel, name)
    else:
        queue = _declared_queue(channel, name, method)
        channel.node.turn.figures.queues_declared += 1
    queue.check_usable()
    queue.touch()
    queue.drain()
    channel.last_queue = queue.name
    if not method.nowait:
        counts = QueueDeclareOk(queue.name, queue.ready_count(), queue.consumer_count())
        _answer(channel, counts, queue.durable)


def _passive_queue(channel: "Channel", name: str) -> QueuePort:
    queue = channel.vhost.topology.queues.get(name)
    if queue is None:
        raise ChannelFault(NOT_FOUND, f"no queue '{name}' in vhost '{channel.vhost.name}'")
    channel.connection.check_owner(queue)
    return queue


def _declared_queue(channel: "Channel", name: str, method: QueueDeclare) -> QueuePort:
    vhost = channel.vhost
    # an exclusive queue dies with its connection, so it is never durable
    durable = method.durable and not method.exclusive
    if not name:
        name = channel.node.fresh_name(GENERATED_PREFIX)
    elif name.startswith(RESERVED_PREFIX):
        raise ChannelFault(ACCESS_REFUSED, f"queue name '{name}' contains reserved prefix 'amq.*'")
    channel.rights.to_configure(QUEUE, name)
    existing = vhost.topology.queues.get(name)
    if existing is not None:
        channel.connection.check_owner(existing)
        check_equivalent(existing, durable, method.exclusive, method.auto_delete, method.arguments)
        return existing
    _check_new_queue(channel, name, method.arguments)
    validate_declaration(name, vhost.name, durable, method.exclusive, method.auto_delete, method.arguments)
    owner_id = channel.connection.connection_id if method.exclusive else 0
    return vhost.declare_queue(name, durable, method.exclusive, method.auto_delete, method.arguments, owner_id)


def _check_new_queue(channel: "Channel", name: str, arguments: Table) -> None:
    """Whether there is room for it, and whether its dead letters may go where they would."""
    vhost = channel.vhost
    limit = limit_of(vhost.limits, MAX_QUEUES)
    if limit != UNLIMITED and len(vhost.topology.queues) >= limit:
        reached = f"queue limit in vhost '{vhost.name}' ({limit}) is reached"
        raise ChannelFault(PRECONDITION_FAILED, f"cannot declare queue '{name}': {reached}")
    dead_letter_exchange = arguments.get("x-dead-letter-exchange")
    if isinstance(dead_letter_exchange, str):
        channel.rights.to_read(QUEUE, name)
        channel.rights.to_write(EXCHANGE, dead_letter_exchange)


def _declare_reply_queue(channel: "Channel", name: str, method: QueueDeclare) -> None:
    """A client may ask whether an inbox is still there by declaring it."""
    if name != direct_reply.REPLY_TO and name not in channel.node.reply_inboxes:
        raise ChannelFault(NOT_FOUND, f"no queue '{name}' in vhost '{channel.vhost.name}'")
    if not method.nowait:
        channel.send(QueueDeclareOk(queue=name, message_count=0, consumer_count=1))


def queue_bind(channel: "Channel", method: Method) -> None:
    assert isinstance(method, QueueBind)
    name = channel.queue_name(_one_line(method.queue))
    exchange_name = _one_line(method.exchange)
    # an empty queue and an empty key both mean the last declared queue
    key = name if not method.queue and not method.routing_key else method.routing_key
    channel.rights.to_write(QUEUE, name)
    _check_source(channel, exchange_name, key)
    source = _existing_exchange(channel, exchange_name)
    if name in channel.vhost.topology.queues:
        source.matcher.check(key, method.arguments)
    queue = channel.queue(name)
    channel.vhost.topology.bind(source, queue, key, method.arguments)
    if not method.nowait:
        _answer(channel, QueueBindOk(), source.durable and queue.durable)


def queue_unbind(channel: "Channel", method: Method) -> None:
    assert isinstance(method, QueueUnbind)
    name = channel.queue_name(_one_line(method.queue))
    exchange_name = _one_line(method.exchange)
    key = name if not method.queue and not method.routing_key else method.routing_key
    channel.rights.to_write(QUEUE, name)
    _check_source(channel, exchange_name, key)
    topology = channel.vhost.topology
    source, queue = topology.exchanges.get(exchange_name), topology.queues.get(name)
    if source is not None and queue is not None and topology.is_bound(source, queue, key, method.arguments):
        channel.connection.check_owner(queue)
        channel.vhost.unbind(source, queue, key, method.arguments)
    _answer(channel, QueueUnbindOk(), True)


def queue_purge(channel: "Channel", method: Method) -> None:
    assert isinstance(method, QueuePurge)
    name = channel.queue_name(method.queue)
    channel.rights.to_read(QUEUE, name)
    queue = channel.queue(name)
    count = queue.purge()
    if not method.nowait:
        channel.send(QueuePurgeOk(message_count=count))
        if queue.durable and count:
            channel.connection.gate()


def queue_delete(channel: "Channel", method: Method) -> None:
    assert isinstance(method, QueueDelete)
    name = channel.queue_name(_one_line(method.queue))
    channel.rights.to_configure(QUEUE, name)
    queue = channel.vhost.topology.queues.get(name)
    if queue is not None:
        _check_deletable(channel, queue, method)
    if not method.nowait:
        channel.send(QueueDeleteOk(message_count=0 if queue is None else queue.ready_count()))
    # a consumer on this very channel learns of its cancellation after the answer
    if queue is not None:
        channel.vhost.delete_queue(queue)
    if not method.nowait:
        _gate_metadata(channel)


def _check_deletable(channel: "Channel", queue: QueuePort, method: QueueDelete) -> None:
    channel.connection.check_owner(queue)
    queue.drain()
    where = f"queue '{queue.name}' in vhost '{channel.vhost.name}'"
    if method.if_empty and queue.ready_count():
        raise ChannelFault(PRECONDITION_FAILED, f"{where} not empty")
    if method.if_unused and queue.consumer_count():
        raise ChannelFault(PRECONDITION_FAILED, f"{where} in use")


def _answer(channel: "Channel", method: Method, durable: bool) -> None:
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


def _one_line(name: str) -> str:
    """RabbitMQ takes line breaks out of names before it looks at them."""
    return name.replace("\r", "").replace("\n", "")
