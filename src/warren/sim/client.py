"""An AMQP client as a machine: it connects, shakes hands, reconnects when it is cut off, and beats its heart.

Everything after the handshake is pipelined, as AMQP allows: a client declares, subscribes and publishes without
waiting for answers, so that any cut falls between any two methods.

Roles (`sim.publisher`, `sim.consumer`) say what is done once the connection is open. `act` is called again and again;
after `calm` a client starts nothing of its own any more and only finishes what it began.

Not here: the bytes' way to the node (`sim.network`).
"""

from random import Random
from typing import TYPE_CHECKING

from warren.sim.history import Attempt
from warren.sim.network import Link, Spoken
from warren.wire.frames import HEARTBEAT_FRAME, PROTOCOL_HEADER
from warren.wire.method_stream import Heard, MethodStream
from warren.wire.methods import (
    ChannelClose,
    ChannelCloseOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
    encode_method,
)
from warren.wire.values import Table

if TYPE_CHECKING:
    from warren.sim.clockwork import Clockwork, Host

BEAT_AFTER_MS = 500
CAPABILITIES: Table = {
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "basic.nack": True,
    "publisher_confirms": True,
}


class Client:
    """What all clients do."""

    def __init__(self, world: "Clockwork", name: str, topology: list[Method]) -> None:
        self.world = world
        self.name = name
        self.chance = Random(f"{world.seed}/{name}")
        self.topology = topology
        self.link: Link | None = None
        self.is_open = False
        self.calmed = False
        self.connections = 0
        # 131,072 is what the node offers; a small one makes it cut bodies into several frames
        self.frame_max = self.chance.choice((131_072, 131_072, 4_096))
        self.pace_ms = self.chance.choice((10, 50, 200, 500))
        self._stream = MethodStream()
        self._written_at_ms = 0
        world.clients.append(self)
        world.schedule(self.chance.randint(0, 50), self._connect)
        world.schedule(self.pace_ms, self._tick)

    # -- what a role adds

    def opened(self) -> None:
        """The connection is open."""

    def act(self) -> None:
        """Some time has passed."""

    def heard(self, heard: Heard) -> None:
        """The node said something on a channel."""

    def channel_ended(self, number: int) -> None:
        """The node closed a channel."""

    def cut_off(self) -> None:
        """The connection is gone."""

    def done(self) -> bool:
        """Whether nothing is left to finish."""
        return True

    def waiting_for(self) -> str:
        return ""

    # -- what roles use

    def calm(self) -> None:
        self.calmed = True
        self.pace_ms = 5

    def send(
        self, channel: int, method: Method, attempt: Attempt | None = None, content: bytes = b"", provokes: bool = False
    ) -> None:
        if self.link is not None:
            self._written_at_ms = self.world.now_ms
            self.link.client_writes(
                encode_method(channel, method) + content, Spoken(channel, method, attempt, provokes)
            )

    def declare(self, channel: int) -> None:
        """Make sure that everything the workload uses is there."""
        for method in self.topology:
            self.send(channel, method)

    def say_goodbye(self) -> None:
        """Close the connection as one should; a new one follows."""
        self.is_open = False
        self.send(0, ConnectionClose(reply_code=200, reply_text="bye"))

    # -- the connection

    def received(self, link: Link, data: bytes) -> None:
        if link is self.link:
            for heard in self._stream.feed(data):
                self._hear(heard)

    def lost(self, link: Link) -> None:
        if link is not self.link:
            return
        self.world.trace.say(self.name, f"lost #{link.number}")
        self.link = None
        self.is_open = False
        self.cut_off()
        self.world.schedule(self.chance.randint(1, 20 if self.calmed else 200), self._connect)

    def _connect(self) -> None:
        self.connect_to(self.chance.choice(self.world.hosts()))

    def connect_to(self, host: "Host") -> None:
        self.connections += 1
        self._stream = MethodStream()
        self.link = self.world.network.connect(self, host)
        self.world.trace.say(self.name, f"connects as #{self.link.number}")
        self._written_at_ms = self.world.now_ms
        self.link.client_writes(PROTOCOL_HEADER, None)

    def _tick(self) -> None:
        if self.is_open and self.link is not None:
            self.act()
            if self.world.now_ms - self._written_at_ms >= BEAT_AFTER_MS:
                self._written_at_ms = self.world.now_ms
                self.link.client_writes(HEARTBEAT_FRAME, None)
        self.world.schedule(self.chance.randint(1, self.pace_ms), self._tick)

    def _hear(self, heard: Heard) -> None:
        method = heard.method
        if isinstance(method, ConnectionStart):
            self.send(0, ConnectionStartOk("PLAIN", b"\0guest\0guest", {"capabilities": CAPABILITIES}))
        elif isinstance(method, ConnectionTune):
            self.send(0, ConnectionTuneOk(method.channel_max, self.frame_max, method.heartbeat))
            self.send(0, ConnectionOpen())
        elif isinstance(method, ConnectionOpenOk):
            self.is_open = True
            self.opened()
        elif isinstance(method, ConnectionClose):
            self.is_open = False
            self.send(0, ConnectionCloseOk())
            self._hang_up()
        elif isinstance(method, ConnectionCloseOk):
            self._hang_up()
        elif isinstance(method, ChannelClose):
            self.send(heard.channel, ChannelCloseOk())
            self.channel_ended(heard.channel)
        elif self.is_open:
            self.heard(heard)

    def _hang_up(self) -> None:
        if self.link is not None:
            self.link.client_closes()
