"""A scripted broker: a client's state machine, and the bytes that a broker would send to it.

Not here: a broker that answers by itself (`tests.support.coupled`).
"""

from warren.client.machine.channel import ChannelMachine
from warren.client.machine.connection import ConnectionMachine
from warren.client.machine.events import ClientEvent
from warren.client.machine.settings import ClientSettings
from warren.wire.frames import PROTOCOL_HEADER, content_frames
from warren.wire.method_stream import MethodStream, ReceivedMethod
from warren.wire.methods import (
    BasicConsume,
    BasicConsumeOk,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionTune,
    Method,
    encode_method,
)
from warren.wire.properties import Properties, encode_header_payload

FRAME_MAX = 131_072


def content(body: bytes, properties: Properties | None = None, channel: int = 1, frame_max: int = FRAME_MAX) -> bytes:
    header = encode_header_payload(properties or Properties(), len(body))
    return content_frames(header, body, channel, frame_max)


class Scripted:
    """One connection of which the test plays the broker."""

    def __init__(self, settings: ClientSettings | None = None) -> None:
        self.now_ms = 1_000_000
        self.machine = ConnectionMachine(settings or ClientSettings(), self.now_ms)
        self._stream = MethodStream()

    @classmethod
    def opened(cls, heartbeat: int = 60, settings: ClientSettings | None = None) -> "Scripted":
        """One whose handshake is done."""
        scripted = cls(settings)
        scripted.say(ConnectionStart(mechanisms=b"PLAIN AMQPLAIN"), channel=0)
        scripted.say(ConnectionTune(2047, FRAME_MAX, heartbeat), channel=0)
        scripted.say(ConnectionOpenOk(), channel=0)
        scripted.heard()
        return scripted

    def channel(self, confirms: bool = False) -> ChannelMachine:
        channel, _ = self.machine.open_channel()
        self.say(ChannelOpenOk(), channel=channel.number)
        if confirms:
            channel.call(ConfirmSelect())
            self.say(ConfirmSelectOk(), channel=channel.number)
        self.heard()
        return channel

    def consumer(self, channel: ChannelMachine, tag: str = "c", no_ack: bool = False) -> None:
        channel.call(BasicConsume("q", tag, no_ack=no_ack))
        self.say(BasicConsumeOk(tag), channel=channel.number)
        self.heard()

    def say(self, *methods: Method, channel: int = 1) -> list[ClientEvent]:
        return self.send(b"".join(encode_method(channel, method) for method in methods))

    def send(self, data: bytes) -> list[ClientEvent]:
        """One read of the client."""
        events = self.machine.receive(data, self.now_ms)
        self.machine.check()
        return events

    def octets(self) -> bytes:
        """The bytes that the client has sent since the last call."""
        return self.machine.take_output()

    def heard(self) -> list[ReceivedMethod]:
        """The same as methods with their content."""
        return self._stream.feed(self.octets().removeprefix(PROTOCOL_HEADER))

    def methods(self) -> list[Method]:
        return [one.method for one in self.heard()]
