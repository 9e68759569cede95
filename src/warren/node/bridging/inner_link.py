"""A client of this node's own broker, without a socket: the client's link on one side, the turns on the other.

::

    client.link.Link ──write──► InnerLink ──BytesReceived──► core
          ▲                                                    │
          └──data_received── InnerLink ◄────── SendBytes ──────┘

What the core writes is handed to the client in the loop's next step, never within the turn: whatever goes wrong in a
client must not look like a fault of the core.

Each side's wish that the other should wait is handed on, as a full socket would tell it.

Not here: AMQP for what a user does over HTTP (`admin.direct_link`).
"""

import asyncio
from typing import Any

import warren
from warren.client.connecting import CALL_TIMEOUT_S
from warren.client.connection import Connection
from warren.client.errors import CannotConnect
from warren.client.link import Link
from warren.client.machine.settings import EXTERNAL, ClientSettings
from warren.client.uri import Address
from warren.model.events import BytesReceived, ConnectionLost, ConnectionOpened, WritesPaused, WritesResumed
from warren.node.turns import Turns
from warren.wire.values import Table

OPENED_WITHIN_S = 10.0


async def connect_within(
    turns: Turns, connection_id: int, node_name: str, vhost: str, name: str, user: str
) -> Connection:
    """A connection as that user, without further proof; without a user as the node itself, which may do everything."""
    properties: Table = {"product": "Warren", "version": warren.__version__, "platform": "Python"}
    if name:
        properties["connection_name"] = name
    settings = ClientSettings(user, "", vhost, EXTERNAL, 0, 0, 0, properties)
    link = Link(settings, CALL_TIMEOUT_S)
    inner = InnerLink(turns, connection_id, link)
    inner.open(user)
    try:
        async with asyncio.timeout(OPENED_WITHIN_S):
            return Connection(link, await link.opened, Address(node_name, 0))
    except TimeoutError:
        inner.abort()
        raise CannotConnect([(node_name, f"no answer within {OPENED_WITHIN_S:g} s")]) from None
    except BaseException:
        inner.abort()
        raise


class InnerLink:
    """One connection, as the turns know it."""

    def __init__(self, turns: Turns, connection_id: int, client: Link) -> None:
        self._turns = turns
        self.connection_id = connection_id
        self._client = client
        self.closing = False
        # the core writes to a connection's transport
        self.transport = self

    def open(self, user: str) -> None:
        self._turns.links[self.connection_id] = self
        opened = ConnectionOpened(self.connection_id, "127.0.0.1", 0, "127.0.0.1", 0, direct=True, trusted_user=user)
        self._turns.add(opened)
        self._client.connection_made(InnerTransport(self, self._turns))

    def write(self, data: bytes) -> None:
        if not self.closing:
            self._turns.loop.call_soon(self._client.data_received, data)

    def pause_reading(self) -> None:
        """The core has enough for the moment."""
        self._turns.loop.call_soon(self._client.pause_writing)

    def resume_reading(self) -> None:
        self._turns.loop.call_soon(self._client.resume_writing)

    def close(self) -> None:
        """By either side: what was said before is heard, and then it is over."""
        if not self.closing:
            self.closing = True
            self._turns.forget(self.connection_id, self)
            self._turns.add(ConnectionLost(self.connection_id, ""))
            self._turns.loop.call_soon(self._client.connection_lost, None)

    def abort(self) -> None:
        self.close()


class InnerTransport(asyncio.Transport):
    """The same, as the client knows it."""

    def __init__(self, link: InnerLink, turns: Turns) -> None:
        super().__init__()
        self._link = link
        self._turns = turns
        self._reading = True

    def write(self, data: Any) -> None:
        if not self._link.closing:
            self._turns.add(BytesReceived(self._link.connection_id, bytes(data)))

    def is_closing(self) -> bool:
        return self._link.closing

    def close(self) -> None:
        self._link.close()

    def abort(self) -> None:
        self._link.close()

    def pause_reading(self) -> None:
        """The client has enough for the moment."""
        if self._reading and not self._link.closing:
            self._reading = False
            self._turns.add(WritesPaused(self._link.connection_id))

    def resume_reading(self) -> None:
        if not self._reading and not self._link.closing:
            self._reading = True
            self._turns.add(WritesResumed(self._link.connection_id))

    def is_reading(self) -> bool:
        return self._reading

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is buffered here."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default
