"""A message in hand: its handling is a span, and the handler may run within it.

Not here: how it came (`telemetry.traced`).
"""

import inspect
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar, cast

from opentelemetry import context, trace
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode

from warren.client.telemetry.carrying import carried
from warren.client.telemetry.meters import Meters
from warren.client.telemetry.naming import REDELIVERED, SETTLEMENT, described, fail, joined
from warren.client.transport import Incoming
from warren.errors import ConnectionFault
from warren.wire.properties import Properties
from warren.wire.values import Table

Came = TypeVar("Came", bound=Incoming)
Result = TypeVar("Result")


def in_span(handler: Callable[[Came], Result]) -> Callable[[Came], Result]:
    """The handler, run within the consumer's span of its message: what it does belongs to the message's trace."""
    if not inspect.iscoroutinefunction(handler):

        def handle(message: Came) -> Result:
            with _processing(message):
                return handler(message)

        return handle

    async def handle_async(message: Came) -> Any:
        with _processing(message):
            return await handler(message)

    return cast(Callable[[Came], Result], handle_async)


class TracedIncoming:
    """A message whose handling is a span: from `processing`, or else from when it came, until it is settled."""

    def __init__(self, message: Incoming, queue: str, tracer: trace.Tracer, meters: Meters) -> None:
        self._message = message
        self._queue = queue
        self._tracer = tracer
        self._meters = meters
        self._came_ns = time.time_ns()
        self._began = time.perf_counter()
        self._span: Span | None = None
        self._error: BaseException | None = None
        self._is_settled = False

    @property
    def body(self) -> bytes:
        return self._message.body

    @property
    def properties(self) -> Properties:
        return self._message.properties

    @property
    def headers(self) -> Table:
        return self._message.headers

    @property
    def exchange(self) -> str:
        return self._message.exchange

    @property
    def routing_key(self) -> str:
        return self._message.routing_key

    @property
    def redelivered(self) -> bool:
        return self._message.redelivered

    @property
    def is_ours(self) -> bool:
        return self._message.is_ours

    def ack(self) -> None:
        self._message.ack()
        self.settled("ack")

    def nack(self, *, requeue: bool = True) -> None:
        self._message.nack(requeue=requeue)
        self.settled("requeue" if requeue else "reject")

    @contextmanager
    def processing(self) -> Iterator[None]:
        """Within it, the message's span is the current one; what is raised there is in the span."""
        if self._span is None:
            self._began = time.perf_counter()
            self._span = self._started(time.time_ns())
        try:
            with trace.use_span(self._span, record_exception=False, set_status_on_exception=False):
                yield
        except BaseException as error:
            if not self._is_settled:
                self._error = error
                fail(self._span, error)
            raise
        if self._error is not None and not self._is_settled:
            # it failed before, and stayed in hand
            self._error = None
            self._span.set_status(Status(StatusCode.OK))

    def settled(self, how: str) -> None:
        """The message is no longer in hand, and its span has ended."""
        if self._is_settled:
            return
        self._is_settled = True
        if self._span is None:
            self._span = self._started(self._came_ns)
        self._span.set_attribute(SETTLEMENT, how)
        self._span.end()
        self._meters.handled(self._queue, how, self._error, time.perf_counter() - self._began)

    def _readable_properties(self) -> Properties:
        """None of them if they make no sense: what is told of a message keeps nobody from settling it."""
        try:
            return self.properties
        except ConnectionFault:
            return Properties()

    def _started(self, at_ns: int) -> Span:
        properties = self._readable_properties()
        key = self.routing_key
        place = joined(self.exchange, key, self._queue)
        attributes = described("process", "process", place, key, properties, self.body)
        if self.redelivered:
            attributes[REDELIVERED] = True
        parent = carried(properties.headers or {})
        links = [] if parent is None else [Link(trace.get_current_span(parent).get_span_context())]
        return self._tracer.start_span(
            f"process {self._queue}",
            parent or context.Context(),
            SpanKind.CONSUMER,
            attributes,
            links,
            start_time=at_ns,
        )


def _processing(message: Incoming) -> AbstractContextManager[None]:
    """A listener's message has the one in it that the transport gave."""
    found = getattr(message, "incoming", message)
    return found.processing() if isinstance(found, TracedIncoming) else nullcontext()
