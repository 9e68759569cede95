"""The transport for programs without an event loop: every call blocks until it is done.

    with open("amqp://localhost") as transport:
        transport.publish([Outgoing(Message(b"tea"), routing_key="orders")])

This is not a second implementation: a thread with an event loop runs the calls of a transport. So the connection stays
alive while the program computes. Several threads, and other blocking objects (pullers, requesters, relays), may share
one transport.

`ack` and `nack` do not wait: the thread gets them in order.

Not here: the calls themselves (`recovering.transport`), the thread (`client.loop_thread`).
"""

import ssl
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from warren.client.connection import CALL_TIMEOUT_S
from warren.client.errors import ClientError
from warren.client.loop_thread import LoopThread
from warren.client.recovering import transport as on_loop
from warren.client.recovering.connection import Observer
from warren.client.transport import Incoming, Layout, MessageView, Outgoing
from warren.client.transport import Transport as LoopTransport
from warren.client.with_blocks import ClosedAtEnd

__all__ = ["Taken", "Transport", "open"]

R = TypeVar("R")


class Taken(MessageView[Incoming]):
    """A delivered message, an `Incoming` for any thread."""

    def __init__(self, thread: LoopThread, inner: Incoming) -> None:
        super().__init__(inner)
        self._thread = thread

    @property
    def is_ours(self) -> bool:
        return self._message.is_ours

    def ack(self) -> None:
        """Acknowledge the message."""
        self._thread.post(self._message.ack)

    def nack(self, *, requeue: bool = True) -> None:
        """Refuse the message: requeue it, or dead-letter it."""
        self._thread.post(lambda: self._message.nack(requeue=requeue))

    def __repr__(self) -> str:
        return f"<Taken: {self._message!r}>"


class Transport(ClosedAtEnd):
    """A transport and its thread; `open` makes it, and `close` ends both."""

    def __init__(self, opening: Coroutine[Any, Any, LoopTransport]) -> None:
        """`opening` is awaited in the thread and may make any transport, also a traced one or one in memory."""
        self.thread = LoopThread()
        try:
            self.inner = self.thread.run(opening)
        except BaseException:
            self.thread.stop()
            raise

    def run(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine in the thread, and return its result."""
        return self.thread.run(coroutine)

    def post(self, call: Callable[[], None]) -> None:
        """Run a call in the thread without waiting."""
        self.thread.post(call)

    def publish(self, messages: Sequence[Outgoing], timeout_s: float | None = None) -> list[ClientError | None]:
        """For each message None if the broker has it, or its error."""
        return self.run(self.inner.publish(messages, timeout_s))

    def publish_together(self, messages: Sequence[Outgoing], timeout_s: float | None = None) -> None:
        """Publish all messages in one transaction; the `outcome` of an error says whether the broker has none."""
        self.run(self.inner.publish_together(messages, timeout_s))

    def send(self, messages: Sequence[Outgoing]) -> None:
        """Publish without confirms: the outcome is not reported."""
        self.run(self.inner.send(messages))

    def get(self, queue: str, *, no_ack: bool = False) -> Taken | None:
        """The first ready message of a queue, if it has one."""
        found = self.run(self.inner.get(queue, no_ack=no_ack))
        return None if found is None else Taken(self.thread, found)

    def declare(self, layout: Layout) -> None:
        """Declare a layout now, and again after each failure of the connection."""
        self.run(self.inner.declare(layout))

    def close(self, deadline_s: float = on_loop.CLOSE_S) -> None:
        """Take no more, wait for acks and confirms, and end within the deadline, with the thread."""
        self.thread.stop(self.inner.close(deadline_s))


def open(
    url: str,
    *,
    name: str = "",
    window: int = on_loop.WINDOW,
    call_timeout_s: float = CALL_TIMEOUT_S,
    ssl_context: ssl.SSLContext | None = None,
    observer: Observer | None = None,
) -> Transport:
    """Open a transport to the brokers of an AMQP URL. The observer is called in the thread."""

    async def opening() -> LoopTransport:
        return await on_loop.open(
            url, name=name, window=window, call_timeout_s=call_timeout_s, ssl_context=ssl_context, observer=observer
        )

    return Transport(opening())
