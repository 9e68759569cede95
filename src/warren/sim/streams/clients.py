"""Clients of streams: publishers that publish each message once, readers that go on where they were, or begin anew.

Not here: what they remember (`sim.streams.ledger`).
"""

from typing import TYPE_CHECKING

from warren.sim.client import Client
from warren.sim.streams.ledger import StreamLedger
from warren.wire.frames import content_frames
from warren.wire.method_stream import Heard
from warren.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicNack,
    BasicPublish,
    BasicQos,
    ChannelOpen,
    ConfirmSelect,
    Method,
)
from warren.wire.properties import Properties, decode_properties, encode_header_payload
from warren.wire.values import Table

if TYPE_CHECKING:
    from warren.sim.clockwork import Clockwork

CHANNEL = 1
WINDOW = 40


class StreamPublisher(Client):
    """Publishes to one stream, with confirms. What is not confirmed when a connection ends is left at that."""

    def __init__(
        self, world: "Clockwork", name: str, topology: list[Method], ledger: StreamLedger, sizes: tuple[int, ...]
    ) -> None:
        super().__init__(world, name, topology)
        self._ledger = ledger
        self._sizes = sizes
        self._number = 0
        self._tag = 0
        self._unconfirmed: dict[int, str] = {}

    def opened(self) -> None:
        self._tag = 0
        self._unconfirmed.clear()
        self.send(CHANNEL, ChannelOpen())
        self.declare(CHANNEL)
        self.send(CHANNEL, ConfirmSelect())

    def act(self) -> None:
        if self.calmed:
            return
        for _ in range(min(self.chance.randint(0, 8), WINDOW - len(self._unconfirmed))):
            self._publish()

    def _publish(self) -> None:
        self._number += 1
        self._tag += 1
        self._ledger.published += 1
        message = f"{self.name} {self._number}"
        body = message.encode().ljust(self.chance.choice(self._sizes), b".")
        payload = encode_header_payload(Properties(delivery_mode=self.chance.choice((1, 2))), len(body))
        self._unconfirmed[self._tag] = message
        content = content_frames(payload, body, CHANNEL, self.frame_max)
        self.send(CHANNEL, BasicPublish("", self._ledger.name), content=content)

    def heard(self, heard: Heard) -> None:
        method = heard.method
        if isinstance(method, BasicAck | BasicNack):
            last = method.delivery_tag
            tags = [tag for tag in self._unconfirmed if tag <= last] if method.multiple else [last]
            for tag in tags:
                message = self._unconfirmed.pop(tag)
                if isinstance(method, BasicAck):
                    self._ledger.confirmed.add(message)

    def cut_off(self) -> None:
        self._unconfirmed.clear()

    def done(self) -> bool:
        return not self._unconfirmed

    def waiting_for(self) -> str:
        return f"{len(self._unconfirmed)} confirms"


class StreamReader(Client):
    """Reads one stream. One that is `thorough` begins with the first message, and remembers all it is given."""

    def __init__(
        self, world: "Clockwork", name: str, topology: list[Method], ledger: StreamLedger, thorough: bool = False
    ) -> None:
        super().__init__(world, name, topology)
        self.whole: dict[int, str] = {}
        self._ledger = ledger
        self._thorough = thorough
        self._prefetch = self.chance.choice((1, 3, 20, 200))
        self._ack_every = self.chance.randint(1, self._prefetch)
        self._before: int | None = None
        self._seen_to = -1

    def opened(self) -> None:
        self._before = None
        self.whole = {}
        self.send(CHANNEL, ChannelOpen())
        self.declare(CHANNEL)
        self.send(CHANNEL, BasicQos(prefetch_count=self._prefetch))
        anew = self._thorough or self.chance.random() < 0.3
        arguments: Table = {"x-stream-offset": "first" if anew else self._seen_to + 1}
        self.send(CHANNEL, BasicConsume(self._ledger.name, arguments=arguments))

    def act(self) -> None:
        if not self._thorough and not self.calmed and self.chance.random() < 0.02:
            self.say_goodbye()

    def heard(self, heard: Heard) -> None:
        method = heard.method
        if not isinstance(method, BasicDeliver):
            return
        headers = decode_properties(heard.header, 0, len(heard.header)).headers or {}
        offset = headers["x-stream-offset"]
        assert isinstance(offset, int)
        message = heard.body.decode().rstrip(".")
        self._ledger.saw(self.name, offset, self._before, message)
        self._before = offset
        self._seen_to = max(self._seen_to, offset)
        if self._thorough:
            self.whole[offset] = message
        if method.delivery_tag % self._ack_every == 0:
            self.send(CHANNEL, BasicAck(method.delivery_tag, multiple=True))

    def has_come_to(self, offset: int) -> bool:
        return self._before is not None and self._before >= offset
