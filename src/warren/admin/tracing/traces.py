"""The traces of a node. Each has a queue on the Firehose, a consumer and a file.

::

    amq.rabbitmq.trace ──pattern──► queue ──link──► a few records in memory ──thread──► file

As with RabbitMQ's plugin, the first trace of a virtual host switches its Firehose on and the last one switches it off,
even if an operator had switched it on. Traces end with the node; files stay.

A trace never delays the broker. If the disk is slower than the messages, about `HELD_BYTES` wait in memory while as
many are written. The rest stays in the queue, whose length is limited: the oldest messages are dropped and counted. The
queue is exclusive and goes with the link. Other messages in that queue are ignored.

A trace fails if its virtual host or its user is deleted, if the file cannot be written, or if the node's disk runs low,
because a trace must not fill the disk. Messages received before are still written. A failed trace stays listed, with
the reason, until it is stopped or started again, or its virtual host is deleted.

Invariant: no two running traces write the same file. So a name can be used once at a time on a node, while RabbitMQ
mixes traces of two virtual hosts in one file.

Not here: files (`tracing.files`), the HTTP paths (`resources.traces`).
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from warren.admin.command_queue import CommandQueue
from warren.admin.direct_link import DirectLink, DirectLinks, LinkFault
from warren.admin.fitness import own_alarm
from warren.admin.ports import NodeFacts
from warren.admin.tracing.files import TraceDirectory, TraceFile, TraceRotation, file_name
from warren.admin.tracing.formats import json_of, text_of
from warren.admin.tracing.records import TraceRecord, record_of
from warren.broker.broker import Broker
from warren.broker.commands.requests import PutVhost
from warren.broker.model.identity import Identity
from warren.broker.queues.queue import Queue
from warren.broker.sessions.firehose import TRACE
from warren.errors import CommandRefused
from warren.wire.method_stream import ReceivedMethod
from warren.wire.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)

HELD_BYTES = 4 * 1024 * 1024
QUEUE_LENGTH_MAX = 100_000
QUEUE_BYTES_MAX = 64 * 1024 * 1024
DISK_LOW = "the disk is low on free space"

_Written = Callable[[TraceRecord], bytes]


@dataclass(frozen=True)
class TraceFormat:
    """How records are written, and the byte each begins with."""

    write: _Written
    opening: bytes


FORMATS = {"text": TraceFormat(text_of, b"\n"), "json": TraceFormat(json_of, b"{")}


@dataclass(frozen=True)
class TraceRequest:
    """The request for a trace. `username` is set if the trace runs as another user than the caller."""

    vhost: str
    name: str
    format: str
    pattern: str
    payload_bytes_max: int | None = None
    username: str = ""


class MessageTrace:
    """A trace that runs or has failed."""

    def __init__(self, order: TraceRequest, file_name: str, broker: Broker, now_ms: Callable[[], int]) -> None:
        self.order = order
        self.file_name = file_name
        # the reason for the failure
        self.failure = ""
        self.written_count = 0
        self.queue: Queue | None = None
        self._broker = broker
        self._now_ms = now_ms
        self._link: DirectLink | None = None
        self._held: list[tuple[ReceivedMethod, int]] = []
        self._held_bytes = 0
        self._paused = False
        self._work_waits = asyncio.Event()
        self._hung_up = False
        self._writing: asyncio.Task[None] | None = None

    @property
    def dropped_count(self) -> int:
        """Records that are missing because the file could not be written fast enough."""
        queue = self.queue
        if queue is None:
            return 0
        stats = queue.stats
        arrived = int(stats.published + queue.uncounted)
        return max(0, arrived - int(stats.delivered_no_ack) - queue.ready_count())

    async def connect(self, link: DirectLink, identity: Identity) -> None:
        """Declare the queue and consume from it; `LinkFault` if the user may not."""
        self._link = link
        link.deliver = self._deliver
        await link.connect(identity, self.order.vhost)
        limits = {"x-max-length": QUEUE_LENGTH_MAX, "x-max-length-bytes": QUEUE_BYTES_MAX, "x-overflow": "drop-head"}
        made = await link.ask(QueueDeclare(exclusive=True, arguments=limits), QueueDeclareOk)
        await link.ask(QueueBind(queue=made.queue, exchange=TRACE, routing_key=self.order.pattern), QueueBindOk)
        await link.ask(BasicConsume(queue=made.queue, no_ack=True), BasicConsumeOk)
        found = self._broker.vhosts[self.order.vhost].topology.queues.get(made.queue)
        self.queue = found if isinstance(found, Queue) else None

    def start(self, file: TraceFile, thread: Executor, failed: Callable[[], None]) -> None:
        """Write records from here on; `failed` is called if the trace fails."""
        self._writing = asyncio.ensure_future(self._run(file, thread, failed))

    async def stop(self) -> None:
        """Write the remaining records and close the file."""
        self._hang_up()
        if self._writing is not None:
            await self._writing

    # -- what comes

    def _deliver(self, received: ReceivedMethod) -> None:
        assert isinstance(received.method, BasicDeliver)
        if received.method.exchange != TRACE:
            return
        self._held.append((received, self._now_ms()))
        self._held_bytes += len(received.header) + len(received.body)
        if self._held_bytes > HELD_BYTES and not self._paused and self._link is not None:
            self._paused = True
            self._link.pause()
        self._work_waits.set()

    def _hang_up(self) -> None:
        self._hung_up = True
        if self._link is not None:
            self._link.hang_up()
        self._work_waits.set()

    # -- what is written

    async def _run(self, file: TraceFile, thread: Executor, failed: Callable[[], None]) -> None:
        ended = asyncio.ensure_future(self._watch_link())
        try:
            await self._write_all(file, thread)
        except OSError as error:
            self.failure = f"{self.file_name} cannot be written: {error.strerror or error}"
        finally:
            ended.cancel()
            self._hang_up()
            self._held.clear()
            await asyncio.get_running_loop().run_in_executor(thread, file.close)
        if self.failure:
            failed()

    async def _watch_link(self) -> None:
        assert self._link is not None
        fault = await self._link.ended()
        if not self._hung_up:
            self.failure = self.failure or fault.text
            self._hang_up()

    async def _write_all(self, file: TraceFile, thread: Executor) -> None:
        loop = asyncio.get_running_loop()
        while self._held or not self._hung_up:
            await self._work_waits.wait()
            self._work_waits.clear()
            if not self._held:
                continue
            if is_disk_low(self._broker):
                self.failure = DISK_LOW
                return
            held, self._held, self._held_bytes = self._held, [], 0
            if self._paused and not self._hung_up and self._link is not None:
                self._paused = False
                self._link.resume()
            await loop.run_in_executor(thread, self._write, file, held)
            self.written_count += len(held)

    def _write(self, file: TraceFile, held: list[tuple[ReceivedMethod, int]]) -> None:
        """Runs in the thread."""
        write, payload_bytes_max = FORMATS[self.order.format].write, self.order.payload_bytes_max
        file.append(write(record_of(received, at_ms, payload_bytes_max)) for received, at_ms in held)


def is_disk_low(broker: Broker) -> bool:
    return "disk" in own_alarm(broker)


END_TIMEOUT_S = 3.0
_NOT_STARTED = "Something went wrong trying to start the trace - "


class TraceLog(Protocol):
    """The log of traces."""

    def info(self, event: str, **fields: object) -> None: ...

    def warning(self, event: str, **fields: object) -> None: ...


class Traces:
    """All traces, by virtual host and name."""

    def __init__(
        self,
        broker: Broker,
        command_queue: CommandQueue,
        links: DirectLinks,
        facts: NodeFacts,
        directory: TraceDirectory,
        rotation: TraceRotation,
        log: TraceLog,
    ) -> None:
        self.directory = directory
        self._broker = broker
        self._command_queue = command_queue
        self._links = links
        self._facts = facts
        self._rotation = rotation
        self._log = log
        self._traces: dict[tuple[str, str], MessageTrace] = {}
        # one thread, so a file has one writer
        self._thread = ThreadPoolExecutor(1, "traces")
        # starts and stops switch the Firehose, so they run one at a time
        self._switching = asyncio.Lock()
        self._settling: set[asyncio.Task[None]] = set()
        self._ending = False

    def listed(self) -> list[MessageTrace]:
        return [self._traces[key] for key in sorted(self._traces)]

    def find(self, vhost: str, name: str) -> MessageTrace | None:
        return self._traces.get((vhost, name))

    async def start(self, order: TraceRequest, identity: Identity) -> None:
        """Start a trace as this user; `CommandRefused` if it cannot start."""
        try:
            name = file_name(order.name)
        except ValueError as error:
            raise CommandRefused("bad_request", str(error)) from None
        async with self._switching:
            self._check(order, name)
            trace = MessageTrace(order, name, self._broker, self._facts.now_ms)
            file = await self._file(trace)
            link = self._links.unconnected()
            try:
                await trace.connect(link, identity)
            except LinkFault as fault:
                link.hang_up()
                file.close()
                raise CommandRefused("bad_request", _NOT_STARTED + fault.text) from None
            self._traces[order.vhost, order.name] = trace
            trace.start(file, self._thread, lambda: self._failed(trace))
            await self._switch_firehose(order.vhost)
        facts = {"vhost": order.vhost, "name": order.name, "pattern": order.pattern, "file": name}
        self._log.info("trace.started", **facts, user=identity.name)

    async def stop(self, vhost: str, name: str) -> bool:
        """Stop a trace and complete its file; False if there is none."""
        async with self._switching:
            trace = self._traces.pop((vhost, name), None)
            if trace is None:
                return False
            if not trace.failure:
                await self._switch_firehose(vhost)
        await trace.stop()
        self._log_stopped(trace)
        return True

    def node_stops(self) -> None:
        """The node is about to cut the links; that is not a failure."""
        self._ending = True

    async def end(self) -> None:
        """Complete every file, but do not wait for a disk that hangs."""
        self._ending = True
        stops = [asyncio.ensure_future(trace.stop()) for trace in self._traces.values()]
        if stops:
            await asyncio.wait(stops, timeout=END_TIMEOUT_S)
        for trace in self._traces.values():
            self._log_stopped(trace)
        self._traces.clear()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _check(self, order: TraceRequest, name: str) -> None:
        for other in self._traces.values():
            if other.file_name == name and not other.failure:
                running = f"{other.order.name} is running in the virtual host {other.order.vhost}"
                raise CommandRefused("bad_request", _NOT_STARTED + running)
        if is_disk_low(self._broker):
            raise CommandRefused("bad_request", _NOT_STARTED + DISK_LOW)

    async def _file(self, trace: MessageTrace) -> TraceFile:
        opening = FORMATS[trace.order.format].opening
        arguments = (self.directory.path, trace.file_name, opening, self._rotation)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, TraceFile, *arguments)
        except OSError as error:
            reason = f"{trace.file_name} cannot be written: {error.strerror}"
            raise CommandRefused("bad_request", _NOT_STARTED + reason) from None

    async def _switch_firehose(self, name: str) -> None:
        """Switch the Firehose on or off: it is on exactly while a trace runs."""
        vhost = self._broker.vhosts.get(name)
        wanted = any(trace.order.vhost == name and not trace.failure for trace in self._traces.values())
        if vhost is not None and vhost.tracing != wanted:
            await self._command_queue.carry_out(PutVhost(name, vhost.description, list(vhost.tags), wanted))

    def _failed(self, trace: MessageTrace) -> None:
        order = trace.order
        if self._ending or self._traces.get((order.vhost, order.name)) is not trace:
            return
        if order.vhost not in self._broker.vhosts:
            del self._traces[order.vhost, order.name]
            self._log_stopped(trace)
            return
        self._log.warning("trace.failed", vhost=order.vhost, name=order.name, reason=trace.failure)
        task = asyncio.ensure_future(self._switch_firehose_after_failure(order.vhost))
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    async def _switch_firehose_after_failure(self, vhost: str) -> None:
        async with self._switching:
            await self._switch_firehose(vhost)

    def _log_stopped(self, trace: MessageTrace) -> None:
        self._log.info(
            "trace.stopped",
            vhost=trace.order.vhost,
            name=trace.order.name,
            written=trace.written_count,
            dropped=trace.dropped_count,
        )
