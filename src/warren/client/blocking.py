"""The client for programs without an event loop: every call blocks until it is done.

    with warren.client.blocking.connect(url) as connection:
        channel = connection.channel(confirms=True)

This is not a second implementation. Each connection has a thread with an event loop that runs the asyncio client, and a
call here waits for the same call there, with the same arguments. So heartbeats and confirms are handled while the
program computes. A call costs about 50 µs for the switch to the thread and back; bulk calls (`send_many`,
`Consumer.batch`, iteration) share that cost among their messages.

`ack` and `nack` do not wait. They are handed over in order, and sent with the next step of the thread.

Several threads may use one connection. A forked process may not use the connection of its parent.

Not here: the calls themselves (`client.connection`, `client.channel`), the thread (`client.loop_thread`).
"""

import ssl
from collections.abc import Callable, Coroutine, Iterator
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

from warren.client import channel as on_loop
from warren.client import connection
from warren.client.channel import Consumer as LoopConsumer
from warren.client.connection import CLOSE_DEADLINE_S
from warren.client.connection import Connection as LoopConnection
from warren.client.loop_thread import LoopFuture, LoopThread
from warren.client.machine.deliveries import Delivery
from warren.client.machine.publishes import Message
from warren.client.with_blocks import ClosedAtEnd
from warren.wire.field_tables import Table

P = ParamSpec("P")
R = TypeVar("R")


def _waits(
    method: Callable[Concatenate[on_loop.Channel, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate["Channel", P], R]:
    """The blocking form of a coroutine method."""

    def call(self: "Channel", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._thread.run(method(self._inner, *args, **kwargs))

    update_wrapper(call, method)
    return call


def _hands_over(method: Callable[Concatenate[on_loop.Channel, P], None]) -> Callable[Concatenate["Channel", P], None]:
    """A method that is handed over without waiting; its error is raised by the next call that waits."""

    def call(self: "Channel", /, *args: P.args, **kwargs: P.kwargs) -> None:
        self._thread.post(lambda: method(self._inner, *args, **kwargs))

    update_wrapper(call, method)
    return call


class Consumer:
    """Deliveries in order: iterate, or take all that are there."""

    def __init__(self, thread: LoopThread, inner: LoopConsumer) -> None:
        self._thread = thread
        self._inner = inner

    @property
    def tag(self) -> str:
        return self._inner.tag

    def batch(self, timeout_s: float | None = None) -> list[Delivery]:
        """All deliveries that are there, at least one; none after the timeout or `cancel`."""
        return self._thread.run(self._inner.batch(timeout_s))

    def __iter__(self) -> Iterator[Delivery]:
        while batch := self.batch():
            yield from batch

    def cancel(self) -> None:
        self._thread.run(self._inner.cancel())


class Channel(ClosedAtEnd):
    """A channel of a connection."""

    def __init__(self, thread: LoopThread, inner: on_loop.Channel) -> None:
        self._thread = thread
        self._inner = inner

    @property
    def number(self) -> int:
        return self._inner.number

    @property
    def is_open(self) -> bool:
        return self._inner.is_open

    @property
    def unconfirmed(self) -> int:
        return self._inner.unconfirmed

    declare_queue = _waits(on_loop.Channel.declare_queue)
    bind_queue = _waits(on_loop.Channel.bind_queue)
    unbind_queue = _waits(on_loop.Channel.unbind_queue)
    purge_queue = _waits(on_loop.Channel.purge_queue)
    delete_queue = _waits(on_loop.Channel.delete_queue)
    declare_exchange = _waits(on_loop.Channel.declare_exchange)
    bind_exchange = _waits(on_loop.Channel.bind_exchange)
    unbind_exchange = _waits(on_loop.Channel.unbind_exchange)
    delete_exchange = _waits(on_loop.Channel.delete_exchange)
    confirm = _waits(on_loop.Channel.confirm)
    send = _waits(on_loop.Channel.send)
    send_many = _waits(on_loop.Channel.send_many)
    send_encoded = _waits(on_loop.Channel.send_encoded)
    wait_for_confirms = _waits(on_loop.Channel.wait_for_confirms)
    prefetch = _waits(on_loop.Channel.prefetch)
    get = _waits(on_loop.Channel.get)
    recover = _waits(on_loop.Channel.recover)
    select_transactions = _waits(on_loop.Channel.select_transactions)
    commit = _waits(on_loop.Channel.commit)
    rollback = _waits(on_loop.Channel.rollback)
    close = _waits(on_loop.Channel.close)
    ack = _hands_over(on_loop.Channel.ack)
    nack = _hands_over(on_loop.Channel.nack)
    _subscribe = _waits(on_loop.Channel.consume)
    _publish_in_time = _waits(on_loop.Channel.publish)

    def publish(
        self,
        message: bytes | Message,
        exchange: str = "",
        routing_key: str = "",
        *,
        mandatory: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """Send a message; with confirms return when the broker has it, or raise `PublishFailed`."""
        if timeout_s is not None:
            self._publish_in_time(message, exchange, routing_key, mandatory=mandatory, timeout_s=timeout_s)
            return
        inner = self._inner
        self._thread.wait(lambda waited: _publish(inner, message, exchange, routing_key, mandatory, waited))

    def consume(
        self,
        queue: str,
        *,
        tag: str = "",
        no_ack: bool = False,
        exclusive: bool = False,
        arguments: Table | None = None,
    ) -> Consumer:
        inner = self._subscribe(queue, tag=tag, no_ack=no_ack, exclusive=exclusive, arguments=arguments)
        return Consumer(self._thread, inner)


def _publish(
    channel: on_loop.Channel,
    message: bytes | Message,
    exchange: str,
    routing_key: str,
    mandatory: bool,
    waited: LoopFuture[None],
) -> None:
    """`Channel.publish` on the loop, without a task for a message that can be sent at once."""
    whole = Message(message) if isinstance(message, bytes) else message
    number = channel.publisher.send_at_once(whole, exchange, routing_key, mandatory)
    if number is None:
        waited.follow(channel.publish(whole, exchange, routing_key, mandatory=mandatory))
    elif number:
        channel.publisher.add_waiter(number, waited)
    else:
        waited.set_result(None)


class Connection(ClosedAtEnd):
    def __init__(self, thread: LoopThread, inner: LoopConnection) -> None:
        self._thread = thread
        self._inner = inner

    @property
    def server_properties(self) -> Table:
        return self._inner.server_properties

    @property
    def is_open(self) -> bool:
        return self._inner.is_open

    @property
    def frame_max(self) -> int:
        return self._inner.frame_max

    @property
    def blocked_reason(self) -> str | None:
        return self._inner.blocked_reason

    def channel(self, *, confirms: bool = False, window: int | None = None) -> Channel:
        return Channel(self._thread, self._thread.run(self._inner.channel(confirms=confirms, window=window)))

    def close(self, deadline_s: float = CLOSE_DEADLINE_S) -> None:
        """Close the connection and its thread."""
        self._thread.stop(self._inner.close(deadline_s))


def connect(
    url: str,
    *,
    name: str = "",
    call_timeout_s: float = connection.CALL_TIMEOUT_S,
    ssl_context: ssl.SSLContext | None = None,
) -> Connection:
    """Connect to the first host of an AMQP URL that answers."""
    thread = LoopThread()
    try:
        coroutine = connection.connect(url, name=name, call_timeout_s=call_timeout_s, ssl_context=ssl_context)
        return Connection(thread, thread.run(coroutine))
    except BaseException:
        thread.stop()
        raise
