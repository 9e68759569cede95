"""`Traced`, a transport that traces another one; traced messages; trace contexts in headers.

A message in hand has a span of its handling, and a handler may run within it. Contexts are in W3C form.

Not here: counters (`telemetry.metrics`), names and attributes (`telemetry.conventions`).
"""

import inspect
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final, TypeVar, cast

from opentelemetry import context, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from warren.client.errors import ClientError, PublishFailed
from warren.client.machine.publishes import Message
from warren.client.telemetry.conventions import (
    REDELIVERED,
    SCOPE,
    SETTLEMENT,
    destination_name,
    destination_of,
    fail_span,
    routing_key_of_outgoing,
    span_attributes,
)
from warren.client.telemetry.metrics import Meters
from warren.client.transport import Incoming, Layout, MessageView, Outgoing, Subscription, Transport
from warren.errors import ConnectionFault
from warren.wire.field_tables import Table
from warren.wire.properties import Properties

W3C: Final = TraceContextTextMapPropagator()
TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"


def stamped(message: Message) -> Message:
    """The message with the context of the current span; the same message if it has a context."""
    return message if context_of(headers_of(message)) is not None else with_context(message, context.get_current())


def context_of(headers: Table) -> context.Context | None:
    """The context in the headers; None if it is invalid, since any publisher can write there."""
    if TRACEPARENT not in headers:
        return None
    found = {name: headers.get(name) for name in (TRACEPARENT, TRACESTATE)}
    texts = {name: text for name, text in found.items() if isinstance(text, str)}
    extracted = W3C.extract(texts, context.Context())
    return extracted if trace.get_current_span(extracted).get_span_context().is_valid else None


def with_context(message: Message, current: context.Context) -> Message:
    carrier: dict[str, str] = {}
    W3C.inject(carrier, current)
    if not carrier:
        return message
    kept: dict[str, Any] = dict((message.properties or Properties()).fields())
    return Message(
        message.body, Properties(**(kept | {"headers": {**headers_of(message), **carrier}})), message.routing_key
    )


def headers_of(message: Message) -> Table:
    return (message.properties.headers if message.properties is not None else None) or {}


Came = TypeVar("Came", bound=Incoming)
Result = TypeVar("Result")


def in_span(handler: Callable[[Came], Result]) -> Callable[[Came], Result]:
    """The handler, run within the consumer span of its message, so that its work belongs to the message's trace."""
    if not inspect.iscoroutinefunction(handler):

        def handle(message: Came) -> Result:
            with _processing(message):
                return handler(message)

        return handle

    async def handle_async(message: Came) -> Any:
        with _processing(message):
            return await handler(message)

    return cast(Callable[[Came], Result], handle_async)


class TracedIncoming(MessageView[Incoming]):
    """A message with a span of its handling: from `processing`, or else from its delivery, until it is settled."""

    def __init__(self, message: Incoming, queue: str, tracer: trace.Tracer, meters: Meters) -> None:
        super().__init__(message)
        self._queue = queue
        self._tracer = tracer
        self._meters = meters
        self._came_ns = time.time_ns()
        self._began = time.perf_counter()
        self._span: Span | None = None
        self._error: BaseException | None = None
        self._is_settled = False

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
        """Make the message's span current; an error is recorded in it."""
        if self._span is None:
            self._began = time.perf_counter()
            self._span = self._started(time.time_ns())
        try:
            with trace.use_span(self._span, record_exception=False, set_status_on_exception=False):
                yield
        except BaseException as error:
            if not self._is_settled:
                self._error = error
                fail_span(self._span, error)
            raise
        if self._error is not None and not self._is_settled:
            # it failed before, and stayed in hand
            self._error = None
            self._span.set_status(Status(StatusCode.OK))

    def settled(self, how: str) -> None:
        """The message was settled; its span ends."""
        if self._is_settled:
            return
        self._is_settled = True
        if self._span is None:
            self._span = self._started(self._came_ns)
        self._span.set_attribute(SETTLEMENT, how)
        self._span.end()
        self._meters.handled(self._queue, how, self._error, time.perf_counter() - self._began)

    def _readable_properties(self) -> Properties:
        """Empty if they are invalid: tracing must not prevent settling."""
        try:
            return self.properties
        except ConnectionFault:
            return Properties()

    def _started(self, at_ns: int) -> Span:
        properties = self._readable_properties()
        key = self.routing_key
        place = destination_name(self.exchange, key, self._queue)
        attributes = span_attributes("process", "process", place, key, properties, self.body)
        if self.redelivered:
            attributes[REDELIVERED] = True
        parent = context_of(properties.headers or {})
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
    """The traced message, also inside a listener's `Arrival`."""
    found = getattr(message, "incoming", message)
    return found.processing() if isinstance(found, TracedIncoming) else nullcontext()


class Traced:
    """A transport that reports to OpenTelemetry; without providers, to the program's global ones."""

    def __init__(
        self,
        transport: Transport,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        self._transport = transport
        self._tracer = trace.get_tracer(SCOPE, tracer_provider=tracer_provider)
        self._meters = Meters(meter_provider)

    async def publish(self, messages: Sequence[Outgoing], timeout_s: float | None = None) -> list[ClientError | None]:
        began = time.perf_counter()
        spans = [self._producer_span(each) for each in messages]
        try:
            outcomes = await self._transport.publish(_on_the_way(messages, spans), timeout_s)
        except BaseException as error:
            self._published(messages, spans, [error] * len(spans), began)
            raise
        self._published(messages, spans, outcomes, began)
        return outcomes

    async def publish_together(self, messages: Sequence[Outgoing], timeout_s: float | None = None) -> None:
        began = time.perf_counter()
        spans = [self._producer_span(each) for each in messages]
        try:
            await self._transport.publish_together(_on_the_way(messages, spans), timeout_s)
        except PublishFailed as failed:
            # messages that were not returned are at the broker
            self._published(messages, spans, [failed if _came_back(each, failed) else None for each in messages], began)
            raise
        except BaseException as error:
            self._published(messages, spans, [error] * len(spans), began)
            raise
        self._published(messages, spans, [None] * len(spans), began)

    async def send(self, messages: Sequence[Outgoing]) -> None:
        began = time.perf_counter()
        spans = [self._producer_span(each) for each in messages]
        try:
            await self._transport.send(_on_the_way(messages, spans))
        except BaseException as error:
            self._published(messages, spans, [error] * len(spans), began)
            raise
        self._published(messages, spans, [None] * len(spans), began, confirms=False)

    async def subscribe(
        self,
        queue: str,
        *,
        prefetch: int = 100,
        no_ack: bool = False,
        exclusive: bool = False,
        arguments: Table | None = None,
    ) -> Subscription:
        subscription = await self._transport.subscribe(
            queue, prefetch=prefetch, no_ack=no_ack, exclusive=exclusive, arguments=arguments
        )
        return _TracedSubscription(subscription, lambda message: self._came(message, queue, no_ack))

    async def get(self, queue: str, *, no_ack: bool = False) -> Incoming | None:
        message = await self._transport.get(queue, no_ack=no_ack)
        return None if message is None else self._came(message, queue, no_ack)

    async def declare(self, layout: Layout) -> None:
        await self._transport.declare(layout)

    async def close(self, deadline_s: float = 10.0) -> None:
        await self._transport.close(deadline_s)

    def _producer_span(self, outgoing: Outgoing) -> Span:
        properties = outgoing.message.properties or Properties()
        key = routing_key_of_outgoing(outgoing)
        attributes = span_attributes(
            "publish", "send", destination_name(outgoing.exchange, key), key, properties, outgoing.message.body
        )
        # without a context of its own, the current span is the parent
        parent = context_of(headers_of(outgoing.message))
        return self._tracer.start_span(f"publish {destination_of(outgoing)}", parent, SpanKind.PRODUCER, attributes)

    def _published(
        self,
        messages: Sequence[Outgoing],
        spans: Sequence[Span],
        errors: Sequence[BaseException | None],
        began: float,
        confirms: bool = True,
    ) -> None:
        seconds = time.perf_counter() - began
        for message, span, error in zip(messages, spans, errors, strict=True):
            if error is not None:
                fail_span(span, error)
            span.end()
            self._meters.published(destination_of(message), error, seconds, confirms)

    def _came(self, message: Incoming, queue: str, no_ack: bool) -> Incoming:
        self._meters.consumed(queue, message.redelivered)
        traced = TracedIncoming(message, queue, self._tracer, self._meters)
        if no_ack:
            traced.settled("none")
        return traced


class _TracedSubscription:
    def __init__(self, subscription: Subscription, came: Callable[[Incoming], Incoming]) -> None:
        self._subscription = subscription
        self._came = came

    async def batch(self, timeout_s: float | None = None) -> Sequence[Incoming]:
        return [self._came(each) for each in await self._subscription.batch(timeout_s)]

    async def __aiter__(self) -> AsyncIterator[Incoming]:
        async for message in self._subscription:
            yield self._came(message)

    async def cancel(self) -> None:
        await self._subscription.cancel()


def _came_back(outgoing: Outgoing, failed: PublishFailed) -> bool:
    route = (outgoing.exchange, routing_key_of_outgoing(outgoing), outgoing.message.body)
    return any((each.exchange, each.routing_key, each.body) == route for each in failed.returned)


def _on_the_way(messages: Sequence[Outgoing], spans: Sequence[Span]) -> list[Outgoing]:
    return [_with_span(message, span) for message, span in zip(messages, spans, strict=True)]


def _with_span(outgoing: Outgoing, span: Span) -> Outgoing:
    if context_of(headers_of(outgoing.message)) is not None:
        return outgoing
    message = with_context(outgoing.message, trace.set_span_in_context(span, context.Context()))
    return Outgoing(message, outgoing.exchange, outgoing.routing_key, outgoing.mandatory)
