"""`Traced`: a transport around a transport.

Not here: what becomes of a message after it came (`telemetry.incoming`).
"""

import time
from collections.abc import AsyncIterator, Callable, Sequence

from opentelemetry import context, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Span, SpanKind, TracerProvider

from warren.client.errors import ClientError, PublishFailed
from warren.client.telemetry.carrying import carried, headers_of, with_context
from warren.client.telemetry.incoming import TracedIncoming
from warren.client.telemetry.meters import Meters
from warren.client.telemetry.naming import SCOPE, described, fail, joined, key_of, place
from warren.client.transport import Incoming, Layout, Outgoing, Subscription, Transport
from warren.wire.properties import Properties
from warren.wire.values import Table


class Traced:
    """A transport that tells OpenTelemetry what goes through it; without providers, those of the program."""

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
            # what did not come back is there
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
        key = key_of(outgoing)
        attributes = described(
            "publish", "send", joined(outgoing.exchange, key), key, properties, outgoing.message.body
        )
        # nothing carried: the span that is current is the parent
        parent = carried(headers_of(outgoing.message))
        return self._tracer.start_span(f"publish {place(outgoing)}", parent, SpanKind.PRODUCER, attributes)

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
                fail(span, error)
            span.end()
            self._meters.published(place(message), error, seconds, confirms)

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
    route = (outgoing.exchange, key_of(outgoing), outgoing.message.body)
    return any((each.exchange, each.routing_key, each.body) == route for each in failed.returned)


def _on_the_way(messages: Sequence[Outgoing], spans: Sequence[Span]) -> list[Outgoing]:
    return [_with_span(message, span) for message, span in zip(messages, spans, strict=True)]


def _with_span(outgoing: Outgoing, span: Span) -> Outgoing:
    if carried(headers_of(outgoing.message)) is not None:
        return outgoing
    message = with_context(outgoing.message, trace.set_span_in_context(span, context.Context()))
    return Outgoing(message, outgoing.exchange, outgoing.routing_key, outgoing.mandatory)
