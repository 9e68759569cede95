"""Which function answers which method of an open channel.

Not here: channel.open, channel.close and what runs millions of times, publish and ack (`session.input`).
"""

from collections.abc import Callable
from typing import Final

from warren.errors import COMMAND_INVALID, NOT_IMPLEMENTED, ConnectionFault
from warren.session import consuming, declaring, declaring_queues, settling, transaction
from warren.session.channel import Channel
from warren.wire.methods import AccessRequestOk, ChannelFlow, ChannelFlowOk, Method


def access_request(channel: Channel, method: Method) -> None:
    """Clients of the 0-8 age ask for a ticket that nobody looks at."""
    channel.send(AccessRequestOk(ticket=1))


def channel_flow(channel: Channel, method: Method) -> None:
    assert isinstance(method, ChannelFlow)
    if not method.active:
        raise ConnectionFault(NOT_IMPLEMENTED, "active=false")
    channel.send(ChannelFlowOk(active=True))


HANDLERS: Final[dict[str, Callable[[Channel, Method], None]]] = {
    "access.request": access_request,
    "channel.flow": channel_flow,
    "exchange.declare": declaring.exchange_declare,
    "exchange.delete": declaring.exchange_delete,
    "exchange.bind": declaring.exchange_bind,
    "exchange.unbind": declaring.exchange_unbind,
    "queue.declare": declaring_queues.queue_declare,
    "queue.bind": declaring.queue_bind,
    "queue.unbind": declaring.queue_unbind,
    "queue.purge": declaring.queue_purge,
    "queue.delete": declaring.queue_delete,
    "basic.qos": consuming.basic_qos,
    "basic.consume": consuming.basic_consume,
    "basic.cancel": consuming.basic_cancel,
    "basic.get": consuming.basic_get,
    "basic.nack": settling.basic_nack,
    "basic.reject": settling.basic_reject,
    "basic.recover": settling.basic_recover,
    "basic.recover-async": settling.basic_recover_async,
    "tx.select": transaction.tx_select,
    "tx.commit": transaction.tx_commit,
    "tx.rollback": transaction.tx_rollback,
    "confirm.select": transaction.confirm_select,
}


def handle(channel: Channel, method: Method) -> None:
    handler = HANDLERS.get(method.name)
    if handler is None:
        raise ConnectionFault(COMMAND_INVALID, "unimplemented method")
    handler(channel, method)
