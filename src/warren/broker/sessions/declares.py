"""exchange.* and queue.*: declare, bind, unbind, purge and delete.

The answer about a durable object is sent when the object is on disk, also if another client declared it.

If a change needs a metadata transaction, the method waits: its frame stays at the head of the connection's input, and
all that follows waits behind it. When the transaction is decided, the frame is handled again from its start and finds
the new state: a declared queue exists and is answered for like any other. If another change came first, the method may
end differently or start a new transaction. `PendingDeclare` keeps the facts that must stay the same, such as a
generated name. A transaction that failed closes the channel, because its outcome is unknown. A method waits too where
only the home node of a queue knows the number of messages (`broker.sessions.remote_queues`).

Clients often send several queue.declare without awaiting the answers. Declares that follow the current frame directly
and completely, on the same channel, join its transaction. Nothing is answered, or changed in the session, before its
own frame is handled.

Permissions are checked before existence, so that a user does not learn of objects it may not use. Only a passive
declare, which RabbitMQ allows to everyone, shows existence. Declaring a queue that copies another queue needs the
permission to read that one.

Not here: exchanges, queues and bindings themselves (`broker.routing.topology`), arguments of queues
(`broker.queues.arguments`) and exchanges (`broker.routing.exchange_types`), transactions (`broker.metadata.backend`).
"""

from typing import Final, final

from librt.strings import read_i32_be
from mypy_extensions import i64

from warren.broker.access.limits import MAX_QUEUES, UNLIMITED, limit_of
from warren.broker.access.rights import EXCHANGE, QUEUE, PermissionUnknown
from warren.broker.metadata.topology_definitions import ExchangeDefinition, QueueDefinition
from warren.broker.metadata.transaction import TransactionWaiter, transaction_failed
from warren.broker.model.equivalence import compare_argument, compare_flag, inequivalent, quoted
from warren.broker.model.ports import QueuePort
from warren.broker.model.queue_copies import copy_sources
from warren.broker.model.remote_queue import RemoteQueuePort, check_removable
from warren.broker.model.stream_partitions import (
    PARTITIONS,
    check_not_a_partition,
    check_partition_names,
    partition_arguments,
    partition_count,
    partition_names,
)
from warren.broker.queues.arguments import STREAM, check_equivalent, type_of, validate_declaration, without_aliases
from warren.broker.routing.exchange_types import alternate_of, validate_exchange_type
from warren.broker.routing.exchanges import Binding, Exchange
from warren.broker.sessions import direct_reply, remote_queues
from warren.broker.sessions.connection import RUNNING, Channel
from warren.broker.sessions.consumers import unsupported
from warren.errors import ACCESS_REFUSED, NOT_FOUND, PRECONDITION_FAILED, ChannelFault, ConnectionFault, ProtocolFault
from warren.wire.field_tables import Table
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
    decode_method,
)


@final
class PendingDeclare(TransactionWaiter):
    """The metadata transaction of one method of a channel."""

    def __init__(self, channel: Channel) -> None:
        # the transaction is committed
        self.granted: bool = False
        # the generated name of a queue declared without one
        self.fresh_name: str = ""
        # how many messages the deleted queue had
        self.message_count: int = 0
        self.refusal: str = ""
        self._channel: Channel = channel

    def wait(self) -> None:
        """Handle the current frame again when this is decided; hold further input."""
        connection = self._channel.connection
        self._channel.pending = self
        connection.reader.step_back()
        connection.await_answer()

    def committed(self) -> None:
        assert not self.refusal, "a transaction has one outcome"
        self.granted = True
        self._resume_input()
        connection = self._channel.connection
        if connection.state != RUNNING:
            # the exclusive queues of an ended connection are deleted, and this may have declared another
            self._channel.vhost.delete_queues_of(connection.connection_id)

    def outdated(self) -> None:
        self._resume_input()

    def failed(self, reason: str) -> None:
        self.refusal = reason
        self._resume_input()

    def _resume_input(self) -> None:
        connection = self._channel.connection
        # input of an ended connection waits for nothing
        if connection.state == RUNNING:
            connection.turn.inputs.append(connection)


def pending_declare_of(channel: Channel) -> PendingDeclare:
    """The transaction that the current frame waited for, or a new one; a fault if it failed."""
    pending = channel.pending
    if pending is None:
        return PendingDeclare(channel)
    assert isinstance(pending, PendingDeclare), "only this module sets it"
    channel.pending = None
    if pending.refusal:
        raise transaction_failed(pending.refusal)
    return pending


PIPELINED_DECLARES_MAX: Final = 50
"""As many as one transaction takes."""

QUEUE_DECLARE: Final = 50 << 16 | 10


def pipelined_declares(channel: Channel) -> list[QueueDeclare]:
    """The queue.declare methods directly after the current frame, in order."""
    reader = channel.connection.reader
    found: list[QueueDeclare] = []
    start: i64 = reader.position
    while len(found) < PIPELINED_DECLARES_MAX:
        end: i64 = reader.method_end(start)
        if end - start < 12 or int(read_i32_be(reader.data, start + 7)) != QUEUE_DECLARE:
            break
        try:
            method = decode_method(reader.data, start + 7, end - 1)
        except ConnectionFault:
            break
        assert isinstance(method, QueueDeclare)
        found.append(method)
        start = end
    return found


def check_exchange_equivalent(exchange: Exchange, vhost: str, method: ExchangeDeclare) -> None:
    """Raise a fault for a redeclare that differs, naming the first difference as RabbitMQ does."""
    where = f"exchange '{exchange.name}' in vhost '{vhost}'"
    if exchange.type != method.type:
        raise inequivalent("type", where, quoted(method.type), quoted(exchange.type))
    compare_flag("durable", method.durable, exchange.durable, where)
    compare_flag("auto_delete", method.auto_delete, exchange.auto_delete, where)
    compare_flag("internal", method.internal, exchange.internal, where)
    for name in ("alternate-exchange", "x-delayed-type"):
        compare_argument(name, method.arguments, exchange.arguments, where)


RESERVED_PREFIX: Final = "amq."


def exchange_declare(channel: Channel, method: Method) -> None:
    assert isinstance(method, ExchangeDeclare)
    pending = pending_declare_of(channel)
    name = single_line(method.exchange)
    if method.passive:
        _refuse_default(name)
        exchange = _existing_exchange(channel, name)
    else:
        validate_exchange_type(method.type)
        _refuse_default(name)
        channel.rights.to_configure(EXCHANGE, name)
        if not _declare_exchange(channel, name, method, pending):
            pending.wait()
            return
        exchange = channel.vhost.topology.exchanges[name]
    if not method.nowait:
        answer(channel, ExchangeDeclareOk(), exchange.durable)


def _declare_exchange(channel: Channel, name: str, method: ExchangeDeclare, pending: PendingDeclare) -> bool:
    """Whether the exchange exists."""
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
    vhost, arguments = channel.vhost, method.arguments
    return vhost.declare_exchange(
        ExchangeDefinition(
            vhost.name, name, method.type, method.durable, method.auto_delete, method.internal, arguments
        ),
        pending,
    )


def exchange_delete(channel: Channel, method: Method) -> None:
    assert isinstance(method, ExchangeDelete)
    pending = pending_declare_of(channel)
    name = single_line(method.exchange)
    _refuse_default(name)
    if name.startswith(RESERVED_PREFIX):
        where = f"'{name}' in vhost '{channel.vhost.name}'"
        raise ChannelFault(ACCESS_REFUSED, f"deletion of system exchange {where} not allowed")
    channel.rights.to_configure(EXCHANGE, name)
    exchange = channel.vhost.topology.exchanges.get(name)
    if exchange is not None and not pending.granted:
        if method.if_unused and channel.vhost.topology.bindings_from(exchange):
            raise ChannelFault(PRECONDITION_FAILED, f"exchange '{name}' in vhost '{channel.vhost.name}' in use")
        if channel.vhost.unbind_some(exchange):
            channel.connection.continue_later()
            return
        if not channel.vhost.delete_exchange(exchange, pending):
            pending.wait()
            return
    if not method.nowait:
        answer(channel, ExchangeDeleteOk(), True)


def exchange_bind(channel: Channel, method: Method) -> None:
    assert isinstance(method, ExchangeBind)
    pending = pending_declare_of(channel)
    destination_name, source_name = single_line(method.destination), single_line(method.source)
    channel.rights.to_write(EXCHANGE, destination_name)
    _refuse_default(destination_name)
    _check_source(channel, source_name, method.routing_key)
    source = _existing_exchange(channel, source_name)
    destination = _existing_exchange(channel, destination_name)
    done = channel.vhost.bind(Binding(source, destination, method.routing_key, method.arguments), pending)
    durable = source.durable and destination.durable
    _answer_or_wait(channel, pending, done, None if method.nowait else ExchangeBindOk(), durable)


def exchange_unbind(channel: Channel, method: Method) -> None:
    assert isinstance(method, ExchangeUnbind)
    pending = pending_declare_of(channel)
    channel.rights.to_write(EXCHANGE, method.destination)
    _refuse_default(method.destination)
    _check_source(channel, method.source, method.routing_key)
    exchanges = channel.vhost.topology.exchanges
    source, destination = exchanges.get(method.source), exchanges.get(method.destination)
    done = True
    if source is not None and destination is not None:
        done = channel.vhost.unbind(Binding(source, destination, method.routing_key, method.arguments), pending)
    _answer_or_wait(channel, pending, done, None if method.nowait else ExchangeUnbindOk(), True)


def queue_bind(channel: Channel, method: Method) -> None:
    assert isinstance(method, QueueBind)
    pending = pending_declare_of(channel)
    name, exchange_name, key = _queue_binding(channel, method.queue, method.exchange, method.routing_key)
    source = _existing_exchange(channel, exchange_name)
    if channel.vhost.queue(name) is not None:
        source.matcher.check(key, method.arguments)
    queue = channel.queue(name)
    done = channel.vhost.bind(Binding(source, queue, key, method.arguments), pending)
    durable = source.durable and queue.durable
    _answer_or_wait(channel, pending, done, None if method.nowait else QueueBindOk(), durable)


def queue_unbind(channel: Channel, method: Method) -> None:
    assert isinstance(method, QueueUnbind)
    pending = pending_declare_of(channel)
    name, exchange_name, key = _queue_binding(channel, method.queue, method.exchange, method.routing_key)
    vhost = channel.vhost
    source, queue = vhost.topology.exchanges.get(exchange_name), vhost.queue(name)
    done = True
    if source is not None and queue is not None:
        binding = Binding(source, queue, key, method.arguments)
        if binding in source.outgoing:
            channel.connection.check_owner(queue)
            done = vhost.unbind(binding, pending)
    _answer_or_wait(channel, pending, done, QueueUnbindOk(), True)


def _queue_binding(channel: Channel, queue: str, exchange: str, routing_key: str) -> tuple[str, str, str]:
    """The queue, the exchange and the key of a binding that the user may make or remove."""
    name, exchange_name = channel.queue_name(single_line(queue)), single_line(exchange)
    # an empty queue name and an empty key both mean the last declared queue
    key = name if not queue and not routing_key else routing_key
    channel.rights.to_write(QUEUE, name)
    _check_source(channel, exchange_name, key)
    return name, exchange_name, key


def _answer_or_wait(channel: Channel, pending: PendingDeclare, done: bool, reply: Method | None, durable: bool) -> None:
    """Reply to a change that is done, unless the client wants no reply; else handle its frame again later."""
    if not done:
        pending.wait()
    elif reply is not None:
        answer(channel, reply, durable)


def queue_purge(channel: Channel, method: Method) -> None:
    assert isinstance(method, QueuePurge)
    name = channel.queue_name(method.queue)
    channel.rights.to_read(QUEUE, name)
    queue = channel.queue(name)
    if type_of(queue.arguments) == STREAM:
        raise unsupported("queue.purge", queue)
    count = remote_queues.purged_count(channel, queue)
    if count >= 0 and not method.nowait:
        channel.send(QueuePurgeOk(message_count=count))
        if queue.durable and count:
            channel.connection.gate()


def queue_delete(channel: Channel, method: Method) -> None:
    assert isinstance(method, QueueDelete)
    pending = pending_declare_of(channel)
    vhost = channel.vhost
    name = channel.queue_name(single_line(method.queue))
    channel.rights.to_configure(QUEUE, name)
    removed_count = remote_queues.removed_count(channel)
    if removed_count >= 0:
        pending.granted = True
        pending.message_count = removed_count
    queue = None if pending.granted else vhost.queue(name)
    if queue is not None:
        channel.connection.check_owner(queue)
        check_not_a_partition(queue, vhost.topology.queues)
        if not _may_be_deleted(channel, queue, method):
            return
        if not (method.if_empty or method.if_unused) and vhost.unbind_some(queue):
            channel.connection.continue_later()
            return
        pending.message_count = queue.ready_count()
    answered = vhost.applies_immediately()
    if answered:
        # a consumer on this channel is cancelled after the answer
        _send_delete_ok(channel, method, pending)
    if queue is not None and not _deleted(channel, queue, method, pending):
        pending.wait()
        return
    if not answered:
        _send_delete_ok(channel, method, pending)
    if not method.nowait:
        _gate_metadata(channel)


def _send_delete_ok(channel: Channel, method: QueueDelete, pending: PendingDeclare) -> None:
    if not method.nowait:
        channel.send(QueueDeleteOk(message_count=pending.message_count))


def _may_be_deleted(channel: Channel, queue: QueuePort, method: QueueDelete) -> bool:
    """Whether the queue may be deleted now; a fault if not, False if the current frame waits for the counts."""
    if not method.if_empty and not method.if_unused:
        return remote_queues.has_current_counts(channel, queue)
    if partition_count(queue.arguments):
        if not remote_queues.has_current_counts(channel, queue):
            return False
        check_removable(queue, method.if_empty, method.if_unused)
        return True
    if isinstance(queue, RemoteQueuePort):
        remote_queues.request_removal(channel, queue, method.if_empty, method.if_unused)
        return False
    if remote_queues.waits_for_removal(channel, queue):
        return False
    check_removable(queue, method.if_empty, method.if_unused)
    return True


def _deleted(channel: Channel, queue: QueuePort, method: QueueDelete, pending: PendingDeclare) -> bool:
    """Whether the queue is deleted; if-empty and if-unused still hold when it is."""
    if (method.if_empty or method.if_unused) and not partition_count(queue.arguments):
        return channel.vhost.delete_checked_queue(queue, pending)
    return channel.vhost.delete_queue(queue, pending)


def answer(channel: Channel, method: Method, durable: bool) -> None:
    channel.send(method)
    if durable:
        _gate_metadata(channel)


def _gate_metadata(channel: Channel) -> None:
    if channel.node.metadata_pending():
        channel.connection.gate()


def _check_source(channel: Channel, name: str, routing_key: str) -> None:
    """Raise a fault unless the user may bind to this exchange with this key."""
    _refuse_default(name)
    channel.rights.to_read(EXCHANGE, name)
    exchange = channel.vhost.topology.exchanges.get(name)
    if exchange is not None and exchange.type == "topic":
        channel.rights.to_read_topic(name, routing_key)


def _existing_exchange(channel: Channel, name: str) -> Exchange:
    exchange = channel.vhost.topology.exchanges.get(name)
    if exchange is None:
        raise ChannelFault(NOT_FOUND, f"no exchange '{name}' in vhost '{channel.vhost.name}'")
    return exchange


def _refuse_default(name: str) -> None:
    if not name:
        raise ChannelFault(ACCESS_REFUSED, "operation not permitted on the default exchange")


def single_line(name: str) -> str:
    """RabbitMQ removes line breaks from names first."""
    return name.replace("\r", "").replace("\n", "")


GENERATED_PREFIX: Final = "amq.gen-"


def queue_declare(channel: Channel, method: Method) -> None:
    assert isinstance(method, QueueDeclare)
    pending = pending_declare_of(channel)
    name = single_line(method.queue)
    if name.startswith(direct_reply.REPLY_TO):
        _declare_reply_queue(channel, name, method)
        return
    if not method.passive:
        name = _name_to_declare(channel, name, pending)
        # a generated name must be the same when the frame is handled again, which a permission may cause as well
        channel.pending = pending
        if not _declare_queue(channel, name, method, pending):
            pending.wait()
            return
        channel.pending = None
    queue = _open_queue(channel, name)
    queue.check_usable()
    if not remote_queues.has_current_counts(channel, queue):
        # a generated name must be the same when the frame is handled again
        channel.pending = pending
        return
    if not method.passive:
        channel.node.turn.stats.queues_declared += 1
    queue.touch()
    queue.drain()
    channel.last_queue = queue.name
    if not method.nowait:
        counts = QueueDeclareOk(queue.name, queue.ready_count(), queue.consumer_count())
        answer(channel, counts, queue.durable)


def _open_queue(channel: Channel, name: str) -> QueuePort:
    queue = channel.vhost.queue(name)
    if queue is None:
        raise ChannelFault(NOT_FOUND, f"no queue '{name}' in vhost '{channel.vhost.name}'")
    channel.connection.check_owner(queue)
    return queue


def _name_to_declare(channel: Channel, name: str, pending: PendingDeclare) -> str:
    if not name:
        if not pending.fresh_name:
            pending.fresh_name = channel.node.fresh_name(GENERATED_PREFIX)
        return pending.fresh_name
    if name.startswith(RESERVED_PREFIX):
        raise ChannelFault(ACCESS_REFUSED, f"queue name '{name}' contains reserved prefix 'amq.*'")
    return name


def _declare_queue(channel: Channel, name: str, method: QueueDeclare, pending: PendingDeclare) -> bool:
    """Whether the queue exists."""
    channel.rights.to_configure(QUEUE, name)
    existing = channel.vhost.queue(name)
    if existing is not None:
        channel.connection.check_owner(existing)
        arguments = without_aliases(name, channel.vhost.name, method.arguments)
        check_equivalent(existing, _is_durable(method), method.exclusive, method.auto_delete, arguments)
        return _has_all_partitions(channel, existing, pending)
    new = [_new_queue(channel, name, method, 0)]
    if not channel.vhost.applies_immediately():
        _add_following(channel, new)
    return channel.vhost.declare_queues(new, pending)


def _has_all_partitions(channel: Channel, existing: QueuePort, pending: PendingDeclare) -> bool:
    """Whether all partitions exist; missing ones, lost with their node, are declared again."""
    queues = channel.vhost.topology.queues
    names = partition_names(existing.name, existing.arguments)
    if all(name in queues for name in names):
        return True
    arguments = partition_arguments(existing.name, existing.arguments)
    missing = [name for name in names if name not in queues]
    lost = [QueueDefinition(existing.vhost, name, True, False, False, arguments) for name in missing]
    return channel.vhost.declare_queues(lost, pending)


def _is_durable(method: QueueDeclare) -> bool:
    """An exclusive queue is deleted with its connection, so it is never durable."""
    return method.durable and not method.exclusive


def _new_queue(channel: Channel, name: str, method: QueueDeclare, before: int) -> QueueDefinition:
    """The definition of a new queue, which has `before` others ahead of it; a fault if it is not allowed."""
    vhost, durable, exclusive = channel.vhost.name, _is_durable(method), method.exclusive
    arguments = without_aliases(name, vhost, method.arguments)
    _check_new_queue(channel, name, arguments, before)
    validate_declaration(name, vhost, durable, exclusive, method.auto_delete, arguments)
    check_partition_names(name, vhost, arguments, channel.vhost.topology.queues)
    owner_id = channel.connection.connection_id if exclusive else 0
    return QueueDefinition(vhost, name, durable, exclusive, method.auto_delete, arguments, owner=owner_id)


def _add_following(channel: Channel, row: list[QueueDefinition]) -> None:
    """Add the queues of the declares that follow, up to the first that may end differently."""
    queues = channel.vhost.topology.queues
    for method in pipelined_declares(channel):
        name = single_line(method.queue)
        known = name in queues or name in [queue.name for queue in row] or PARTITIONS in method.arguments
        if known or method.passive or not name or name.startswith(RESERVED_PREFIX):
            return
        try:
            channel.rights.to_configure(QUEUE, name)
            row.append(_new_queue(channel, name, method, len(row)))
        except (ProtocolFault, PermissionUnknown):
            # its own frame asks for the permission
            return


def _check_new_queue(channel: Channel, name: str, arguments: Table, before: int) -> None:
    """Check the limit of queues, and the permissions for dead-letter exchange and copied queues."""
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


def _declare_reply_queue(channel: Channel, name: str, method: QueueDeclare) -> None:
    """A client may check whether an inbox exists by declaring it."""
    if name != direct_reply.REPLY_TO and not direct_reply.is_open(channel.node, name):
        raise ChannelFault(NOT_FOUND, f"no queue '{name}' in vhost '{channel.vhost.name}'")
    if not method.nowait:
        channel.send(QueueDeclareOk(queue=name, message_count=0, consumer_count=1))
