"""A client's connection: the state that handshake, channels and heartbeats share, and the doors of the machine.

    greeting ──start──▶ login ──tune──▶ opening ──open-ok──▶ open ──close()──▶ closing ──close-ok──▶ closed

From anywhere it goes to closed when the broker closes it, when the transport is lost, when the broker is silent for too
long, or when it says what makes no sense. `Closed` is the last event, and there is one.

**Heartbeats.** Something is sent at least once an interval; a broker that is silent for two of them is gone. Whoever
drives the machine calls `tick` several times an interval. A tick that is itself late by an interval says that the
program slept, and what the broker sent meanwhile was not read: its silence is counted anew.

Not here: reading frames (`machine.input`), the handshake's steps (`machine.handshake`).
"""

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.client.machine import input as reading
from warren.client.machine.channel import CHANNEL_CLOSED, ChannelMachine
from warren.client.machine.events import (
    BY_CLIENT,
    LOST,
    MISUNDERSTOOD,
    SHUT_OUT,
    SILENT,
    Closed,
    Confirmed,
    Delivered,
    Event,
)
from warren.client.machine.settings import ClientSettings
from warren.client.machine.stages import (
    AWAIT_OPEN_OK,
    AWAIT_START,
    AWAIT_TUNE,
    CLOSED,
    CLOSING,
    GREETING,
    IS_OPEN,
    LOGIN,
    OPEN,
    OPENING,
)
from warren.errors import ConnectionFault
from warren.wire.frames import HEARTBEAT_FRAME, PROTOCOL_HEADER, FrameReader
from warren.wire.methods import ChannelOpen, ConnectionClose, Method, write_method
from warren.wire.values import Table

FIRST_FRAME_MAX: Final = 131_072
"""How large a frame may be before that is agreed upon."""


@final
class ConnectionMachine:
    """One connection, from the protocol header to its end."""

    def __init__(self, settings: ClientSettings, now_ms: i64) -> None:
        self.settings: ClientSettings = settings
        self.state: i64 = AWAIT_START
        self.stage: str = GREETING
        self.out: BytesWriter = BytesWriter()
        self.events: list[Event] = []
        self.reader: FrameReader = FrameReader(FIRST_FRAME_MAX)
        self.channels: dict[int, ChannelMachine] = {}
        self.server_properties: Table = {}
        # whether the broker says so when it refuses a login
        self.tells_refusals: bool = False
        self.channel_max: int = 0
        self.frame_max: int = 0
        self.heartbeat_s: int = 0
        # the event that deliveries of the moment go to, and the consumer it is for
        self.delivered: Delivered | None = None
        self.delivered_tag: bytes = b""
        # channels some of whose publishes were decided in this read
        self.confirmed: list[ChannelMachine] = []
        self._now_ms: i64 = now_ms
        self._heard_at_ms: i64 = now_ms
        self._sent_at_ms: i64 = now_ms
        self._ticked_at_ms: i64 = now_ms
        self._ticket: int = 0
        self._next_number: int = 1
        self._free_numbers: list[int] = []
        # channels with acks that wait for the next output
        self._acking: list[ChannelMachine] = []
        self.out.write(PROTOCOL_HEADER)

    # doors

    def receive(self, data: bytes, now_ms: i64) -> list[Event]:
        """What one read means."""
        self._now_ms = now_ms
        self._heard_at_ms = now_ms
        if self.state != CLOSED:
            try:
                reading.receive(self, data)
            except ConnectionFault as fault:
                self.fail(fault)
        return self._take_events()

    def tick(self, now_ms: i64) -> list[Event]:
        """Time has passed."""
        interval_ms: i64 = self.heartbeat_s * 1000
        slept = now_ms - self._ticked_at_ms > interval_ms
        self._now_ms = now_ms
        self._ticked_at_ms = now_ms
        if interval_ms == 0 or self.state < AWAIT_OPEN_OK or self.state == CLOSED:
            return []
        if slept:
            self._heard_at_ms = now_ms
        if now_ms - self._heard_at_ms > 2 * interval_ms:
            self.end(SILENT, 0, f"nothing was heard for {(now_ms - self._heard_at_ms) // 1000} s")
        elif 2 * (now_ms - self._sent_at_ms) >= interval_ms and len(self.out) == 0:
            self.out.write(HEARTBEAT_FRAME)
        return self._take_events()

    def hold_judgement(self, now_ms: i64) -> None:
        """Nothing was read because nobody wanted to: the broker's silence is counted from here."""
        self._heard_at_ms = now_ms

    def lose(self, reason: str) -> list[Event]:
        """The transport is gone."""
        if self.state == CLOSING:
            self.end(BY_CLIENT, 200, reason)
        elif self.state == AWAIT_TUNE and not self.tells_refusals:
            self.end(SHUT_OUT, 0, reason)
        else:
            self.end(LOST, 0, reason)
        return self._take_events()

    def close(self, code: int = 200, text: str = "Goodbye") -> None:
        """Begin to close in good order; `Closed` comes with the broker's close-ok."""
        if self.state != IS_OPEN:
            raise ValueError("the connection is not open")
        for channel in list(self.channels.values()):
            channel.output()
        self.send(ConnectionClose(reply_code=code, reply_text=text))
        self.state = CLOSING

    def take_output(self) -> bytes:
        """Everything that is to be sent, in one piece."""
        if self._acking:
            for channel in self._acking:
                if channel.state < CHANNEL_CLOSED and self.state == IS_OPEN:
                    channel.output()
            self._acking = []
        if len(self.out) == 0:
            return b""
        self._sent_at_ms = self._now_ms
        data = self.out.getvalue()
        self.out = BytesWriter()
        return data

    # channels

    def open_channel(self) -> tuple[ChannelMachine, int]:
        """A channel, and the ticket of its opening."""
        if self.state != IS_OPEN:
            raise ValueError("the connection is not open")
        number = self._number()
        channel = ChannelMachine(self, number, self.frame_max)
        self.channels[number] = channel
        return channel, channel.call(ChannelOpen())

    def forget_channel(self, channel: ChannelMachine) -> None:
        channel.state = CHANNEL_CLOSED
        if self.channels.pop(channel.number, None) is not None:
            self._free_numbers.append(channel.number)

    def _number(self) -> int:
        if self._free_numbers:
            return self._free_numbers.pop()
        if self.channel_max and self._next_number > self.channel_max:
            raise ValueError(f"all {self.channel_max} channels of the connection are in use")
        number = self._next_number
        self._next_number += 1
        return number

    # what the other modules of the machine use

    def send(self, method: Method) -> None:
        """A method of channel 0."""
        write_method(self.out, 0, method)

    def next_ticket(self) -> int:
        self._ticket += 1
        return self._ticket

    def acks_wait(self, channel: ChannelMachine) -> None:
        if not self._acking or self._acking[-1] is not channel:
            self._acking.append(channel)

    def tuned(self, channel_max: int, frame_max: int, heartbeat_s: int) -> None:
        self.channel_max = channel_max
        self.frame_max = frame_max
        self.heartbeat_s = heartbeat_s
        self.reader.payload_max = frame_max
        self._ticked_at_ms = self._now_ms
        self.enter(AWAIT_OPEN_OK)

    def enter(self, state: i64) -> None:
        self.state = state
        self.stage = LOGIN if state == AWAIT_TUNE else OPENING if state == AWAIT_OPEN_OK else OPEN

    def fail(self, fault: ConnectionFault) -> None:
        """The broker said what makes no sense: it is told so, once there is somebody to tell."""
        if self.state == IS_OPEN:
            self.send(ConnectionClose(reply_code=fault.code, reply_text=fault.reply_text()))
        self.end(MISUNDERSTOOD, fault.code, fault.text)

    def end(self, cause: str, code: int, text: str) -> None:
        if self.state == CLOSED:
            return
        self.tell_confirms()
        self.state = CLOSED
        for channel in self.channels.values():
            channel.state = CHANNEL_CLOSED
        self.channels = {}
        self._acking = []
        self.events.append(Closed(cause, self.stage, code, text))

    def tell_confirms(self) -> None:
        """Before anything that must not come before them."""
        for channel in self.confirmed:
            ranges = channel.take_confirms()
            if ranges:
                self.events.append(Confirmed(channel.number, ranges))
        self.confirmed = []

    def check(self) -> None:
        for channel in self.channels.values():
            channel.check()

    def _take_events(self) -> list[Event]:
        events = self.events
        self.events = []
        self.delivered = None
        return events
