"""AMQP connections without a socket: HTTP requests on queues and exchanges run as a client inside the process.

So permissions, faults and their texts, confirms and waiting for the disk are the same as for other clients. A direct
link has one channel. It needs no password, because the user has logged in over HTTP. It is neither listed nor counted
among the connections.

::

    resource ──ask(method)──► frames ──BytesReceived──► core ──SendBytes──► write ──► the reply

One request is in progress at a time. A `channel.close` or `connection.close` of the core ends the link and is raised as
`LinkFault` by the request in progress.

A consumer sets `deliver` before it consumes. Deliveries are not buffered: a consumer that has enough calls `pause`, as
a full socket would, and the rest stays in the queue.

Not here: HTTP statuses of faults (`resources.user_links`), the broker's side of the handshake
(`broker.sessions.handshake`).
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

from warren.broker.model.events import (
    BytesReceived,
    ConnectionDropped,
    ConnectionOpened,
    Event,
    WritesPaused,
    WritesResumed,
)
from warren.broker.model.identity import Identity
from warren.errors import CONNECTION_FORCED, SYNTAX_ERROR, WarrenError
from warren.wire.frames import PROTOCOL_HEADER, content_frames
from warren.wire.method_stream import MethodStream, ReceivedMethod
from warren.wire.methods import (
    BasicAck,
    BasicDeliver,
    BasicNack,
    BasicPublish,
    BasicReturn,
    ChannelClose,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    Method,
    encode_method,
)
from warren.wire.properties import Properties, encode_header_payload

CHANNEL = 1
_Answer = TypeVar("_Answer", bound=Method)


class LinkFault(WarrenError):
    """The core closed the link: AMQP's reply code, and its text without the code's name."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class BrokerGateway(Protocol):
    """Sends events to the core, and receives its bytes for a connection."""

    links: dict[int, Any]

    def add(self, event: Event) -> None: ...


class DirectLinks:
    """Opens direct links into one node."""

    def __init__(self, gateway: BrokerGateway, next_id: Callable[[], int], frame_bytes_max: int) -> None:
        self._gateway = gateway
        self._next_id = next_id
        self._frame_bytes_max = frame_bytes_max

    def unconnected(self) -> "DirectLink":
        """A link that the caller connects and closes."""
        return DirectLink(self._gateway, self._next_id(), self._frame_bytes_max)

    @asynccontextmanager
    async def open(self, identity: Identity, vhost: str) -> AsyncIterator["DirectLink"]:
        """A link as that user with an open channel; `LinkFault` if the user may not enter the virtual host."""
        link = self.unconnected()
        try:
            await link.connect(identity, vhost)
            yield link
        finally:
            link.hang_up()


class DirectLink:
    """One connection with one channel."""

    def __init__(self, gateway: BrokerGateway, connection_id: int, frame_bytes_max: int) -> None:
        self._gateway = gateway
        self._connection_id = connection_id
        self._frame_bytes_max = frame_bytes_max
        self._stream = MethodStream(frame_bytes_max)
        self._received: asyncio.Queue[ReceivedMethod | LinkFault] = asyncio.Queue()
        self._confirming = False
        self._published = 0
        self._gone = False
        # the handler of deliveries
        self.deliver: Callable[[ReceivedMethod], None] | None = None
        # the core writes to the transport of a connection
        self.transport = self

    async def connect(self, identity: Identity, vhost: str) -> None:
        opened = ConnectionOpened(self._connection_id, "127.0.0.1", 0, "127.0.0.1", 0, internal=True, identity=identity)
        self._gateway.links[self._connection_id] = self
        self._gateway.add(opened)
        hello = [
            (0, ConnectionStartOk("EXTERNAL", b"")),
            (0, ConnectionTuneOk(channel_max=CHANNEL, frame_max=self._frame_bytes_max, heartbeat=0)),
            (0, ConnectionOpen(virtual_host=vhost)),
            (CHANNEL, ChannelOpen()),
        ]
        frames = b"".join(_encoded(method, channel) for channel, method in hello)
        self._send(PROTOCOL_HEADER + frames)
        await self._receive(ChannelOpenOk)

    async def ask(self, method: Method, answer: type[_Answer]) -> _Answer:
        """The reply to a method."""
        return (await self.ask_content(method, answer))[0]

    async def ask_content(self, method: Method, answer: type[_Answer]) -> tuple[_Answer, ReceivedMethod]:
        """The reply to a method, with its content."""
        self._send(_encoded(method))
        return await self._receive(answer)

    async def ask_either(self, method: Method, *answers: type[Method]) -> ReceivedMethod:
        """The reply to a method that has several possible replies."""
        self._send(_encoded(method))
        return await self._next(answers)

    def send_method(self, method: Method) -> None:
        """Send a method that has no reply."""
        self._send(_encoded(method))

    async def publish(self, exchange: str, routing_key: str, properties: Properties, body: bytes) -> bool:
        """Publish a mandatory message and wait for its confirm; whether a queue accepted it."""
        header = encode_header_payload(properties, len(body))
        return (await self.publish_all(exchange, routing_key, [(header, body)]))[0]

    async def publish_all(self, exchange: str, routing_key: str, contents: list[tuple[bytes, bytes]]) -> list[bool]:
        """The same for several messages: the payload of the header frame and the body of each."""
        if not self._confirming:
            self._confirming = True
            await self.ask(ConfirmSelect(), ConfirmSelectOk)
        publish = _encoded(BasicPublish(exchange, routing_key, mandatory=True))
        for header, body in contents:
            self._send(publish + content_frames(header, body, CHANNEL, self._frame_bytes_max))
        first = self._published + 1
        self._published += len(contents)
        return await self._outcomes(first, len(contents))

    async def _outcomes(self, first: int, count: int) -> list[bool]:
        """For each of these publishes, beginning with this number, whether it was accepted."""
        taken: list[bool | None] = [None] * count
        returned = False
        while None in taken:
            received = await self._next((BasicReturn, BasicAck, BasicNack))
            method = received.method
            if isinstance(method, BasicReturn):
                # the next ack is that of the returned message
                returned = True
            elif isinstance(method, BasicAck | BasicNack):
                good = isinstance(method, BasicAck) and not returned
                returned = False
                last = method.delivery_tag - first
                for at in range(0 if method.multiple else last, last + 1):
                    if taken[at] is None:
                        taken[at] = good
        return [outcome is True for outcome in taken]

    async def ended(self) -> LinkFault:
        """Why the core closed a link that waits for no reply; None while it is open."""
        while True:
            received = await self._received.get()
            if isinstance(received, LinkFault):
                return received

    def pause(self) -> None:
        """Stop deliveries, except those of the current turn."""
        self._gateway.add(WritesPaused(self._connection_id))

    def resume(self) -> None:
        self._gateway.add(WritesResumed(self._connection_id))

    def hang_up(self) -> None:
        """Close the connection; the core requeues what it holds."""
        if not self._gone:
            self._gone = True
            self._gateway.links.pop(self._connection_id, None)
            self._gateway.add(ConnectionDropped(self._connection_id))

    # -- called by the core's effects

    def write(self, data: bytes) -> None:
        for received in self._stream.feed(data):
            method = received.method
            if isinstance(method, ChannelClose | ConnectionClose):
                self._received.put_nowait(_fault_of(method))
            elif self.deliver is not None and isinstance(method, BasicDeliver):
                self.deliver(received)
            else:
                self._received.put_nowait(received)

    def close(self) -> None:
        self._received.put_nowait(LinkFault(CONNECTION_FORCED, "the connection was closed"))
        if not self._gone:
            self._gone = True
            self._gateway.add(ConnectionDropped(self._connection_id))

    def abort(self) -> None:
        self.close()

    def pause_reading(self) -> None:
        """Nothing to do: the core buffers at most one request."""

    def resume_reading(self) -> None:
        """See `pause_reading`."""

    # -- requests and replies

    def _send(self, data: bytes) -> None:
        self._gateway.add(BytesReceived(self._connection_id, data))

    async def _receive(self, answer: type[_Answer]) -> tuple[_Answer, ReceivedMethod]:
        received = await self._next((answer,))
        assert isinstance(received.method, answer)
        return received.method, received

    async def _next(self, answers: tuple[type[Method], ...]) -> ReceivedMethod:
        while True:
            received = await self._received.get()
            if isinstance(received, LinkFault):
                raise received
            if isinstance(received.method, answers):
                return received


def _encoded(method: Method, channel: int = CHANNEL) -> bytes:
    try:
        return encode_method(channel, method)
    except ValueError as error:
        # a name from a request's path is too long for AMQP
        raise LinkFault(SYNTAX_ERROR, str(error)) from error


def _fault_of(method: ChannelClose | ConnectionClose) -> LinkFault:
    # the text begins with the name of the code: NOT_FOUND - no queue …
    return LinkFault(method.reply_code, method.reply_text.partition(" - ")[2] or method.reply_text)
