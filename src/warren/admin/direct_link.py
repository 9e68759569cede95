"""AMQP without a socket: what a user does over HTTP to queues and exchanges is done by a connection inside the process.

So permissions, faults and their texts, confirms and waiting for the disk are the same as for any other client, by
construction. A direct link has one channel, takes the user's word for granted (who it is was proven over HTTP), and
is neither listed nor counted among the connections.

::

    resource ──ask(method)──► frames ──BytesReceived──► core ──SendBytes──► write ──► the method that answers

One request is under way at a time. A `channel.close` or `connection.close` of the core ends the link; it is raised as
`LinkFault` by the request under way.

Whoever consumes sets `deliver` first. Deliveries do not wait here: a consumer that has enough says so (`pause`), as a
full socket would, and the rest stays in its queue.

Not here: what a fault is called in HTTP (`admin.resources`), the handshake's other side (`broker.sessions.handshake`).
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
from warren.errors import CONNECTION_FORCED, WarrenError
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
    """The core ended the link because of what was asked: AMQP's reply code, and its text without the code's name."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class BrokerGateway(Protocol):
    """Where the core's events go in, and where its bytes for a connection come out."""

    links: dict[int, Any]

    def add(self, event: Event) -> None: ...


class DirectLinks:
    """Makes direct links into one node."""

    def __init__(self, gateway: BrokerGateway, next_id: Callable[[], int], frame_bytes_max: int) -> None:
        self._gateway = gateway
        self._next_id = next_id
        self._frame_bytes_max = frame_bytes_max

    def unconnected(self) -> "DirectLink":
        """A link for somebody who connects it, and hangs up."""
        return DirectLink(self._gateway, self._next_id(), self._frame_bytes_max)

    @asynccontextmanager
    async def open(self, user: str, vhost: str) -> AsyncIterator["DirectLink"]:
        """A link as that user, its channel open; a `LinkFault` if the user may not enter that virtual host."""
        link = self.unconnected()
        try:
            await link.connect(user, vhost)
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
        self._heard: asyncio.Queue[ReceivedMethod | LinkFault] = asyncio.Queue()
        self._confirming = False
        self._published = 0
        self._gone = False
        # who takes what is delivered
        self.deliver: Callable[[ReceivedMethod], None] | None = None
        # the core writes to a connection's transport
        self.transport = self

    async def connect(self, user: str, vhost: str) -> None:
        opened = ConnectionOpened(self._connection_id, "127.0.0.1", 0, "127.0.0.1", 0, internal=True, trusted_user=user)
        self._gateway.links[self._connection_id] = self
        self._gateway.add(opened)
        hello = [
            (0, ConnectionStartOk("EXTERNAL", b"")),
            (0, ConnectionTuneOk(channel_max=CHANNEL, frame_max=self._frame_bytes_max, heartbeat=0)),
            (0, ConnectionOpen(virtual_host=vhost)),
            (CHANNEL, ChannelOpen()),
        ]
        frames = b"".join(encode_method(channel, method) for channel, method in hello)
        self._send(PROTOCOL_HEADER + frames)
        await self._hear(ChannelOpenOk)

    async def ask(self, method: Method, answer: type[_Answer]) -> _Answer:
        """What a method is answered with."""
        return (await self.ask_content(method, answer))[0]

    async def ask_content(self, method: Method, answer: type[_Answer]) -> tuple[_Answer, ReceivedMethod]:
        """The same for an answer that content comes with."""
        self._send(encode_method(CHANNEL, method))
        return await self._hear(answer)

    async def ask_either(self, method: Method, *answers: type[Method]) -> ReceivedMethod:
        """What a method is answered with that has several answers."""
        self._send(encode_method(CHANNEL, method))
        return await self._next(answers)

    def tell(self, method: Method) -> None:
        """Say something that has no answer."""
        self._send(encode_method(CHANNEL, method))

    async def publish(self, exchange: str, routing_key: str, properties: Properties, body: bytes) -> bool:
        """Publish a mandatory message and wait until it is safe; whether it found a queue that took it."""
        header = encode_header_payload(properties, len(body))
        return (await self.publish_all(exchange, routing_key, [(header, body)]))[0]

    async def publish_all(self, exchange: str, routing_key: str, contents: list[tuple[bytes, bytes]]) -> list[bool]:
        """The same for several messages, each the payload of its header frame and its body."""
        if not self._confirming:
            self._confirming = True
            await self.ask(ConfirmSelect(), ConfirmSelectOk)
        publish = encode_method(CHANNEL, BasicPublish(exchange, routing_key, mandatory=True))
        for header, body in contents:
            self._send(publish + content_frames(header, body, CHANNEL, self._frame_bytes_max))
        first = self._published + 1
        self._published += len(contents)
        return await self._outcomes(first, len(contents))

    async def _outcomes(self, first: int, count: int) -> list[bool]:
        """Of so many publishes, beginning with this number, which were taken."""
        taken: list[bool | None] = [None] * count
        returned = False
        while None in taken:
            heard = await self._next((BasicReturn, BasicAck, BasicNack))
            method = heard.method
            if isinstance(method, BasicReturn):
                # the ack that follows is that of what came back
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
        """Why the core ended a link that waits for no answer, once it has."""
        while True:
            heard = await self._heard.get()
            if isinstance(heard, LinkFault):
                return heard

    def pause(self) -> None:
        """Nothing more is delivered, but for what is on its way in this turn."""
        self._gateway.add(WritesPaused(self._connection_id))

    def resume(self) -> None:
        self._gateway.add(WritesResumed(self._connection_id))

    def hang_up(self) -> None:
        """The core forgets the connection, and gives back what it holds."""
        if not self._gone:
            self._gone = True
            self._gateway.links.pop(self._connection_id, None)
            self._gateway.add(ConnectionDropped(self._connection_id))

    # -- what the core's effects do

    def write(self, data: bytes) -> None:
        for heard in self._stream.feed(data):
            method = heard.method
            if isinstance(method, ChannelClose | ConnectionClose):
                self._heard.put_nowait(_fault_of(method))
            elif self.deliver is not None and isinstance(method, BasicDeliver):
                self.deliver(heard)
            else:
                self._heard.put_nowait(heard)

    def close(self) -> None:
        self._heard.put_nowait(LinkFault(CONNECTION_FORCED, "the connection was closed"))
        if not self._gone:
            self._gone = True
            self._gateway.add(ConnectionDropped(self._connection_id))

    def abort(self) -> None:
        self.close()

    def pause_reading(self) -> None:
        """The core keeps what it cannot look at yet, which is one request at most."""

    def resume_reading(self) -> None:
        """See `pause_reading`."""

    # -- requests and answers

    def _send(self, data: bytes) -> None:
        self._gateway.add(BytesReceived(self._connection_id, data))

    async def _hear(self, answer: type[_Answer]) -> tuple[_Answer, ReceivedMethod]:
        heard = await self._next((answer,))
        assert isinstance(heard.method, answer)
        return heard.method, heard

    async def _next(self, answers: tuple[type[Method], ...]) -> ReceivedMethod:
        while True:
            heard = await self._heard.get()
            if isinstance(heard, LinkFault):
                raise heard
            if isinstance(heard.method, answers):
                return heard


def _fault_of(method: ChannelClose | ConnectionClose) -> LinkFault:
    # the text begins with the name of the code: NOT_FOUND - no queue …
    return LinkFault(method.reply_code, method.reply_text.partition(" - ")[2] or method.reply_text)
