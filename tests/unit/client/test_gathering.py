"""Messages sent in one step of the event loop leave in one write, up to a size."""

import asyncio

from tests.support.deadlines import in_event_loop
from warren.client.channel import Channel
from warren.client.machine.settings import ClientSettings
from warren.client.protocol import WRITE_BYTES, ClientProtocol
from warren.wire.methods import (
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionTune,
    encode_method,
)

FRAME_MAX = 131_072


class Socket(asyncio.Transport):
    """Records the bytes written to it; never full."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[int] = []

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(len(data))


def opened() -> tuple[Channel, Socket]:
    """A channel with confirms, of which the test plays the broker."""
    protocol = ClientProtocol(ClientSettings(), 1.0)
    socket = Socket()
    protocol.connection_made(socket)
    for method in (ConnectionStart(mechanisms=b"PLAIN"), ConnectionTune(2047, FRAME_MAX, 0), ConnectionOpenOk()):
        protocol.data_received(encode_method(0, method))
    machine, _ = protocol.machine.open_channel()
    channel = Channel(protocol, machine)
    protocol.data_received(encode_method(1, ChannelOpenOk()))
    machine.call(ConfirmSelect())
    protocol.data_received(encode_method(1, ConfirmSelectOk()))
    protocol.flush()
    socket.written.clear()
    return channel, socket


@in_event_loop
async def test_messages_of_one_step_of_the_loop_leave_in_one_write() -> None:
    channel, socket = opened()
    await asyncio.sleep(0)
    publishes = [asyncio.create_task(channel.publish(b"x", routing_key="q")) for _ in range(100)]
    numbers = [await channel.send(b"y", routing_key="q") for _ in range(100)]
    assert numbers == list(range(1, 101))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(socket.written) <= 2
    assert channel.unconfirmed == 200
    for publish in publishes:
        publish.cancel()


@in_event_loop
async def test_a_sender_that_never_lets_go_of_the_loop_gathers_no_more_than_one_write() -> None:
    channel, socket = opened()
    for _ in range(1000):
        await channel.send(b"x" * 1000, routing_key="q")
    assert len(socket.written) >= 3
    assert max(socket.written) < WRITE_BYTES + 2000
