"""A connection that is made again whenever it ends.

    open ──▶ up ──ended──▶ down ──a host answers, layout declared──▶ up
                             └──login refused for a minute──▶ given up

`open` tries as often as the URL says, and raises what came of it: that is the check at the start. From then on the line
tries for ever, at each host in turn, beginning behind the one that was lost, with a `Backoff` between two rounds. Only
a login that every host refuses, in each round for a minute, is final: the brokers are there, and say no. A single
refusal is not: a broker that starts or stops may hang up in the midst of a login, and may know no users for a while.

Invariant: whoever gets a connection from here gets one on which the layout was declared.

Not here: what runs on it (`recovering.sending`, `recovering.subscription`).
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from warren.client.connecting import Dialer
from warren.client.connection import Connection
from warren.client.errors import CannotConnect, ClientError, ConnectionClosed, LoginRefused
from warren.client.link import Error
from warren.client.recovering.backoff import Backoff
from warren.client.recovering.notices import (
    LOGGER,
    Bulletin,
    ConnectionDown,
    ConnectionUp,
    GivenUp,
    ReconnectFailed,
)

PARTING_S: Final = 1.0
"""How long a connection that has ended may take to let go of its socket."""


LOGIN_PATIENCE_S: Final = 60.0
"""How long nobody may let in who was let in before, until that is final."""


class Line:
    """One of a transport's connections, by what it is for."""

    def __init__(
        self, role: str, dialer: Dialer, prepare: Callable[[Connection], Awaitable[None]], bulletin: Bulletin
    ) -> None:
        self.role = role
        # why it is down, or was when it was down last
        self.trouble: CannotConnect | None = None
        # why it will never be up again
        self.failure: Error | None = None
        self._dialer = dialer
        self._prepare = prepare
        self._bulletin = bulletin
        self._backoff = Backoff()
        self._connection: Connection | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._keeper: asyncio.Task[None] | None = None
        self._parting: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._connection = await self._dialer.connect()
        self._keeper = asyncio.create_task(self._keep(self._connection), name=f"warren {self.role} connection")

    @property
    def is_up(self) -> bool:
        return self._connection is not None and self._connection.is_open

    @property
    def blocked_reason(self) -> str | None:
        return self._connection.blocked_reason if self._connection is not None else None

    async def connection(self) -> Connection:
        """The connection, as soon as there is one; raises if there never will be."""
        while self._connection is None or not self._connection.is_open:
            if self.failure is not None:
                raise self.failure()
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter
        return self._connection

    async def close(self, deadline_s: float) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        self._fail(transport_closed)
        if self._connection is not None:
            await self._connection.close(deadline_s)
        if self._parting:
            await asyncio.wait(self._parting)

    async def _keep(self, connection: Connection) -> None:
        try:
            await self._make_again_for_ever(connection)
        except LoginRefused as refusal:
            self._give_up(refusal, partial(LoginRefused, str(refusal)))
        except Exception as error:
            LOGGER.exception("the %s connection is not made again", self.role)
            sentence = f"the {self.role} connection is not made again, open another transport: {error!r}"
            self._give_up(ClientError(sentence), partial(ClientError, sentence))

    async def _make_again_for_ever(self, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        up_at_s = loop.time()
        while True:
            error = await connection.closed()
            down_at_s = loop.time()
            self.trouble = _as_trouble(connection, error)
            self._bulletin.tell(ConnectionDown(self.role, str(connection.address), error))
            self._backoff.succeeded(down_at_s - up_at_s)
            self._part(connection)
            connection = await self._connect_again(connection)
            up_at_s = loop.time()
            self._connection = connection
            self._bulletin.tell(ConnectionUp(self.role, str(connection.address), up_at_s - down_at_s))
            self._wake()

    async def _connect_again(self, lost: Connection) -> Connection:
        address = lost.address
        delay_s = self._backoff.next_s()
        loop = asyncio.get_running_loop()
        refused_at_s: float | None = None
        while True:
            await asyncio.sleep(delay_s)
            connection: Connection | None = None
            try:
                connection = await self._dialer.connect_once(behind=address)
                await self._prepare(connection)
                return connection
            except ClientError as error:
                # also what refuses a virtual host: it was there before, and a broker that starts may not have it yet
                if isinstance(error, LoginRefused):
                    refused_at_s = loop.time() if refused_at_s is None else refused_at_s
                    if loop.time() - refused_at_s >= LOGIN_PATIENCE_S:
                        raise
                    self.trouble = CannotConnect([("every host", str(error))])
                else:
                    refused_at_s = None
                    self.trouble = error if isinstance(error, CannotConnect) else self.trouble
                delay_s = self._backoff.next_s()
                self._bulletin.tell(ReconnectFailed(self.role, error, delay_s))
            except BaseException:
                if connection is not None:
                    self._part(connection)
                raise
            if connection is not None:
                address = connection.address
                self._part(connection)

    def _part(self, connection: Connection) -> None:
        """Let its socket be closed, however long that takes, while others go on."""
        task = asyncio.create_task(connection.close(PARTING_S))
        self._parting.add(task)
        task.add_done_callback(self._parting.discard)

    def _give_up(self, reason: ClientError, failure: Error) -> None:
        self._bulletin.tell(GivenUp(self.role, reason))
        self._fail(failure)

    def _fail(self, error: Error) -> None:
        self.failure = self.failure or error
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)


def transport_closed() -> ConnectionClosed:
    return ConnectionClosed("the transport was closed")


def _as_trouble(connection: Connection, error: ClientError) -> CannotConnect:
    return CannotConnect([(str(connection.address), str(error))])
