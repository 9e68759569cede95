"""The HTTP server inside a node: it runs in the node's loop, on sockets the node has bound.

`accept` makes the protocol of one connection; whoever listens, with TLS or without, and on as many sockets as there
are, hands it to the loop. Stopping is in two steps: no connection is kept alive once its answer is out (`close`), and
after a moment whatever is left is dropped (`drop`).

Not here: sockets and TLS (`node`), what is answered (`http.application`).

One HTTP connection, and the bounds on what a client can cost: bytes, time, and how many there are.

uvicorn's protocol does the talking. What it leaves unbounded is bounded here:

- the head of a request, in bytes and in time;
- the body, in time: it has half a minute, and beyond that must come at a certain rate;
- an answer that is not read;
- an idle connection;
- the number of connections, in all and of one address (`http.crowd`): one more may ask within two seconds how the node
  is, and nothing else; anything else is told 503, and either way it is closed then.

A single look at all connections once a second enforces the times, so a request costs no timer. Whoever is late with a
request is told 408, if nothing was answered yet, and the connection ends.

An offer to speak something else (`upgrade: h2c`, which Java's client makes with its first request) is passed over: the
parser would stop at it and leave a body unread, so it never gets to see the header.

Not here: the size of a body (`http.call`), TLS and PROXY headers (`node.listeners`).

How many connections there are, and how many of them one address has.

One address may have half of all that there may be, so that whoever holds idle ones leaves room for everybody else.
There is no exception: a proxy before the node, on this machine or another, has half of them for all who come through
it. Of IPv6 addresses the first 64 bits count, since whoever has one has all that begin so.

Whoever finds no room may still ask how the node is, on the doorstep: a load balancer that is told nothing takes the
node for dead, and cuts its clients off. There is little room there, too, of which one address has an eighth; a balancer
that speaks for itself has room of its own, which nobody else can take.

Invariant: what was let in is counted until it leaves, once, where it was let in.

Not here: how whoever is refused is told (`http.link`).
"""

import asyncio
import ipaddress
import logging
import re
from collections import Counter
from collections.abc import Callable
from email.utils import formatdate
from typing import Any, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from warren.admin.http.settings import FITNESS_PATH, HttpLimits

ADDRESS_SHARE = 0.5
OVERFLOW_CONNECTIONS_MAX = 64
OVERFLOW_ADDRESS_SHARE = 1 / 8


class ConnectionQuota:
    """For so many connections, and for so many of one address."""

    def __init__(self, connections_max: int, share_of_one: float) -> None:
        self._room = connections_max
        self._room_of_one = max(1, int(connections_max * share_of_one))
        self._inside = 0
        self._of_places: Counter[str] = Counter()

    def enter(self, host: str) -> bool:
        """Whether there is room for one more from there; then it is in."""
        place = address_block(host)
        if self._inside >= self._room or self._of_places[place] >= self._room_of_one:
            return False
        self._inside += 1
        self._of_places[place] += 1
        return True

    def leave(self, host: str) -> None:
        place = address_block(host)
        self._inside -= 1
        self._of_places[place] -= 1
        if not self._of_places[place]:
            del self._of_places[place]


class ConnectionQuotas:
    """The connections of one server."""

    def __init__(self, connections_max: int) -> None:
        self.inside = ConnectionQuota(connections_max, ADDRESS_SHARE)
        self._doorstep = ConnectionQuota(OVERFLOW_CONNECTIONS_MAX, OVERFLOW_ADDRESS_SHARE)
        self._balancers = ConnectionQuota(OVERFLOW_CONNECTIONS_MAX, ADDRESS_SHARE)

    def enter(self, host: str, is_balancer: bool = False) -> ConnectionQuota | None:
        """Where there is room for one more from there; then it is in."""
        rooms = (self.inside, self._balancers) if is_balancer else (self.inside, self._doorstep)
        return next((room for room in rooms if room.enter(host)), None)


def address_block(host: str) -> str:
    """What counts as one address."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address, 64), strict=False))


HEAD_BYTES_MAX = 64 * 1024
CLOSE_TIMEOUT_S = 5.0
OVERFLOW_TIMEOUT_S = 2.0

_UPGRADE = re.compile(rb"\r\nupgrade(?=[ \t]*:)", re.IGNORECASE)
_NO_UPGRADE = b"\r\nx-offer"
_FITNESS_REQUEST = re.compile(rb"GET " + re.escape(FITNESS_PATH.encode()) + rb"[? ]")
_TOO_MANY = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_HEAD_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


def no_balancer(host: str) -> bool:
    return False


class HttpConnection(HttpToolsProtocol):
    """A connection that knows what it waits for, and since when."""

    def __init__(
        self,
        config: Config,
        state: ServerState,
        limits: HttpLimits,
        crowd: ConnectionQuotas,
        client: tuple[str, int] | None = None,
        is_balancer: Callable[[str], bool] = no_balancer,
    ) -> None:
        """`client` is where it comes from, if that is not where the socket comes from."""
        super().__init__(config, state, {})
        self._behind_socket = client
        self._limits = limits
        self._crowd = crowd
        self._is_balancer = is_balancer
        # where it comes from and where it is counted, once it is let in
        self._entered_from: str = ""
        self._room: ConnectionQuota | None = None
        self._head_bytes = 0
        # when the head at hand began to come; None while none is awaited
        self._head_since: float | None = None
        self._body_since: float | None = None
        self._body_bytes = 0
        self._unread_since: float | None = None
        self._closing_since: float | None = None

    # -- the transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))
        self.client = self._behind_socket or self.client
        self._head_since = self.loop.time()
        self._entered_from = self.client[0] if self.client else ""
        speaks_for_itself = self._behind_socket is None and self._is_balancer(self._entered_from)
        self._room = self._crowd.enter(self._entered_from, speaks_for_itself)
        if self._room is None:
            self._end_with(_TOO_MANY)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._room is not None:
            self._room.leave(self._entered_from)
            self._room = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._closing_since is not None:
            return
        awaiting_head = self._head_since is not None
        if not awaiting_head and self._body_since is None:
            self._head_since = self.loop.time()
            awaiting_head = True
        if awaiting_head:
            self._head_bytes += len(data)
            data = _UPGRADE.sub(_NO_UPGRADE, data, count=1)
        if self._on_the_doorstep() and not self._is_the_one_question(data):
            self._end_with(_TOO_MANY)
            return
        super().data_received(data)
        if self._head_since is not None and self._head_bytes > HEAD_BYTES_MAX:
            self._end_with(_HEAD_TOO_LARGE)

    def _on_the_doorstep(self) -> bool:
        return self._room is not self._crowd.inside

    def _is_the_one_question(self, data: bytes) -> bool:
        """Load balancers send it in one piece, and nothing after it."""
        return self._head_bytes == len(data) and _FITNESS_REQUEST.match(data) is not None and data.endswith(b"\r\n\r\n")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread_since = self.loop.time()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread_since = None

    # -- the parser's calls

    def on_headers_complete(self) -> None:
        self._head_since = None
        self._head_bytes = 0
        self._body_since = self.loop.time()
        self._body_bytes = 0
        super().on_headers_complete()
        if self._on_the_doorstep():
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._body_since = None
        super().on_message_complete()

    # -- time

    def look(self, now: float) -> None:
        """End the connection if its client is late."""
        if self.transport.is_closing() or self._closing_since is not None:
            if self._closing_since is None:
                self._closing_since = now
            if now - self._closing_since > CLOSE_TIMEOUT_S:
                self.transport.abort()
        elif self._unread_since is not None and now - self._unread_since > self._limits.unread_patience_s:
            self.transport.abort()
        elif self._late(now):
            answered = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
            self._end_with(b"" if answered else _TOO_MANY if self._on_the_doorstep() else _TOO_LATE)

    def _late(self, now: float) -> bool:
        if self._head_since is not None:
            patience_s = OVERFLOW_TIMEOUT_S if self._on_the_doorstep() else self._limits.request_timeout_s
            return now - self._head_since > patience_s
        if self._body_since is not None and not self.flow.read_paused:
            limits = self._limits
            patience_s = limits.body_patience_s + self._body_bytes / limits.body_bytes_a_second
            return now - self._body_since > patience_s
        return False

    def _end_with(self, answer: bytes) -> None:
        self._closing_since = self.loop.time()
        self.transport.write(answer)
        self.transport.close()


def uvicorn_config(app: Any, limits: HttpLimits) -> Config:
    """uvicorn without its own logging, signals, lifespan, websockets and trust in proxies."""
    config = Config(
        app,
        http=HttpToolsProtocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=int(limits.idle_timeout_s),
    )
    config.load()
    # what it has to say of clients it says to nobody; defects are the application's to tell
    logging.getLogger("uvicorn.error").disabled = True
    return config


class HttpServer:
    """The connections of one node's HTTP listeners."""

    def __init__(
        self,
        app: Any,
        loop: asyncio.AbstractEventLoop,
        limits: HttpLimits,
        is_balancer: Callable[[str], bool] = no_balancer,
    ) -> None:
        """`is_balancer` tells whether a load balancer is known to be at an address."""
        self._loop = loop
        self._limits = limits
        self._is_balancer = is_balancer
        self._config = uvicorn_config(app, limits)
        self._state = ServerState()
        self._crowd = ConnectionQuotas(limits.connections_max)
        self._links: set[HttpConnection] = self._state.connections  # type: ignore[assignment]
        self._handle: asyncio.TimerHandle | None = None
        self._closing = False

    def start(self) -> None:
        self._look()

    def accept(self, client: tuple[str, int] | None = None) -> HttpConnection:
        """The protocol of a connection; `client` is where it comes from, if a load balancer stands between."""
        return HttpConnection(self._config, self._state, self._limits, self._crowd, client, self._is_balancer)

    def connection_count(self) -> int:
        return len(self._links)

    def close(self) -> None:
        """Finish the answers at hand, and no more."""
        self._closing = True
        for link in list(self._links):
            link.shutdown()

    def drop(self) -> None:
        """End everything that is left."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        for task in list(self._state.tasks):
            task.cancel()
        for link in list(self._links):
            link.transport.abort()

    def _look(self) -> None:
        self._state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
        now = self._loop.time()
        for link in list(self._links):
            link.look(now)
        self._handle = self._loop.call_later(self._limits.look_every_s, self._look)
