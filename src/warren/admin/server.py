"""The HTTP server inside a node: it runs in the node's loop, on sockets the node has bound.

`accept` makes the protocol of one connection; whoever listens, with TLS or without, and on as many sockets as there
are, hands it to the loop. Stopping is in two steps: no connection is kept alive once its answer is out (`close`), and
after a moment whatever is left is dropped (`drop`).

Not here: sockets and TLS (`node`), what is answered (`http.application`).
"""

import asyncio
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

from uvicorn.server import ServerState

from warren.admin.http.crowd import Crowd
from warren.admin.http.link import HttpLink, nobody, uvicorn_config
from warren.admin.http.settings import LinkLimits


class HttpServer:
    """The connections of one node's HTTP listeners."""

    def __init__(
        self,
        app: Any,
        loop: asyncio.AbstractEventLoop,
        limits: LinkLimits,
        is_balancer: Callable[[str], bool] = nobody,
    ) -> None:
        """`is_balancer` tells whether a load balancer is known to be at an address."""
        self._loop = loop
        self._limits = limits
        self._is_balancer = is_balancer
        self._config = uvicorn_config(app, limits)
        self._state = ServerState()
        self._crowd = Crowd(limits.connections_max)
        self._links: set[HttpLink] = self._state.connections  # type: ignore[assignment]
        self._handle: asyncio.TimerHandle | None = None
        self._closing = False

    def start(self) -> None:
        self._look()

    def accept(self, client: tuple[str, int] | None = None) -> HttpLink:
        """The protocol of a connection; `client` is where it comes from, if a load balancer stands between."""
        return HttpLink(self._config, self._state, self._limits, self._crowd, client, self._is_balancer)

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
