"""One HTTP connection, and the bounds on what a client can cost: bytes, time, and how many there are.

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

Not here: the size of a body (`http.call`), TLS and PROXY headers (`node.door`).
"""

import asyncio
import logging
import re
from collections.abc import Callable
from typing import Any, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from warren.admin.http.crowd import Crowd, Room
from warren.admin.http.settings import FITNESS_PATH, LinkLimits

HEAD_BYTES_MAX = 64 * 1024
CLOSE_PATIENCE_S = 5.0
DOORSTEP_PATIENCE_S = 2.0

_UPGRADE = re.compile(rb"\r\nupgrade(?=[ \t]*:)", re.IGNORECASE)
_NO_UPGRADE = b"\r\nx-offer"
_HOW_IT_IS = re.compile(rb"GET " + re.escape(FITNESS_PATH.encode()) + rb"[? ]")
_TOO_MANY = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_HEAD_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


def nobody(host: str) -> bool:
    return False


class HttpLink(HttpToolsProtocol):
    """A connection that knows what it waits for, and since when."""

    def __init__(
        self,
        config: Config,
        state: ServerState,
        limits: LinkLimits,
        crowd: Crowd,
        client: tuple[str, int] | None = None,
        is_balancer: Callable[[str], bool] = nobody,
    ) -> None:
        """`client` is where it comes from, if that is not where the socket comes from."""
        super().__init__(config, state, {})
        self._behind_socket = client
        self._limits = limits
        self._crowd = crowd
        self._is_balancer = is_balancer
        # where it comes from and where it is counted, once it is let in
        self._entered_from: str = ""
        self._room: Room | None = None
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
        return self._head_bytes == len(data) and _HOW_IT_IS.match(data) is not None and data.endswith(b"\r\n\r\n")

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
            if now - self._closing_since > CLOSE_PATIENCE_S:
                self.transport.abort()
        elif self._unread_since is not None and now - self._unread_since > self._limits.unread_patience_s:
            self.transport.abort()
        elif self._late(now):
            answered = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
            self._end_with(b"" if answered else _TOO_MANY if self._on_the_doorstep() else _TOO_LATE)

    def _late(self, now: float) -> bool:
        if self._head_since is not None:
            patience_s = DOORSTEP_PATIENCE_S if self._on_the_doorstep() else self._limits.request_timeout_s
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


def uvicorn_config(app: Any, limits: LinkLimits) -> Config:
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
