"""The HTTP listeners of a node: bound before the node starts, closed when it stops.

Until the broker has started, another application may answer.

The metrics listener on port 15692 is the one that Prometheus scrapes, as in RabbitMQ. The HTTP port has the same paths.
So if the operator did not configure this listener and its port is taken, which happens with two nodes on one machine,
the node logs that and goes on without it.

Not here: the replies (`warren.admin`, `admin.metrics`), the settings (`node.config.http_settings`).
"""

import asyncio
import os
import socket
import ssl
from typing import Any

from warren.admin.api import api_router
from warren.admin.background import BackgroundTasks
from warren.admin.command_queue import CommandQueue
from warren.admin.context import AdminContext
from warren.admin.direct_link import DirectLinks
from warren.admin.history.sampler import Sampler
from warren.admin.history.stats_history import StatsHistory
from warren.admin.http.application import Application
from warren.admin.http.authentication import Authenticator
from warren.admin.http.quotas import BodyBudget
from warren.admin.http.router import Router, monitor
from warren.admin.http.server import HttpServer, no_balancer
from warren.admin.loop_holds import LoopHolds
from warren.admin.metrics.scrape import PATH, Metrics
from warren.admin.peer_requests import PeerQueryHandler
from warren.admin.peers import Peers
from warren.admin.ports import BridgesPort, ListenerFacts, PeerPort
from warren.admin.tracing.files import TraceDirectory
from warren.admin.tracing.traces import Traces
from warren.broker.broker import Broker
from warren.errors import ConfigError
from warren.node.admin_ports import ProcessControl, ProcessFacts
from warren.node.config.http_settings import HttpSettings, PrometheusSettings
from warren.node.disk.file_names import TRACES
from warren.node.listeners import ListenAddress, OpenListener, accept_on, bind, bind_all, bound_address, listen
from warren.node.logs import Log
from warren.node.proxy_protocol import ProxiedAddresses
from warren.node.tls import server_context

PROTOCOL = "http/prometheus"
_CHOOSE_METRICS = "choose another with prometheus.tcp.port"


class MetricsListener:
    """The sockets for scrapes, and later the server behind them."""

    def __init__(self, settings: PrometheusSettings, log: Log, tasks: BackgroundTasks) -> None:
        """Bind the port; raises `ConfigError` if it was configured and cannot be bound."""
        self._settings = settings
        self._log = log
        self._tasks = tasks
        self.sockets: list[socket.socket] = []
        try:
            self.sockets = bind(settings.address, _CHOOSE_METRICS)
        except ConfigError as error:
            if settings.asked_for:
                raise
            log.warning("listener.skipped", protocol=PROTOCOL, reason=str(error))
        self._servers: list[asyncio.Server] = []
        self._server: HttpServer | None = None

    async def open(
        self,
        admin_context: AdminContext,
        metrics: Metrics,
        settings: HttpSettings,
        bodies: BodyBudget,
        holds: LoopHolds,
    ) -> HttpServer:
        router = Router()
        level = monitor if self._settings.authentication else None
        for template, resource in metrics.routes(self._settings.path, level, level).items():
            router.add(template, resource)
        application = Application(router, admin_context, settings.application, self._log)
        loop = asyncio.get_running_loop()
        server = self._server = HttpServer(application, loop, settings.limits, bodies, holds)
        server.start(self._tasks)
        self._servers += await listen(self.sockets, server.accept)
        return server

    def close(self) -> None:
        """Accept no more; requests under way are answered."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        if self._server is not None:
            self._server.close()

    def drop(self) -> None:
        """End the remaining requests."""
        if self._server is not None:
            self._server.drop()


_CHOOSE_TCP = "choose another with --http HOST:PORT (port 0 picks a free one) or management.tcp.port"
_CHOOSE_SSL = "choose another with management.ssl.port"


class HttpListeners:
    """The sockets for HTTP, and later the server behind them."""

    def __init__(self, settings: HttpSettings, tls_patience_s: float, log: Log, tasks: BackgroundTasks) -> None:
        """Bind the ports; raises `ConfigError` if they cannot be bound."""
        self._settings = settings
        self._tls_patience_s = tls_patience_s
        self._log = log
        self._tasks = tasks
        self._context: ssl.SSLContext | None = server_context(settings.tls) if settings.ssl_listeners else None
        self._tcp_sockets = bind_all(settings.tcp_listeners, _CHOOSE_TCP)
        self._ssl_sockets = bind_all(settings.ssl_listeners, _CHOOSE_SSL)
        self._metrics = MetricsListener(settings.prometheus, log, tasks)
        self._opened: list[OpenListener] = []
        self._server: HttpServer | None = None
        self._bodies = BodyBudget(settings.application.body_bytes_max)
        # of the requests of all listeners
        self.holds = LoopHolds("request.slow", log)
        # the ASGI application
        self._application: Any = None
        self._history: StatsHistory | None = None
        self._traces: Traces | None = None

    def listeners(self) -> list[tuple[str, socket.socket]]:
        """Every socket with the name of its protocol."""
        plain = [("http", bound) for bound in self._tcp_sockets]
        secured = [("https", bound) for bound in self._ssl_sockets]
        return [*plain, *secured, *((PROTOCOL, bound) for bound in self._metrics.sockets)]

    def address(self) -> ListenAddress | str:
        """The address in the ready line."""
        bound = [*self._tcp_sockets, *self._ssl_sockets]
        return bound_address(bound[0]) if bound else "-"

    def buffered_bytes(self) -> int:
        """The memory of requests that are being received or handled."""
        return self._bodies.buffered_bytes

    def describe(self, facts: ProcessFacts) -> None:
        """Add the listeners to the node's facts."""
        for protocol, bound in self.listeners():
            where = bound_address(bound)
            tls = protocol == "https"
            listener = ListenerFacts(protocol, where.host, where.port, tls)
            facts.listens(listener, self._settings.tls.certfile if tls else "")

    async def serve_early(self, application: Any) -> None:
        """Answer with this application until there is a broker."""
        self._application = application
        await self._listen()

    async def open(
        self,
        broker: Broker,
        command_queue: CommandQueue,
        facts: ProcessFacts,
        links: DirectLinks,
        control: ProcessControl,
        peer_links: PeerPort | None,
        bridges: BridgesPort,
    ) -> None:
        """Serve this broker, to operators and to other nodes' admin interfaces."""
        accounts, peers = Authenticator(broker, command_queue), Peers(broker, facts.name, peer_links)
        self._history = StatsHistory(Sampler(broker, facts, self._settings.sample_interval_ms, links=peers.links))
        self._history.start(self._tasks)
        directory = TraceDirectory(self._settings.trace_directory or os.path.join(facts.data_dir, TRACES))
        self._traces = Traces(broker, command_queue, links, facts, directory, self._settings.trace_rotation, self._log)
        pages_login = self._settings.application.pages_login
        admin_context = AdminContext(
            broker,
            command_queue,
            accounts,
            facts,
            self._history,
            links,
            control,
            self._traces,
            peers,
            bridges,
            pages_login,
        )
        metrics = Metrics(admin_context, self._settings.prometheus.per_object)
        router = api_router()
        totals = monitor if self._settings.prometheus.authentication else None
        for template, resource in metrics.routes(PATH, totals, monitor).items():
            router.add(template, resource)
        self._application = application = Application(router, admin_context, self._settings.application, self._log)
        if peer_links is not None:
            peer_links.answers(PeerQueryHandler(application, admin_context).answer)
        server = self._server or await self._listen()
        facts.counts_sockets(server.connection_count)
        scraped = await self._metrics.open(admin_context, metrics, self._settings, self._bodies, self.holds)
        facts.counts_sockets(scraped.connection_count)

    async def _listen(self) -> HttpServer:
        balancers = self._settings.balancers
        is_balancer = no_balancer if balancers is None else balancers.name
        self._server = server = HttpServer(
            self._pass_on, asyncio.get_running_loop(), self._settings.limits, self._bodies, self.holds, is_balancer
        )
        server.start(self._tasks)

        def accept(ends: ProxiedAddresses | None = None) -> asyncio.Protocol:
            return server.accept(None if ends is None else ends.peer)

        for sockets, context in ((self._tcp_sockets, None), (self._ssl_sockets, self._context)):
            self._opened += await accept_on(
                sockets, accept, context, self._tls_patience_s, self._log, balancers, self._tasks
            )
        return server

    async def _pass_on(self, scope: Any, receive: Any, send: Any) -> None:
        await self._application(scope, receive, send)

    def close(self) -> None:
        """Accept no more; requests under way are answered."""
        self._metrics.close()
        if self._traces is not None:
            self._traces.node_stops()
        for opened in self._opened:
            opened.close()
        self._opened.clear()
        for bound in [*self._tcp_sockets, *self._ssl_sockets]:
            bound.close()
        if self._server is not None:
            self._server.close()

    async def end_traces(self) -> None:
        """Write the buffered trace records."""
        if self._traces is not None:
            await self._traces.end()

    def drop(self) -> None:
        """End the remaining requests."""
        self._metrics.drop()
        if self._history is not None:
            self._history.stop()
        if self._server is not None:
            self._server.drop()
