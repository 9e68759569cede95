"""The traces of a node: started, stopped, and the Firehose switched on and off for them.

As with RabbitMQ's plugin, the first trace in a virtual host switches its Firehose on, and when the last one stops it is
switched off, whoever had switched it on. Traces end with the node, files stay.

Invariant: no two traces that run write one file. So a name can be used once on a node at a time, while RabbitMQ mixes
the traces of two virtual hosts in one file.

A trace that failed stays listed, with the reason, until it is stopped or started again; one whose virtual host was
deleted goes with it.

Not here: one trace (`tracing.trace`), the paths (`tracing.resources`).
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from warren.access.commands import PutVhost
from warren.admin.desk import Desk
from warren.admin.direct_link import DirectLinks, LinkFault
from warren.admin.node_facts import NodeFacts
from warren.admin.tracing.directory import TraceDirectory
from warren.admin.tracing.file_names import file_name
from warren.admin.tracing.trace import DISK_LOW, FORMATS, Trace, TraceOrder, is_disk_low
from warren.admin.tracing.trace_file import Rotation, TraceFile
from warren.broker.broker import Broker
from warren.errors import Refused

END_PATIENCE_S = 3.0
_NOT_STARTED = "Something went wrong trying to start the trace - "


class LogPort(Protocol):
    """Where the traces' lives are told."""

    def info(self, event: str, **fields: object) -> None: ...

    def warning(self, event: str, **fields: object) -> None: ...


class Traces:
    """All of them, by virtual host and name."""

    def __init__(
        self,
        broker: Broker,
        desk: Desk,
        links: DirectLinks,
        facts: NodeFacts,
        directory: TraceDirectory,
        rotation: Rotation,
        log: LogPort,
    ) -> None:
        self.directory = directory
        self._broker = broker
        self._desk = desk
        self._links = links
        self._facts = facts
        self._rotation = rotation
        self._log = log
        self._traces: dict[tuple[str, str], Trace] = {}
        # one thread: the disk is one, and so a piece of a file has one writer
        self._thread = ThreadPoolExecutor(1, "traces")
        # starting and stopping switch the Firehose; they do so one after another
        self._switching = asyncio.Lock()
        self._settling: set[asyncio.Task[None]] = set()
        self._ending = False

    def listed(self) -> list[Trace]:
        return [self._traces[key] for key in sorted(self._traces)]

    def find(self, vhost: str, name: str) -> Trace | None:
        return self._traces.get((vhost, name))

    async def start(self, order: TraceOrder, user: str) -> None:
        """Start a trace as this user; `Refused` says why it cannot be."""
        try:
            name = file_name(order.name)
        except ValueError as error:
            raise Refused("bad_request", str(error)) from None
        async with self._switching:
            self._check(order, name)
            trace = Trace(order, name, self._broker, self._facts.now_ms)
            file = await self._file(trace)
            link = self._links.unconnected()
            try:
                await trace.connect(link, user)
            except LinkFault as fault:
                link.hang_up()
                file.close()
                raise Refused("bad_request", _NOT_STARTED + fault.text) from None
            self._traces[order.vhost, order.name] = trace
            trace.start(file, self._thread, lambda: self._failed(trace))
            await self._settle(order.vhost)
        self._log.info("trace.started", vhost=order.vhost, name=order.name, pattern=order.pattern, file=name, user=user)

    async def stop(self, vhost: str, name: str) -> bool:
        """Whether there was such a trace. Its file is complete when this is done."""
        async with self._switching:
            trace = self._traces.pop((vhost, name), None)
            if trace is None:
                return False
            if not trace.failure:
                await self._settle(vhost)
        await trace.stop()
        self._told_stopped(trace)
        return True

    def node_stops(self) -> None:
        """The links are about to be cut, which is no failure."""
        self._ending = True

    async def end(self) -> None:
        """Complete every file; a disk that does not answer is not waited for."""
        self._ending = True
        stops = [asyncio.ensure_future(trace.stop()) for trace in self._traces.values()]
        if stops:
            await asyncio.wait(stops, timeout=END_PATIENCE_S)
        for trace in self._traces.values():
            self._told_stopped(trace)
        self._traces.clear()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _check(self, order: TraceOrder, name: str) -> None:
        for other in self._traces.values():
            if other.file_name == name and not other.failure:
                running = f"{other.order.name} is running in the virtual host {other.order.vhost}"
                raise Refused("bad_request", _NOT_STARTED + running)
        if is_disk_low(self._broker):
            raise Refused("bad_request", _NOT_STARTED + DISK_LOW)

    async def _file(self, trace: Trace) -> TraceFile:
        opening = FORMATS[trace.order.format].opening
        arguments = (self.directory.path, trace.file_name, opening, self._rotation)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, TraceFile, *arguments)
        except OSError as error:
            reason = f"{trace.file_name} cannot be written: {error.strerror}"
            raise Refused("bad_request", _NOT_STARTED + reason) from None

    async def _settle(self, name: str) -> None:
        """The Firehose is on exactly while a trace runs."""
        vhost = self._broker.vhosts.get(name)
        wanted = any(trace.order.vhost == name and not trace.failure for trace in self._traces.values())
        if vhost is not None and vhost.tracing != wanted:
            await self._desk.carry_out(PutVhost(name, vhost.description, list(vhost.tags), wanted))

    def _failed(self, trace: Trace) -> None:
        order = trace.order
        if self._ending or self._traces.get((order.vhost, order.name)) is not trace:
            return
        if order.vhost not in self._broker.vhosts:
            del self._traces[order.vhost, order.name]
            self._told_stopped(trace)
            return
        self._log.warning("trace.failed", vhost=order.vhost, name=order.name, reason=trace.failure)
        task = asyncio.ensure_future(self._settle_after_failure(order.vhost))
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    async def _settle_after_failure(self, vhost: str) -> None:
        async with self._switching:
            await self._settle(vhost)

    def _told_stopped(self, trace: Trace) -> None:
        self._log.info(
            "trace.stopped",
            vhost=trace.order.vhost,
            name=trace.order.name,
            written=trace.written_count,
            dropped=trace.dropped_count,
        )
