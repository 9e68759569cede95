"""One trace: a queue on the Firehose, somebody who reads it, and a file.

::

    amq.rabbitmq.trace ──pattern──► queue ──link──► a few records in memory ──thread──► file

Nobody waits for a trace. When the disk is slower than the messages, little more than `HELD_BYTES` wait in memory while
as many are written; the rest stays in the queue, whose length is limited, and the oldest are dropped there and
counted. The queue is exclusive: it goes with the link. What others send to that queue is no copy, and is ignored.

A trace ends when it is stopped, or fails: its virtual host or its user goes, the file cannot be written, or the node's
disk runs low, for a trace must not be what fills it. What came before is written.

Not here: which traces there are, switching the Firehose (`tracing.traces`).
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from warren.admin.direct_link import DirectLink
from warren.admin.tracing.json_format import json_of
from warren.admin.tracing.records import TraceRecord, record_of
from warren.admin.tracing.text_format import text_of
from warren.admin.tracing.trace_file import TraceFile
from warren.admin.views.alarms import own_alarm
from warren.broker.broker import Broker
from warren.queue.queue import Queue
from warren.session.firehose import TRACE
from warren.wire.method_stream import Heard
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
    """How records are written, and the octet each begins with."""

    write: _Written
    opening: bytes


FORMATS = {"text": TraceFormat(text_of, b"\n"), "json": TraceFormat(json_of, b"{")}


@dataclass(frozen=True)
class TraceOrder:
    """What was asked for. `username` is empty unless somebody else than who asked was to be traced as."""

    vhost: str
    name: str
    format: str
    pattern: str
    payload_bytes_max: int | None = None
    username: str = ""


class Trace:
    """A trace that runs, or has failed and says why."""

    def __init__(self, order: TraceOrder, file_name: str, broker: Broker, now_ms: Callable[[], int]) -> None:
        self.order = order
        self.file_name = file_name
        # why it does not run any more
        self.failure = ""
        self.written_count = 0
        self.queue: Queue | None = None
        self._broker = broker
        self._now_ms = now_ms
        self._link: DirectLink | None = None
        self._held: list[tuple[Heard, int]] = []
        self._held_bytes = 0
        self._paused = False
        self._stirred = asyncio.Event()
        self._hung_up = False
        self._writing: asyncio.Task[None] | None = None

    @property
    def dropped_count(self) -> int:
        """Records the file lacks because it could not be written fast enough."""
        queue = self.queue
        if queue is None:
            return 0
        figures = queue.figures
        arrived = int(figures.published + queue.uncounted)
        return max(0, arrived - int(figures.delivered_no_ack) - queue.ready_count())

    async def connect(self, link: DirectLink, user: str) -> None:
        """Make the queue and read from it; `LinkFault` if the user may not."""
        self._link = link
        link.deliver = self._deliver
        await link.connect(user, self.order.vhost)
        limits = {"x-max-length": QUEUE_LENGTH_MAX, "x-max-length-bytes": QUEUE_BYTES_MAX, "x-overflow": "drop-head"}
        made = await link.ask(QueueDeclare(exclusive=True, arguments=limits), QueueDeclareOk)
        await link.ask(QueueBind(queue=made.queue, exchange=TRACE, routing_key=self.order.pattern), QueueBindOk)
        await link.ask(BasicConsume(queue=made.queue, no_ack=True), BasicConsumeOk)
        found = self._broker.vhosts[self.order.vhost].topology.queues.get(made.queue)
        self.queue = found if isinstance(found, Queue) else None

    def start(self, file: TraceFile, thread: Executor, failed: Callable[[], None]) -> None:
        """Write what comes from here on; `failed` is called if that ends by itself."""
        self._writing = asyncio.ensure_future(self._run(file, thread, failed))

    async def stop(self) -> None:
        """Write what has come, and close the file."""
        self._hang_up()
        if self._writing is not None:
            await self._writing

    # -- what comes

    def _deliver(self, heard: Heard) -> None:
        assert isinstance(heard.method, BasicDeliver)
        if heard.method.exchange != TRACE:
            return
        self._held.append((heard, self._now_ms()))
        self._held_bytes += len(heard.header) + len(heard.body)
        if self._held_bytes > HELD_BYTES and not self._paused and self._link is not None:
            self._paused = True
            self._link.pause()
        self._stirred.set()

    def _hang_up(self) -> None:
        self._hung_up = True
        if self._link is not None:
            self._link.hang_up()
        self._stirred.set()

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
            await self._stirred.wait()
            self._stirred.clear()
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

    def _write(self, file: TraceFile, held: list[tuple[Heard, int]]) -> None:
        """In the thread."""
        write, payload_bytes_max = FORMATS[self.order.format].write, self.order.payload_bytes_max
        file.append(write(record_of(heard, at_ms, payload_bytes_max)) for heard, at_ms in held)


def is_disk_low(broker: Broker) -> bool:
    return "disk" in own_alarm(broker)
