"""A connection to a broker, for programs that run on asyncio.

Not here: how it comes about (`client.connecting`), the same for threads (`client.blocking`).
"""

import asyncio
from types import TracebackType
from typing import Final, Self

from warren.client.channel import Channel
from warren.client.errors import ClientError, ConnectionClosed
from warren.client.link import Link
from warren.client.machine.events import Opened
from warren.client.machine.stages import CLOSING
from warren.client.uri import Address
from warren.wire.values import Table

CLOSE_DEADLINE_S: Final = 10.0


class Connection:
    """Opened by `warren.client.connect`."""

    def __init__(self, link: Link, opened: Opened, address: Address) -> None:
        self._link = link
        self._opened = opened
        self.address = address

    @property
    def server_properties(self) -> Table:
        """What the broker says of itself."""
        return self._opened.server_properties

    @property
    def heartbeat_s(self) -> int:
        return self._opened.heartbeat_s

    @property
    def frame_max(self) -> int:
        return self._opened.frame_max

    @property
    def channel_max(self) -> int:
        return self._opened.channel_max

    @property
    def is_open(self) -> bool:
        return not self._link.ended

    @property
    def blocked_reason(self) -> str | None:
        """Why the broker takes no publishes for the moment; None if it does. Publishers wait meanwhile."""
        return self._link.blocked_reason

    async def channel(self, *, confirms: bool = False, window: int | None = None) -> Channel:
        """Open a channel; with `confirms` the broker tells what becomes of each publish."""
        if self._link.ended:
            raise self._link.error()
        if self._is_closing:
            raise ConnectionClosed("the connection is being closed")
        machine, ticket = self._link.machine.open_channel()
        channel = Channel(self._link, machine)
        try:
            await self._link.answer(ticket)
            if confirms:
                await channel.confirm(window)
        except BaseException:
            channel.leave()
            raise
        return channel

    async def closed(self) -> ClientError:
        """Returns when the connection has ended, with the reason."""
        await asyncio.shield(self._link.closed)
        return self._link.error()

    async def close(self, deadline_s: float = CLOSE_DEADLINE_S) -> None:
        """Close it in good order, and within the deadline in any case."""
        try:
            async with asyncio.timeout(deadline_s):
                if not self._link.ended:
                    if not self._is_closing:
                        self._link.machine.close()
                    self._link.flush()
                    with self._link.wanting:
                        await self.closed()
                await asyncio.shield(self._link.gone)
        except TimeoutError:
            self._link.abort()
            await self._link.gone

    @property
    def _is_closing(self) -> bool:
        return self._link.machine.state == CLOSING

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
