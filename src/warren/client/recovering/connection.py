"""A connection that is made again whenever it ends.

    open ──▶ up ──ended──▶ down ──a host answers, layout declared──▶ up
                             └──login refused for a minute──▶ given up

`open` tries as often as the URL says, and raises what came of it: that is the check at the start. From then on the line
tries for ever, at each host in turn, beginning behind the one that was lost, with a `Backoff` between two rounds. Only
a login that every host refuses, in each round for a minute, is final: the brokers are there, and say no. A single
refusal is not: a broker that starts or stops may hang up in the midst of a login, and may know no users for a while.

Invariant: whoever gets a connection from here gets one on which the layout was declared.

Not here: what runs on it (`recovering.sending`, `recovering.subscription`).

How long to wait before something is tried again: longer each time, and never as long as others wait.

After an outage every client of a broker comes back. Delays double up to a limit, and each is cut at random to between
half and all of it, so that clients who lost their connections together do not return together.

A success is one if it lasted longer than the delay before it; else the delays go on where they were, and a broker that
lets everyone in and then falls over is not asked without a pause.

Not here: what is tried.

What becomes of a transport's connections, for logs and for whoever watches.

Every notice is logged under `warren.client.recovering`, with its facts in `extra`, and handed to the observer that was
given to `open`, if one was.

Not here: whether the broker takes publishes at the moment (`RecoveringTransport.blocked_reason`).
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
    """The delays of one thing that is tried again and again; `chance` is a number from 0 up to 1."""

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
        """The delay before the next try."""
        self._last_s = min(max(self._first_s, 2 * self._last_s), self._most_s)
        return self._last_s * (0.5 + 0.5 * self._chance())

    def succeeded(self, lasted_s: float) -> None:
        if lasted_s > self._last_s:
            self._last_s = 0.0


LOGGER: Final = logging.getLogger("warren.client.recovering")


@dataclass(frozen=True)
class Notice:
    """Something that happened; `role` is the connection's, `publishing` or `consuming`."""

    role: str


@dataclass(frozen=True)
class ConnectionDown(Notice):
    """A connection has ended, and is made again."""

    address: str
    error: ClientError


@dataclass(frozen=True)
class ConnectionUp(Notice):
    """A connection is there again: to which host, and how long it was not."""

    address: str
    after_s: float


@dataclass(frozen=True)
class ReconnectFailed(Notice):
    """No host could be reached; it is tried again after the delay."""

    error: ClientError
    delay_s: float


@dataclass(frozen=True)
class GivenUp(Notice):
    """For a minute no broker has let this user in, or an error came that nobody foresaw; nothing is tried again."""

    error: ClientError


@dataclass(frozen=True)
class LayoutRefused(Notice):
    """Something that was declared before is refused when it is declared again."""

    name: str
    error: ClientError


@dataclass(frozen=True)
class SubscriptionDown(Notice):
    """A subscription was ended by the broker, and is taken up again if the connection holds."""

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
    SubscriptionUp: (logging.INFO, "the subscription to {queue} is taken up again"),
}


class Notifier:
    """Where notices go."""

    def __init__(self, observer: Observer | None) -> None:
        self._observer = observer

    def tell(self, notice: Notice) -> None:
        level, words = _WORDS[type(notice)]
        facts = {field: getattr(notice, field) for field in notice.__dataclass_fields__}
        # `name` is taken by the logger itself
        LOGGER.log(level, words.format(**facts), extra={f"warren_{field}": str(fact) for field, fact in facts.items()})
        if self._observer is not None:
            try:
                self._observer(notice)
            except Exception:
                LOGGER.exception("the observer of a transport failed")


CLOSE_GRACE_S: Final = 1.0
"""How long a connection that has ended may take to let go of its socket."""


LOGIN_PATIENCE_S: Final = 60.0
"""How long nobody may let in who was let in before, until that is final."""


class RecoveringConnection:
    """One of a transport's connections, by what it is for."""

    def __init__(
        self, role: str, dialer: Dialer, prepare: Callable[[Connection], Awaitable[None]], notifier: Notifier
    ) -> None:
        self.role = role
        # why it is down, or was when it was down last
        self.trouble: CannotConnect | None = None
        # why it will never be up again
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
            self.trouble = _connection_error(connection, error)
            self._notifier.tell(ConnectionDown(self.role, str(connection.address), error))
            self._backoff.succeeded(down_at_s - up_at_s)
            self._part(connection)
            connection = await self._connect_again(connection)
            up_at_s = loop.time()
            self._connection = connection
            self._notifier.tell(ConnectionUp(self.role, str(connection.address), up_at_s - down_at_s))
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
                self._notifier.tell(ReconnectFailed(self.role, error, delay_s))
            except BaseException:
                if connection is not None:
                    self._part(connection)
                raise
            if connection is not None:
                address = connection.address
                self._part(connection)

    def _part(self, connection: Connection) -> None:
        """Let its socket be closed, however long that takes, while others go on."""
        task = asyncio.create_task(connection.close(CLOSE_GRACE_S))
        self._parting.add(task)
        task.add_done_callback(self._parting.discard)

    def _give_up(self, reason: ClientError, failure: ErrorFactory) -> None:
        self._notifier.tell(GivenUp(self.role, reason))
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
