"""An attempt to connect that is given up writes nothing more, whatever state its socket is in."""

import asyncio

from warren.client.link import Link
from warren.client.machine.settings import ClientSettings


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
    async def attempt() -> Link:
        link = Link(ClientSettings("guest", "guest"), 1.0)
        link._transport = ClosedSocket()
        link.opened.cancel()
        link.abort()
        return link

    assert asyncio.run(attempt()).ended
