"""An abandoned attempt to connect writes nothing more, in any state of its socket."""

import asyncio

from warren.client.machine.settings import ClientSettings
from warren.client.protocol import ClientProtocol


class ClosedSocket(asyncio.Transport):
    """As uvloop leaves it when it is cancelled while it connects: closed, and not saying so."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        raise RuntimeError("the handler is closed")

    def close(self) -> None:
        raise RuntimeError("the handler is closed")

    def abort(self) -> None:
        pass


def test_a_socket_that_is_closed_already_is_not_written_to() -> None:
    async def attempt() -> ClientProtocol:
        protocol = ClientProtocol(ClientSettings("guest", "guest"), 1.0)
        protocol._transport = ClosedSocket()
        protocol.opened.cancel()
        protocol.abort()
        return protocol

    assert asyncio.run(attempt()).ended
