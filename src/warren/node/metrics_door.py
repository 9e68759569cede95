"""The listener that a Prometheus server scrapes: RabbitMQ's port 15692, for metrics and nothing else.

The same paths are on the HTTP port. So if nobody asked for this listener and its port is taken, which it is as soon as
two nodes run on one machine, the node says so and goes on without it.

Not here: what is answered (`admin.metrics`), the settings (`config.http_settings`).
"""

import asyncio
import socket

from warren.admin.http.application import Application
from warren.admin.http.router import Router
from warren.admin.http.settings import ApplicationSettings, LinkLimits
from warren.admin.metrics.resource import Metrics
from warren.admin.server import HttpServer
from warren.admin.station import Station
from warren.errors import ConfigError
from warren.node.config.http_settings import PrometheusSettings
from warren.node.listeners import bind, listen
from warren.node.logs import Log

PROTOCOL = "http/prometheus"
_CHOOSE = "choose another with prometheus.tcp.port"


class MetricsDoor:
    """Sockets for scrapes, and later the server behind them."""

    def __init__(self, settings: PrometheusSettings, log: Log) -> None:
        """Take the port; `ConfigError` if it was asked for and is not to be had."""
        self._settings = settings
        self._log = log
        self.sockets: list[socket.socket] = []
        try:
            self.sockets = bind(settings.address, _CHOOSE)
        except ConfigError as error:
            if settings.asked_for:
                raise
            log.warning("listener.skipped", protocol=PROTOCOL, reason=str(error))
        self._servers: list[asyncio.Server] = []
        self._server: HttpServer | None = None

    async def open(self, station: Station, metrics: Metrics, limits: LinkLimits) -> HttpServer:
        router = Router()
        for template, resource in metrics.routes(self._settings.path).items():
            router.add(template, resource)
        application = Application(router, station, ApplicationSettings(), self._log)
        server = self._server = HttpServer(application, asyncio.get_running_loop(), limits)
        server.start()
        self._servers += await listen(self.sockets, server.accept)
        return server

    def close(self) -> None:
        """Nobody comes in any more; whoever is answered is answered to the end."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        if self._server is not None:
            self._server.close()

    def drop(self) -> None:
        """End what is left."""
        if self._server is not None:
            self._server.drop()
