"""The HTTP server of a node: connections in the node's event loop, with limits on bytes, time and number.

`accept` makes the protocol object of a connection for a listener. Shutdown has two steps: `close` finishes responses in
progress and keeps no connection alive; `drop` aborts the rest.

uvicorn's protocol class handles HTTP. This module adds limits that uvicorn lacks:

- the head of a request: bytes and time;
- the body: time, and its bytes in memory together with those of all other bodies (`http.quotas`);
- what surrounds a body in chunks: its trailer has the limit of a head. The parser keeps a trailer whole, and uvicorn
  would add its fields to those of the head, where proxies do not look for them; they are dropped;
- responses that the client does not read;
- idle connections;
- requests sent ahead of their responses (pipelining): one read may hold ten thousand of them;
- the number of connections, in total and per address.

One timer checks all connections once a second, so a request needs no timer of its own. A late request gets 408, unless
its response has begun, and the connection ends.

A connection in the overflow quota (`http.quotas`) has two seconds to ask for the node's fitness; any other request gets
503.

*Upgrades.* The header `upgrade` is hidden from the parser, which would stop at it and leave the body unread. Java's
client offers `h2c` with its first request. Where it is not found, in a request that was sent ahead or in two reads, the
parser stops, and the connection is closed after the response.

Not here: sockets, TLS and PROXY headers (`node`), the size of a body (`http.request`), responses (`http.application`).
"""

import asyncio
import logging
import re
from collections.abc import Callable
from email.utils import formatdate
from typing import Any, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from warren.admin.background import BackgroundTask, BackgroundTasks
from warren.admin.http.quotas import BodyBudget, BodyLease, ConnectionQuota, ConnectionQuotas
from warren.admin.http.settings import FITNESS_PATH, HttpLimits
from warren.admin.loop_holds import LoopHolds, in_measured_steps

HEAD_BYTES_MAX = 64 * 1024
CLOSE_TIMEOUT_S = 5.0
OVERFLOW_TIMEOUT_S = 2.0
PIPELINED_MAX = 16

_UPGRADE = re.compile(rb"\r\nupgrade(?=[ \t]*:)", re.IGNORECASE)
_NO_UPGRADE = b"\r\nx-offer"
_FITNESS_REQUEST = re.compile(rb"GET " + re.escape(FITNESS_PATH.encode()) + rb"[? ]")
_TOO_MANY = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_NO_ROOM = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_HEAD_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


def no_balancer(host: str) -> bool:
    return False


class TooManyPipelined(Exception):
    """The client does not wait for responses."""


class HttpConnection(HttpToolsProtocol):
    """One HTTP connection and the times that it waits for."""

    def __init__(
        self,
        config: Config,
        state: ServerState,
        limits: HttpLimits,
        quotas: ConnectionQuotas,
        bodies: BodyBudget,
        client: tuple[str, int] | None = None,
        is_balancer: Callable[[str], bool] = no_balancer,
    ) -> None:
        """`client` is the client's address if it is not that of the socket."""
        super().__init__(config, state, {})
        self._real_client = client
        self._limits = limits
        self._quotas = quotas
        self._bodies = bodies
        self._is_balancer = is_balancer
        # the host, and the quota that counts it
        self._counted_host: str = ""
        self._quota: ConnectionQuota | None = None
        self._head_bytes = 0
        # when the current head began to arrive; None while none is expected
        self._head_since: float | None = None
        self._body_since: float | None = None
        # read since the last byte of the current body
        self._trailer_bytes = 0
        # of the current request
        self._lease: BodyLease | None = None
        self._unread_since: float | None = None
        self._closing_since: float | None = None

    # -- called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))
        self.client = self._real_client or self.client
        self._head_since = self.loop.time()
        self._counted_host = self.client[0] if self.client else ""
        speaks_for_itself = self._real_client is None and self._is_balancer(self._counted_host)
        self._quota = self._quotas.enter(self._counted_host, speaks_for_itself)
        if self._quota is None:
            self._end_with(_TOO_MANY)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._quota is not None:
            self._quota.leave(self._counted_host)
            self._quota = None
        for cycle, _ in self.pipeline:
            # the application never sees these requests
            lease_of(cycle.scope).release()
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
            head, end, rest = data.partition(b"\r\n\r\n")
            data = _UPGRADE.sub(_NO_UPGRADE, head) + end + rest
        else:
            self._trailer_bytes += len(data)
        if self._in_overflow() and not self._is_fitness_request(data):
            self._end_with(_TOO_MANY)
            return
        super().data_received(data)
        head_is_large = self._head_since is not None and self._head_bytes > HEAD_BYTES_MAX
        trailer_is_large = self._body_since is not None and self._trailer_bytes > HEAD_BYTES_MAX
        if head_is_large or trailer_is_large:
            self._end_with(_HEAD_TOO_LARGE)

    def _in_overflow(self) -> bool:
        return self._quota is not self._quotas.inside

    def _is_fitness_request(self, data: bytes) -> bool:
        """Load balancers send the request in one piece and nothing after it."""
        return self._head_bytes == len(data) and _FITNESS_REQUEST.match(data) is not None and data.endswith(b"\r\n\r\n")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread_since = self.loop.time()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread_since = None

    def _unsupported_upgrade_warning(self) -> None:
        """The parser has stopped. uvicorn would leave later requests without an answer."""
        self.cycle.keep_alive = False

    # -- called by the parser

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._body_since is None:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= PIPELINED_MAX:
            # stops the parser, and uvicorn responds with 400
            raise TooManyPipelined
        self._head_since = None
        self._head_bytes = 0
        self._body_since = self.loop.time()
        self._trailer_bytes = 0
        self._lease = self._bodies.lease(self._counted_host)
        self.scope["state"][_LEASE] = self._lease
        super().on_headers_complete()
        if self._in_overflow():
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        if self._closing_since is not None:
            return
        assert self._lease is not None
        self._trailer_bytes = 0
        if self._lease.take(len(body)):
            super().on_body(body)
        else:
            self._end_with(_NO_ROOM)

    def on_message_complete(self) -> None:
        self._body_since = None
        super().on_message_complete()

    # -- timeouts

    def look(self, now: float) -> None:
        """Close the connection if its client is late."""
        if self.transport.is_closing() or self._closing_since is not None:
            if self._closing_since is None:
                self._closing_since = now
            if now - self._closing_since > CLOSE_TIMEOUT_S:
                self.transport.abort()
        elif self._unread_since is not None and now - self._unread_since > self._limits.unread_patience_s:
            self.transport.abort()
        elif self._late(now):
            answered = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
            self._end_with(b"" if answered else _TOO_MANY if self._in_overflow() else _TOO_LATE)

    def _late(self, now: float) -> bool:
        if self._head_since is not None:
            patience_s = OVERFLOW_TIMEOUT_S if self._in_overflow() else self._limits.request_timeout_s
            return now - self._head_since > patience_s
        if self._body_since is not None and not self.flow.read_paused:
            return now - self._body_since > self._limits.body_timeout_s
        return False

    def _end_with(self, answer: bytes) -> None:
        self._closing_since = self.loop.time()
        self.transport.write(answer)
        self.transport.close()


_LEASE = "warren.body_lease"
_LOGGED_PATH_CHARS = 200


def _slow_step_fields(scope: Any) -> dict[str, object]:
    return {"method": scope["method"], "path": scope["path"][:_LOGGED_PATH_CHARS]}


def lease_of(scope: Any) -> BodyLease:
    """The lease of a request's body."""
    return cast(BodyLease, scope["state"][_LEASE])


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
    # uvicorn only logs faults of clients; the application logs bugs
    logging.getLogger("uvicorn.error").disabled = True
    return config


class HttpServer:
    """The connections of one node's HTTP listeners."""

    def __init__(
        self,
        app: Any,
        loop: asyncio.AbstractEventLoop,
        limits: HttpLimits,
        bodies: BodyBudget,
        holds: LoopHolds,
        is_balancer: Callable[[str], bool] = no_balancer,
    ) -> None:
        """`holds` measures the steps of requests. `is_balancer` says whether an address is a known load balancer's."""
        self._loop = loop
        self._limits = limits
        self._bodies = bodies
        self._holds = holds
        self._is_balancer = is_balancer
        self._app = app
        self._config = uvicorn_config(self._serve, limits)
        self._state = ServerState()
        self._quotas = ConnectionQuotas(limits.connections_max)
        self._links: set[HttpConnection] = self._state.connections  # type: ignore[assignment]
        self._looks: BackgroundTask | None = None
        self._closing = False

    def start(self, tasks: BackgroundTasks) -> None:
        self._look()
        self._looks = tasks.every("http timeouts", self._limits.look_every_s, self._look)

    def accept(self, client: tuple[str, int] | None = None) -> HttpConnection:
        """The protocol of a connection; `client` is its address if a load balancer is in between."""
        return HttpConnection(
            self._config, self._state, self._limits, self._quotas, self._bodies, client, self._is_balancer
        )

    async def _serve(self, scope: Any, receive: Any, send: Any) -> None:
        """Run the application. It may hold the body until it returns, also after the client has gone."""
        try:
            await in_measured_steps(self._app(scope, receive, send), self._holds, _slow_step_fields, scope)
        finally:
            lease_of(scope).release()

    def connection_count(self) -> int:
        return len(self._links)

    def close(self) -> None:
        """Finish responses in progress, and keep no connection alive."""
        self._closing = True
        for link in list(self._links):
            link.shutdown()

    def drop(self) -> None:
        """Abort all connections."""
        if self._looks is not None:
            self._looks.cancel()
            self._looks = None
        for task in list(self._state.tasks):
            task.cancel()
        for link in list(self._links):
            link.transport.abort()

    def _look(self) -> None:
        self._state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
        now = self._loop.time()
        for link in list(self._links):
            link.look(now)
