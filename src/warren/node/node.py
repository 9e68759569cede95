"""A running node: the broker, its disk, turns, listeners and watches, and the signals that end it.

Starting: everything that can be refused is refused before the node listens: the data directory is locked, the ports are
bound, and the broker recovers from disk. The definitions that the configuration names are imported before clients are
accepted. All files count as one: if any of them is faulty, nothing is imported and the node does not start. Existing
objects stay as they are, so the same files work at every start. The `ready` line comes when connections are accepted;
the log and systemd are told too.

Stopping: the first SIGTERM or SIGINT closes the listeners and tells the broker, which closes every connection and then
orders `StopNode`; there is a deadline. A second signal ends the process without closing handshakes. Either way all
orders to the disk are carried out before the data directory is unlocked.

Exit codes: 0 stopped as asked; 1 the broker or the disk failed, or a second signal.

Not here: stopping and starting within one process (`node.service`), the settings (`node.config`), the command line
(`warren.cli`), the format of definitions (`admin.definition_import`).
"""

import asyncio
import errno
import os
import signal
import socket
import ssl
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, TypeVar

from warren.admin.background import BackgroundTasks
from warren.admin.command_queue import CommandQueue
from warren.admin.definition_import import DefinitionImporter, DefinitionsFile, InvalidDefinitionsFile
from warren.admin.direct_link import DirectLinks
from warren.admin.metrics.node_values import DESCRIPTORS_SPARE
from warren.admin.ports import IoStats, ListenerFacts
from warren.broker.broker import Broker
from warren.broker.journal.recovery import StartupState
from warren.broker.model.effects import PauseService, RestartNode, ResumeService
from warren.broker.model.events import StopRequested
from warren.errors import CommandRefused, ConfigError, StoreError
from warren.node import process
from warren.node.admin_ports import ProcessControl, ProcessFacts
from warren.node.bridge_host import NodeBridges
from warren.node.client_sockets import ClientSockets
from warren.node.cluster.agent import ClusterAgent
from warren.node.cluster.control_endpoint import STATUS_STARTING, ControlEndpoint, ControlStatus
from warren.node.config.settings import NodeSettings
from warren.node.disk.disk import Disk
from warren.node.disk.file_io import os_error_text
from warren.node.disk.journal_writer import CLOSE_PATIENCE_S
from warren.node.http_auth import HttpAuth
from warren.node.http_listeners import HttpListeners
from warren.node.key_settings import is_trusted_url
from warren.node.listeners import ListenAddress, OpenListener, accept_on, bind, bind_all, bound_address
from warren.node.logs import Log
from warren.node.password_checks import PasswordChecks
from warren.node.resources import DiskWatch, MemoryWatch
from warren.node.tls import server_context
from warren.node.turn_loop import Clock, Core, TurnLoop


@dataclass(frozen=True)
class NodeAddresses:
    """The addresses of a node, and what it runs on; `amqp`, `amqps`, `http` and `peer` as in the ready line."""

    loop_name: str
    # every address, by protocol
    listeners: list[tuple[str, ListenAddress]]
    amqp: str
    http: str
    amqps: str = ""
    peer: str = ""
    data: str = "none"
    # files in the journal's directory that are not the node's
    strangers: list[str] = field(default_factory=list)


def announce_ready(settings: NodeSettings, presence: NodeAddresses, log: Log) -> None:
    name = settings.broker.node_name
    log.info(
        "node.started",
        name=name,
        pid=os.getpid(),
        core=process.core_kind(),
        loop=presence.loop_name,
        memory_limit_bytes=settings.memory_limit_bytes,
        data=presence.data,
    )
    for protocol, where in presence.listeners:
        log.info("listener.opened", protocol=protocol, address=where)
    _warn_of_settings(settings, presence, log)
    log.settle()
    optional = [f" {kind}={where}" for kind, where in (("amqps", presence.amqps), ("peer", presence.peer)) if where]
    addresses = f"amqp={presence.amqp} http={presence.http}{''.join(optional)}"
    process.notify_ready(f"{name} serves {addresses}")
    print(f"ready name={name} {addresses}", flush=True)


def _warn_of_settings(settings: NodeSettings, presence: NodeAddresses, log: Log) -> None:
    if settings.without_effect:
        log.warning("settings.accepted", keys=",".join(settings.without_effect), effect="accepted, no effect yet")
    if presence.strangers:
        log.warning("files.ignored", names=",".join(presence.strangers), directory="journal")
    if settings.unknown_variables:
        log.warning("environment.ignored", variables=",".join(settings.unknown_variables))
    broker = settings.broker
    if (broker.default_user, broker.default_pass) == ("guest", "guest") and not broker.starts_empty:
        log.warning("credentials.defaulted", user="guest", advice="set default_user and default_pass")
    urls = list(dict.fromkeys(url for url in settings.http_auth.urls.values() if not is_trusted_url(url)))
    if broker.authentication.http is not None and urls:
        log.warning("passwords.unencrypted", urls=",".join(urls), advice="use https for auth_http.*_path")


async def import_boot_definitions(importer: DefinitionImporter, paths: list[str]) -> int:
    """The number of imported definitions; `ConfigError` names the faulty file and line."""
    files = [_read_definitions(path) for given in paths for path in _definition_files(given)]
    try:
        return await importer.take(files, keep=True)
    except (InvalidDefinitionsFile, CommandRefused) as error:
        raise ConfigError(str(error)) from error


def _definition_files(path: str) -> list[str]:
    """The file itself, or the JSON files of a directory, in order."""
    if not os.path.isdir(path):
        return [path]
    return [os.path.join(path, name) for name in sorted(os.listdir(path)) if name.endswith(".json")]


def _read_definitions(path: str) -> DefinitionsFile:
    try:
        with open(path, "rb") as file:
            return DefinitionsFile(path, file.read())
    except OSError as error:
        raise ConfigError(f"the definitions {path} cannot be read: {error.strerror}") from error


STOP_PATIENCE_S = 5.0
LAST_BYTES_PATIENCE_S = 1.0
WATCH_DESCRIPTORS_EVERY_S = 5.0
END = "end"
RUN = "run"
STOPPED = "stopped"
_ANSWER_S = 0.1
_CHOOSE_TCP = "choose another with --amqp HOST:PORT (port 0 picks a free one) or listeners.tcp.default"
_CHOOSE_SSL = "choose another with listeners.ssl.default"

T = TypeVar("T")


class Node:
    """One run of a node, from its bound sockets to its exit code."""

    def __init__(self, settings: NodeSettings, log: Log, descriptors: int, disk: Disk | None) -> None:
        self.clock = Clock()
        self._settings = settings
        self._disk = disk
        self._disk_watch: DiskWatch | None = None
        self._disk_broken = False
        self._descriptors = descriptors
        self._descriptors_exhausted = False
        self._log = log
        self._context: ssl.SSLContext | None = server_context(settings.tls) if settings.ssl_listeners else None
        self._tcp_sockets = bind_all(settings.tcp_listeners, _CHOOSE_TCP)
        self._ssl_sockets = bind_all(settings.ssl_listeners, _CHOOSE_SSL)
        self._opened: list[OpenListener] = []
        self._tasks = BackgroundTasks(log)
        self._http = HttpListeners(settings.http, settings.tls_handshake_timeout_ms / 1000, log, self._tasks)
        self._life: ClusterAgent | None = None
        self._bridging: NodeBridges | None = None
        # whether there is a broker, which can be told to stop
        self._started = False
        # of connections
        self._serial = count(1)
        self._stopping = False
        # the next action of the process when this run is over
        self.sequel = END
        # whether clients are accepted; not while the service is paused
        self._open = False
        self._paused = False
        self._amqp_addresses = [(protocol, bound_address(bound)) for protocol, bound in self._amqp_sockets()]

    async def run(self, core: Core | None, loop_name: str) -> int:
        """Without a broker, one is made from the disk or the cluster's metadata."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._loop_trouble)
        self._finished: asyncio.Future[int] = loop.create_future()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled, number)
        if core is not None:
            return await self._run(core, loop, loop_name)
        assert self._disk is not None
        self._life = life = ClusterAgent(self._settings, self._disk, self._log, self._tasks)
        try:
            found = await self._begin(life)
            if found is None:
                return await self._finished
            return await self._run(Broker(self._settings.broker, os.urandom(32), found), loop, loop_name)
        finally:
            self._close_listeners()
            self._http.drop()
            await life.close()

    async def _begin(self, life: ClusterAgent) -> StartupState | None:
        """The state the broker starts with; None if the node is stopped while it waits for others."""
        process.notify_status("is starting, and waits for a majority of its cluster's disc nodes, if it has any")
        http, amqp = self._addresses()
        await self._http.serve_early(self._control_endpoint(life))
        return await self._unless_finished(life.begin(self.clock.now_ms(), http, amqp))

    async def _unless_finished(self, work: Coroutine[Any, Any, T]) -> T | None:
        """The result; None if the node is finished first."""
        working = asyncio.ensure_future(work)
        waited_for: list[asyncio.Future[Any]] = [working, self._finished]
        await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        return None

    def _control_endpoint(self, life: ClusterAgent) -> ControlEndpoint:
        async def stop_app(arguments: Mapping[str, Any]) -> None:
            self._stop_app()

        return ControlEndpoint(ControlStatus(life.name, STATUS_STARTING, verbs={"stop_app": stop_app}), life.cookie)

    async def _run(self, core: Core, loop: asyncio.AbstractEventLoop, loop_name: str) -> int:
        self._turns = TurnLoop(core, loop, self.clock, self._log, self._finish)
        self._started = True
        limit_bytes, interval_s = self._settings.memory_limit_bytes, self._settings.memory_interval_s
        memory = MemoryWatch(self._turns.add, limit_bytes, interval_s, self._http.buffered_bytes)
        passwords = PasswordChecks(loop, self._turns.add)
        self._turns.attach(passwords.orders())
        http_auth = HttpAuth(self._settings.http_auth, loop, self._turns.add)
        self._turns.attach(http_auth.orders())
        end_tokens = self._verify_tokens(loop)
        self._turns.attach({PauseService: self._pause, ResumeService: self._resume, RestartNode: self._start_anew})
        if self._disk is not None:
            self._start_disk(self._disk)
        facts = self._facts(loop_name)
        self._describe(facts)
        facts.start(self._tasks)
        try:
            await self._accept_everyone(core, loop, facts, memory)
        except ConfigError:
            passwords.close()
            http_auth.close()
            end_tokens()
            if self._disk is not None:
                await self._close_disk(self._disk)
            raise
        memory.start(self._tasks)
        self._tasks.every("descriptors", WATCH_DESCRIPTORS_EVERY_S, partial(self._watch_descriptors, facts))
        if self._open:
            self._announce(loop_name)
        process.tune_garbage_collector()
        exit_code = await self._finished
        self._close_listeners()
        memory.stop()
        passwords.close()
        http_auth.close()
        end_tokens()
        facts.stop()
        await self._let_last_bytes_out(loop)
        await self._http.end_traces()
        self._http.drop()
        if self._disk is not None and not await self._close_disk(self._disk):
            exit_code = 1
        self._log.info("node.stopped", exit_code=exit_code)
        return exit_code

    def _verify_tokens(self, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
        """Verify access tokens, if they are configured; a function that ends it."""
        if not self._settings.token_keys.can_verify:
            return lambda: None
        # only a node with tokens loads the libraries of signatures
        from warren.node.token_verification import TokenVerification

        tokens = TokenVerification(self._settings.token_keys, loop, self._turns.add, self._log)
        self._turns.attach(tokens.orders())
        if tokens.keys.can_fetch:
            self._tasks.start("signing keys", tokens.keys.keep_fetching)
        return tokens.close

    async def _accept_everyone(
        self, core: Core, loop: asyncio.AbstractEventLoop, facts: ProcessFacts, memory: MemoryWatch
    ) -> None:
        """Accept operators, then clients; nothing if the node is told to stop meanwhile."""
        if isinstance(core, Broker):
            command_queue = CommandQueue(loop, self._turns.add)
            self._turns.attach(command_queue.orders())
            self._bridging = NodeBridges(
                core, self._turns, command_queue, self._log, self._serial.__next__, self._tasks
            )
            if self._life is not None:
                self._life.attach(core, self._turns, command_queue, *self._addresses())
                await self._unless_finished(self._life.cleared())
            if self._goes_on():
                await self._import_definitions(DefinitionImporter(core, command_queue))
            if self._goes_on():
                await self._open_http(core, command_queue, facts, memory)
        self._open = self._goes_on()
        if self._open and not self._paused:
            await self._listen()
        if self._open and self._bridging is not None:
            self._bridging.start()

    def _goes_on(self) -> bool:
        return not self._stopping and not self._finished.done()

    def _start_disk(self, disk: Disk) -> None:
        disk.start(self._turns, self._disk_failed)
        self._turns.attach(disk.orders())
        self._disk_watch = DiskWatch(self._turns.add, disk.path, self._settings.disk_limit_bytes)
        self._disk_watch.start(self._tasks)

    async def _close_disk(self, disk: Disk) -> bool:
        """Whether everything ordered is on disk. The loop runs meanwhile, because the threads report to it."""
        if self._disk_watch is not None:
            self._disk_watch.stop()
        given_up = await asyncio.to_thread(disk.close)
        if given_up:
            self._log.error("disk.abandoned", orders=given_up, waited_s=CLOSE_PATIENCE_S)
        return not given_up and not self._disk_broken

    def _disk_failed(self, error: Exception) -> None:
        self._disk_broken = True
        self._turns.halt()
        # other exceptions are defects and need their traceback
        expected = isinstance(error, StoreError | OSError)
        self._log.critical("disk.failed", reason=os_error_text(error), exc_info=None if expected else error)

    async def _import_definitions(self, importer: DefinitionImporter) -> None:
        paths = self._settings.definition_paths
        if paths:
            count = await import_boot_definitions(importer, paths)
            self._log.info("definitions.imported", paths=",".join(paths), definitions=count)

    async def _open_http(
        self, core: Broker, command_queue: CommandQueue, facts: ProcessFacts, memory: MemoryWatch
    ) -> None:
        assert self._bridging is not None
        links = DirectLinks(self._turns, self._serial.__next__, self._settings.broker.frame_max)
        control = ProcessControl(self._settings, facts, memory, self._disk_watch, self._log, self._stop_asked)
        control.part_in_cluster(self._life, self._stop_app)
        peers = None if self._life is None else self._life.links
        await self._http.open(core, command_queue, facts, links, control, peers, self._bridging.admin)

    def _facts(self, loop_name: str) -> ProcessFacts:
        disk = self._disk
        path, io = ("", IoStats()) if disk is None else (disk.path, disk.io)
        facts = ProcessFacts(self._settings, self.clock, loop_name, self._descriptors, path, io)
        facts.counts_sockets(lambda: len(self._turns.links) + len(self._turns.lingering))
        facts.holds = {"turn": self._turns.holds, "request": self._http.holds}
        return facts

    def _describe(self, facts: ProcessFacts) -> None:
        for protocol, where in self._amqp_addresses:
            listener = ListenerFacts("amqp/ssl" if protocol == "amqps" else "amqp", where.host, where.port)
            facts.listens(listener, self._settings.tls.certfile if protocol == "amqps" else "")
        self._http.describe(facts)

    def _addresses(self) -> tuple[str, str]:
        """The addresses for operators and clients."""
        return str(self._http.address()), self._first_address("amqp")

    def _first_address(self, wanted: str) -> str:
        return next((str(where) for protocol, where in self._amqp_addresses if protocol == wanted), "-")

    def _amqp_sockets(self) -> list[tuple[str, socket.socket]]:
        plain = [("amqp", bound) for bound in self._tcp_sockets]
        return plain + [("amqps", bound) for bound in self._ssl_sockets]

    async def _listen(self) -> None:
        patience_s, balancers = self._settings.tls_handshake_timeout_ms / 1000, self._settings.balancers
        plain = ClientSockets(self._turns, self._serial).accept
        self._opened += await accept_on(self._tcp_sockets, plain, None, patience_s, self._log, balancers, self._tasks)
        secured = ClientSockets(self._turns, self._serial, self._settings.certificate_naming).accept
        self._opened += await accept_on(
            self._ssl_sockets, secured, self._context, patience_s, self._log, balancers, self._tasks
        )

    def _pause(self, effect: PauseService) -> None:
        """Accept no clients; operators are still answered."""
        self._paused = True
        process.notify_status("is cut off from too many nodes of its cluster, and serves no clients")
        self._close_amqp()
        if self._life is not None:
            self._life.pause()

    def _resume(self, effect: ResumeService) -> None:
        self._paused = False
        process.notify_status("serves again, after it was cut off from too many nodes of its cluster")
        if not self._stopping:
            self._tcp_sockets = self._bound_again("amqp", _CHOOSE_TCP)
            self._ssl_sockets = self._bound_again("amqps", _CHOOSE_SSL)
            if self._open:
                self._resuming = asyncio.ensure_future(self._listen())
        if self._life is not None:
            self._life.resume()

    def _bound_again(self, protocol: str, choose: str) -> list[socket.socket]:
        wanted = [address for kind, address in self._amqp_addresses if kind == protocol]
        return [bound for address in wanted for bound in bind(address, choose)]

    def _start_anew(self, effect: RestartNode) -> None:
        self.sequel = RUN
        self._begin_stop()

    def _announce(self, loop_name: str) -> None:
        operators = [(protocol, bound_address(bound)) for protocol, bound in self._http.listeners()]
        presence = NodeAddresses(
            loop_name,
            [*self._amqp_addresses, *operators],
            amqp=self._first_address("amqp"),
            http=str(self._http.address()),
            amqps=self._first_address("amqps") if self._ssl_sockets else "",
            peer="" if self._life is None else self._life.peer_address,
            data=self._disk.path if self._disk is not None else "none",
            strangers=[] if self._disk is None else self._disk.strangers,
        )
        announce_ready(self._settings, presence, self._log)

    def _watch_descriptors(self, facts: ProcessFacts) -> None:
        """uvloop refuses clients silently when descriptors run out, so the operator is warned, once each time."""
        used, limit = facts.descriptors_used(), facts.descriptors_total
        exhausted = used > limit - DESCRIPTORS_SPARE
        if exhausted and not self._descriptors_exhausted:
            self._log.warning("descriptors.exhausted", used=used, sockets=facts.sockets_used(), limit=limit)
        self._descriptors_exhausted = exhausted

    def _signalled(self, number: signal.Signals) -> None:
        self._log.info("signal.received", signal=signal.Signals(number).name)
        if self._stopping:
            self._finish(1)
        elif not self._started:
            self._finish(0)
        else:
            self._begin_stop()

    def _stop_asked(self) -> None:
        """The reply to the operator goes out first."""
        asyncio.get_running_loop().call_soon(self._begin_stop)

    def _stop_app(self) -> None:
        """The process stays; the reply to the operator goes out first."""
        self.sequel = STOPPED
        if self._started:
            self._stop_asked()
        else:
            asyncio.get_running_loop().call_later(_ANSWER_S, self._finish, 0)

    def _begin_stop(self) -> None:
        if self._stopping:
            return
        self._stopping = True
        if self.sequel == END:
            process.notify_stopping()
        self._close_listeners()
        if self._bridging is None:
            self._turns.add(StopRequested())
        else:
            self._bridging.stop_before(lambda: self._turns.add(StopRequested()))
        asyncio.get_running_loop().call_later(STOP_PATIENCE_S, self._stop_overdue)

    def _stop_overdue(self) -> None:
        if not self._finished.done():
            self._log.warning("node.hurried", waited_s=STOP_PATIENCE_S)
            self._finish(0)

    def _finish(self, exit_code: int) -> None:
        if not self._finished.done():
            self._finished.set_result(exit_code)

    def _close_listeners(self) -> None:
        self._close_amqp()
        self._http.close()

    def _close_amqp(self) -> None:
        for opened in self._opened:
            opened.close()
        self._opened.clear()
        for _protocol, bound in self._amqp_sockets():
            bound.close()

    async def _let_last_bytes_out(self, loop: asyncio.AbstractEventLoop) -> None:
        """Closed connections may still have unsent replies; clients that do not read are cut off."""
        deadline = loop.time() + LAST_BYTES_PATIENCE_S
        while self._turns.lingering and loop.time() < deadline:
            await asyncio.sleep(0.005)
        for link in [*self._turns.lingering, *self._turns.links.values()]:
            link.abort()

    def _loop_trouble(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An exception that the loop could not deliver: a defect, unless descriptors ran out."""
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in (errno.EMFILE, errno.ENFILE):
            self._log.error("loop.failed", reason=context.get("message", ""), exc_info=error)
