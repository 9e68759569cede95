"""A connection that is made again whenever it ends.

    open ──▶ up ──ended──▶ down ──a host answers, layout declared──▶ up
                             └──login refused for a minute──▶ given up

`open` makes as many attempts as the URL allows, and raises their error. Later it reconnects without a limit: each host
in turn, beginning after the lost one, with a `Backoff` between rounds. Only a login that every host refuses in each
round for a minute is final. A single refusal is not, because a broker that starts or stops may drop a connection during
the login, or have no users for a while.

**Delays.** After an outage all clients of a broker come back. Delays double up to a limit, and each is shortened at
random to between half and all of it, so that clients do not return together. A connection counts as a success if it
lasted longer than the delay before it; otherwise the delays go on growing, so that a broker that accepts connections
and then fails is not asked without a pause.

**Notices** about connections and subscriptions are logged under `warren.client.recovering`, with their facts in
`extra`, and passed to the observer of `open`.

Invariant: a connection from here has the layout declared.

Not here: publishing and consuming on it (`recovering.sender`, `recovering.subscription`), blocked publishes
(`RecoveringTransport.blocked_reason`).
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from warren.client.connection import Connection, Dialer
from warren.client.errors import CannotConnect, ClientError, ConnectionClosed, LoginRefused
from warren.client.protocol import ErrorFactory

BACKOFF_FIRST_S: Final = 0.1
BACKOFF_MAX_S: Final = 5.0


class Backoff:
    """The delays between attempts; `chance` returns a number from 0 up to 1."""

    def __init__(
        self,
        first_s: float = BACKOFF_FIRST_S,
        most_s: float = BACKOFF_MAX_S,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._chance = chance
        self._last_s = 0.0

    def next_s(self) -> float:
        """The delay before the next attempt."""
        self._last_s = min(max(self._first_s, 2 * self._last_s), self._most_s)
        return self._last_s * (0.5 + 0.5 * self._chance())

    def succeeded(self, lasted_s: float) -> None:
        if lasted_s > self._last_s:
            self._last_s = 0.0


LOGGER: Final = logging.getLogger("warren.client.recovering")


@dataclass(frozen=True)
class Notice:
    """An event of a connection or a subscription; `role` is `publishing` or `consuming`."""

    role: str


@dataclass(frozen=True)
class ConnectionDown(Notice):
    """A connection has ended, and is being made again."""

    address: str
    error: ClientError


@dataclass(frozen=True)
class ConnectionUp(Notice):
    """A connection is up again: to which host, and how long it was down."""

    address: str
    after_s: float


@dataclass(frozen=True)
class ReconnectFailed(Notice):
    """No host could be reached; the next attempt follows after the delay."""

    error: ClientError
    delay_s: float


@dataclass(frozen=True)
class GivenUp(Notice):
    """No broker accepted the login for a minute, or an unexpected error occurred; there are no more attempts."""

    error: ClientError


@dataclass(frozen=True)
class LayoutRefused(Notice):
    """The broker refuses to declare again a part of the layout."""

    name: str
    error: ClientError


@dataclass(frozen=True)
class SubscriptionDown(Notice):
    """The broker ended a subscription, which is resumed if the connection holds."""

    queue: str
    error: ClientError


@dataclass(frozen=True)
class SubscriptionUp(Notice):
    """A subscription gets messages again."""

    queue: str


Observer = Callable[[Notice], None]

_WORDS: Final[dict[type[Notice], tuple[int, str]]] = {
    ConnectionDown: (logging.WARNING, "the {role} connection to {address} has ended: {error}"),
    ConnectionUp: (logging.INFO, "the {role} connection is there again, to {address}, after {after_s:.2f} s"),
    ReconnectFailed: (logging.WARNING, "the {role} connection is tried again in {delay_s:.2f} s: {error}"),
    GivenUp: (logging.ERROR, "the {role} connection is given up: {error}"),
    LayoutRefused: (logging.ERROR, "{name} could not be declared again: {error}"),
    SubscriptionDown: (logging.WARNING, "the subscription to {queue} has ended: {error}"),
    SubscriptionUp: (logging.INFO, "the subscription to {queue} is resumed"),
}


class Notifier:
    """Logs notices, and passes them to the observer."""

    def __init__(self, observer: Observer | None) -> None:
        self._observer = observer

    def notify(self, notice: Notice) -> None:
        level, words = _WORDS[type(notice)]
        facts = {field: getattr(notice, field) for field in notice.__dataclass_fields__}
        # the logger reserves `name`
        LOGGER.log(level, words.format(**facts), extra={f"warren_{field}": str(fact) for field, fact in facts.items()})
        if self._observer is not None:
            try:
                self._observer(notice)
            except Exception:
                LOGGER.exception("the observer of a transport failed")


CLOSE_GRACE_S: Final = 1.0
"""The time for an ended connection to close its socket."""


LOGIN_PATIENCE_S: Final = 60.0
"""How long every host must refuse a login that worked before, until the refusal is final."""


class RecoveringConnection:
    """One connection of a transport, by its role."""

    def __init__(
        self, role: str, dialer: Dialer, prepare: Callable[[Connection], Awaitable[None]], notifier: Notifier
    ) -> None:
        self.role = role
        # why it is down, or was when it was down last
        self.trouble: CannotConnect | None = None
        # why it is closed for good
        self.failure: ErrorFactory | None = None
        self._dialer = dialer
        self._prepare = prepare
        self._notifier = notifier
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
        """The connection, when there is one; an error if there will be none."""
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
            self.trouble = _connection_error(connection, error)
            self._notifier.notify(ConnectionDown(self.role, str(connection.address), error))
            self._backoff.succeeded(down_at_s - up_at_s)
            self._part(connection)
            connection = await self._connect_again(connection)
            up_at_s = loop.time()
            self._connection = connection
            self._notifier.notify(ConnectionUp(self.role, str(connection.address), up_at_s - down_at_s))
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
                # this includes a refused virtual host: a broker that starts may not have it yet
                if isinstance(error, LoginRefused):
                    refused_at_s = loop.time() if refused_at_s is None else refused_at_s
                    if loop.time() - refused_at_s >= LOGIN_PATIENCE_S:
                        raise
                    self.trouble = CannotConnect([("every host", str(error))])
                else:
                    refused_at_s = None
                    self.trouble = error if isinstance(error, CannotConnect) else self.trouble
                delay_s = self._backoff.next_s()
                self._notifier.notify(ReconnectFailed(self.role, error, delay_s))
            except BaseException:
                if connection is not None:
                    self._part(connection)
                raise
            if connection is not None:
                address = connection.address
                self._part(connection)

    def _part(self, connection: Connection) -> None:
        """Close the socket in the background."""
        task = asyncio.create_task(connection.close(CLOSE_GRACE_S))
        self._parting.add(task)
        task.add_done_callback(self._parting.discard)

    def _give_up(self, reason: ClientError, failure: ErrorFactory) -> None:
        self._notifier.notify(GivenUp(self.role, reason))
        self._fail(failure)

    def _fail(self, error: ErrorFactory) -> None:
        self.failure = self.failure or error
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)


def transport_closed() -> ConnectionClosed:
    return ConnectionClosed("the transport was closed")


def _connection_error(connection: Connection, error: ClientError) -> CannotConnect:
    return CannotConnect([(str(connection.address), str(error))])
