"""The HTTP listeners of a node: bound before it starts, closed when it stops.

Until the core is there they lead to whoever stands in for it, if anybody does.

Not here: what is answered (`admin`), the settings (`config.http_settings`).
"""

import asyncio
import os
import socket
import ssl
from typing import Any

from warren.admin.accounts import Accounts
from warren.admin.api import router_of
from warren.admin.bridges_port import BridgesPort
from warren.admin.cluster.answering import PeerAnswers
from warren.admin.cluster.peer_port import PeerPort
from warren.admin.cluster.peers import Peers
from warren.admin.desk import Desk
from warren.admin.direct_link import DirectLinks
from warren.admin.history.history import History
from warren.admin.history.sampler import Sampler
from warren.admin.http.application import Application
from warren.admin.http.link import nobody
from warren.admin.metrics.resource import Metrics
from warren.admin.node_facts import ListenerFacts
from warren.admin.server import HttpServer
from warren.admin.station import Station
from warren.admin.tracing.directory import TraceDirectory
from warren.admin.tracing.traces import Traces
from warren.broker.broker import Broker
from warren.node.config.http_settings import HttpSettings
from warren.node.control import ProcessControl
from warren.node.disk.names import TRACES
from warren.node.door import Opened, let_in
from warren.node.facts import ProcessFacts
from warren.node.listeners import ListenAddress, bind_all, bound_address
from warren.node.logs import Log
from warren.node.metrics_door import PROTOCOL, MetricsDoor
from warren.node.proxy.header import Ends
from warren.node.tls import server_context

_CHOOSE_TCP = "choose another with --http HOST:PORT (port 0 picks a free one) or management.tcp.port"
_CHOOSE_SSL = "choose another with management.ssl.port"


class HttpDoor:
    """Sockets for HTTP, and later the server behind them."""

    def __init__(self, settings: HttpSettings, tls_patience_s: float, log: Log) -> None:
        """Take the ports; `ConfigError` if they are not to be had."""
        self._settings = settings
        self._tls_patience_s = tls_patience_s
        self._log = log
        self._context: ssl.SSLContext | None = server_context(settings.tls) if settings.ssl_listeners else None
        self._tcp_sockets = bind_all(settings.tcp_listeners, _CHOOSE_TCP)
        self._ssl_sockets = bind_all(settings.ssl_listeners, _CHOOSE_SSL)
        self._metrics = MetricsDoor(settings.prometheus, log)
        self._opened: list[Opened] = []
        self._server: HttpServer | None = None
        # what answers, as uvicorn calls it
        self._application: Any = None
        self._history: History | None = None
        self._traces: Traces | None = None

    def listeners(self) -> list[tuple[str, socket.socket]]:
        """Every socket with the name of its protocol."""
        plain = [("http", bound) for bound in self._tcp_sockets]
        secured = [("https", bound) for bound in self._ssl_sockets]
        return [*plain, *secured, *((PROTOCOL, bound) for bound in self._metrics.sockets)]

    def address(self) -> ListenAddress | str:
        """What the ready line names."""
        bound = [*self._tcp_sockets, *self._ssl_sockets]
        return bound_address(bound[0]) if bound else "-"

    def describe(self, facts: ProcessFacts) -> None:
        """Tell the node's facts where it listens."""
        for protocol, bound in self.listeners():
            where = bound_address(bound)
            tls = protocol == "https"
            listener = ListenerFacts(protocol, where.host, where.port, tls)
            facts.listens(listener, self._settings.tls.certfile if tls else "")

    async def stand_in(self, application: Any) -> None:
        """Let this answer until there is a broker."""
        self._application = application
        await self._listen()

    async def open(
        self,
        broker: Broker,
        desk: Desk,
        facts: ProcessFacts,
        links: DirectLinks,
        control: ProcessControl,
        peer_links: PeerPort | None,
        bridges: BridgesPort,
    ) -> None:
        """Serve this broker, to operators and to the operators of other nodes."""
        accounts, peers = Accounts(broker, desk), Peers(broker, facts.name, peer_links)
        self._history = History(Sampler(broker, facts, self._settings.sample_interval_ms, links=peers.links))
        self._history.start(asyncio.get_running_loop(), facts.now_ms())
        directory = TraceDirectory(self._settings.trace_directory or os.path.join(facts.data_dir, TRACES))
        self._traces = Traces(broker, desk, links, facts, directory, self._settings.trace_rotation, self._log)
        station = Station(broker, desk, accounts, facts, self._history, links, control, self._traces, peers, bridges)
        metrics = Metrics(station, self._settings.prometheus.per_object)
        router = router_of(station)
        for template, resource in metrics.routes().items():
            router.add(template, resource)
        self._application = application = Application(router, station, self._settings.application, self._log)
        if peer_links is not None:
            peer_links.answers(PeerAnswers(application, station).answer)
        server = self._server or await self._listen()
        facts.counts_sockets(server.connection_count)
        facts.counts_sockets((await self._metrics.open(station, metrics, self._settings.limits)).connection_count)

    async def _listen(self) -> HttpServer:
        balancers = self._settings.balancers
        is_balancer = nobody if balancers is None else balancers.name
        self._server = server = HttpServer(
            self._pass_on, asyncio.get_running_loop(), self._settings.limits, is_balancer
        )
        server.start()

        def accept(ends: Ends | None = None) -> asyncio.Protocol:
            return server.accept(None if ends is None else ends.peer)

        for sockets, context in ((self._tcp_sockets, None), (self._ssl_sockets, self._context)):
            self._opened += await let_in(sockets, accept, context, self._tls_patience_s, self._log, balancers)
        return server

    async def _pass_on(self, scope: Any, receive: Any, send: Any) -> None:
        await self._application(scope, receive, send)

    def close(self) -> None:
        """Nobody comes in any more; whoever is answered is answered to the end."""
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
        """Write what the traces still hold."""
        if self._traces is not None:
            await self._traces.end()

    def drop(self) -> None:
        """End what is left."""
        self._metrics.drop()
        if self._history is not None:
            self._history.stop()
        if self._server is not None:
            self._server.drop()
