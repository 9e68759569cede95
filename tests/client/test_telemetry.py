"""Traces and metrics of messages through a transport, on both brokers, as OpenTelemetry's SDK receives them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, StatusCode, TraceFlags, TraceState
from sqlalchemy import Connection

from tests.client.databases import opened, sqlite_url
from tests.client.observed import DEADLINE_S, Observed
from tests.support.deadlines import in_event_loop, run, until
from warren.client import ConnectionClosed, Message, Properties, PublishFailed, recovering
from warren.client.inbox import Inbox
from warren.client.listening import Arrival, Listener
from warren.client.tables import create_tables
from warren.client.telemetry import Traced, in_span, observe, stamped
from warren.client.testing import MemoryBroker
from warren.client.transport import BindingLayout, ExchangeLayout, Incoming, Layout, Outgoing, QueueLayout, Transport

ON_EITHER_BROKER = True


@pytest.fixture
def observed() -> Observed:
    return Observed()


@asynccontextmanager
async def connected(url: str, queue: str) -> AsyncIterator[Transport]:
    async with await recovering.open(url) as transport:
        await transport.declare(Layout(queues=(QueueLayout(queue),)))
        yield transport


async def headers_of_next(transport: Transport, queue: str) -> dict[str, object]:
    message = await take(transport, queue)
    message.ack()
    return message.headers


async def take(transport: Transport, queue: str) -> Incoming:
    """Wait for the next message; brokers may confirm a message before it is ready."""
    async with asyncio.timeout(DEADLINE_S):
        while (message := await transport.get(queue)) is None:
            await asyncio.sleep(0.01)
    return message


def test_publishing_and_handling_are_one_trace(
    url: str, queue: str, unique: Callable[[str], str], observed: Observed
) -> None:
    exchange = unique("exchange")

    async def scenario() -> None:
        async with connected(url, queue) as bare:
            layout = Layout((ExchangeLayout(exchange),), (), (BindingLayout(exchange, queue, "new"),))
            await bare.declare(layout)
            transport = observed.traced(bare)
            message = Message(b"four", Properties(message_id="m1", correlation_id="c1", headers={"own": 1}))
            with observed.tracer.start_as_current_span("request"):
                assert await transport.publish([Outgoing(message, exchange, "new")]) == [None]
            came = await take(transport, queue)
            assert came.headers["own"] == 1
            came.ack()
            assert message.properties is not None
            assert message.properties.headers == {"own": 1}

    run(scenario())
    request, producer = observed.span("request"), observed.span(f"publish {exchange}")
    consumer = observed.span(f"process {queue}")
    assert producer.parent == request.context
    assert consumer.parent is not None
    assert producer.context is not None
    assert (consumer.parent.trace_id, consumer.parent.span_id) == (producer.context.trace_id, producer.context.span_id)
    assert [link.context.span_id for link in consumer.links] == [producer.context.span_id]
    assert (producer.kind, consumer.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert (producer.status.status_code, consumer.status.status_code) == (StatusCode.UNSET, StatusCode.UNSET)
    both = {
        "messaging.system": "rabbitmq",
        "messaging.rabbitmq.destination.routing_key": "new",
        "messaging.message.id": "m1",
        "messaging.message.conversation_id": "c1",
        "messaging.message.body.size": 4,
    }
    assert dict(producer.attributes or {}) == both | {
        "messaging.operation.name": "publish",
        "messaging.operation.type": "send",
        "messaging.destination.name": f"{exchange}:new",
    }
    assert dict(consumer.attributes or {}) == both | {
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": f"{exchange}:new:{queue}",
        "warren.settlement": "ack",
    }


def test_the_headers_are_those_of_the_w3c(url: str, queue: str, observed: Observed) -> None:
    async def scenario() -> dict[str, object]:
        async with connected(url, queue) as bare:
            state = TraceState([("vendor", "1")])
            caller = NonRecordingSpan(SpanContext(5, 6, is_remote=True, trace_flags=TraceFlags(1), trace_state=state))
            with trace.use_span(caller):
                await observed.traced(bare).publish([Outgoing(Message(b""), routing_key=queue)])
            return await headers_of_next(bare, queue)

    headers = run(scenario())
    context = observed.span(f"publish {queue}").context
    assert context is not None
    assert headers == {
        "traceparent": f"00-{5:032x}-{context.span_id:016x}-{context.trace_flags:02x}",
        "tracestate": "vendor=1",
    }


@pytest.mark.parametrize("is_async", [True, False])
def test_spans_of_a_handler_belong_to_the_trace_of_its_message(
    url: str, queue: str, observed: Observed, is_async: bool
) -> None:
    def handle(message: Arrival[bytes]) -> None:
        with observed.tracer.start_as_current_span("work"):
            assert message.body == b"one"

    async def handle_async(message: Arrival[bytes]) -> None:
        handle(message)

    async def scenario() -> None:
        async with connected(url, queue) as bare:
            transport = observed.traced(bare)
            handler = in_span(handle_async) if is_async else in_span(handle)
            listener = Listener(transport, queue, handler, declares=False)
            await listener.start()
            await transport.publish([Outgoing(Message(b"one"), routing_key=queue)])
            await until(lambda: len(observed.spans.get_finished_spans()) == 3)
            await listener.stop()

    run(scenario())
    assert observed.span("work").parent == observed.span(f"process {queue}").context
    assert observed.counted("warren.client.handled.messages") == {"ack": 1}


def test_a_handler_that_raises_is_in_the_span_and_the_metrics(url: str, queue: str, observed: Observed) -> None:
    @in_span
    def refuse(message: Incoming) -> None:
        raise LookupError("no such order")

    async def scenario() -> None:
        async with connected(url, queue) as bare:
            transport = observed.traced(bare)
            await transport.publish([Outgoing(Message(b"one"), routing_key=queue)])
            message = await take(transport, queue)
            with pytest.raises(LookupError):
                refuse(message)
            message.nack(requeue=False)

    run(scenario())
    span = observed.span(f"process {queue}")
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "no such order")
    assert (span.attributes or {})["error.type"] == "LookupError"
    assert [event.name for event in span.events] == ["exception"]
    assert observed.counted("warren.client.handled.messages") == {"reject": 1}


def test_redelivered_messages_are_counted_and_marked(url: str, queue: str, observed: Observed) -> None:
    async def scenario() -> None:
        async with connected(url, queue) as bare:
            transport = observed.traced(bare)
            await transport.publish([Outgoing(Message(b"one"), routing_key=queue)])
            (await take(transport, queue)).nack()
            (await take(transport, queue)).ack()

    run(scenario())
    again = observed.spans.get_finished_spans()[-1]
    assert (again.attributes or {})["warren.redelivered"] is True
    assert observed.counted("messaging.client.consumed.messages") == {"": 2}
    assert observed.counted("warren.client.redelivered.messages") == {"": 1}
    assert observed.counted("warren.client.handled.messages") == {"requeue": 1, "ack": 1}
    assert observed.counted("messaging.process.duration") == {"": 2}


def test_each_publish_span_has_its_outcome(
    url: str, queue: str, unique: Callable[[str], str], observed: Observed
) -> None:
    nowhere = unique("nowhere")

    async def scenario() -> None:
        async with connected(url, queue) as bare:
            transport = observed.traced(bare)
            found = await transport.publish(
                [Outgoing(Message(b"a"), routing_key=queue), Outgoing(Message(b"b"), routing_key=nowhere)]
            )
            assert found[0] is None
            assert isinstance(found[1], PublishFailed)
            await transport.send([Outgoing(Message(b"c"), routing_key=queue)])

    run(scenario())
    failed = observed.span(f"publish {nowhere}")
    assert failed.status.status_code is StatusCode.ERROR
    assert (failed.attributes or {})["error.type"] == "PublishFailed"
    assert observed.counted("messaging.client.sent.messages") == {"": 3}
    assert observed.counted("warren.client.confirmed.messages") == {"": 1}
    assert observed.counted("warren.client.failed.messages") == {"rejected": 1}
    assert observed.counted("messaging.client.operation.duration") == {"": 3}


def test_a_cancelled_publish_ends_its_span(observed: Observed) -> None:
    async def scenario() -> None:
        broker = MemoryBroker()
        broker.faults.block()
        transport = observed.traced(broker.transport())
        task = asyncio.create_task(transport.publish([Outgoing(Message(b"a"), routing_key="q")]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(scenario())
    assert observed.span("publish q").status.status_code is StatusCode.ERROR
    assert observed.counted("warren.client.failed.messages") == {"unknown": 1}


def test_a_message_keeps_the_context_it_was_stamped_with(url: str, queue: str, observed: Observed) -> None:
    async def scenario() -> None:
        async with connected(url, queue) as bare:
            with observed.tracer.start_as_current_span("transaction"):
                written = stamped(Message(b"a", Properties(message_id="m")))
            assert stamped(written) is written
            await observed.traced(bare).publish([Outgoing(written, routing_key=queue)])
            (await take(observed.traced(bare), queue)).ack()

    run(scenario())
    written = observed.span("transaction").context
    assert written is not None
    parents = [observed.span(f"publish {queue}").parent, observed.span(f"process {queue}").parent]
    assert [each and each.span_id for each in parents] == [written.span_id] * 2


@pytest.mark.parametrize("nonsense", [7, "garbage", b"\xff", {"a": 1}])
def test_headers_that_make_no_sense_are_as_if_they_were_not_there(
    url: str, queue: str, observed: Observed, nonsense: object
) -> None:
    async def scenario() -> None:
        async with connected(url, queue) as bare:
            message = Message(b"a", Properties(headers={"traceparent": nonsense, "tracestate": nonsense}))
            await bare.publish([Outgoing(message, routing_key=queue)])
            (await take(observed.traced(bare), queue)).ack()
            await observed.traced(bare).publish([Outgoing(message, routing_key=queue)])
            (await take(observed.traced(bare), queue)).ack()

    run(scenario())
    alone, published, handled = observed.spans.get_finished_spans()
    assert alone.parent is None
    assert list(alone.links) == []
    assert handled.parent is not None
    assert published.context is not None
    assert handled.parent.span_id == published.context.span_id


def test_a_message_without_acks_has_a_span_that_ends_at_its_delivery(url: str, queue: str, observed: Observed) -> None:
    async def scenario() -> None:
        async with connected(url, queue) as bare:
            transport = observed.traced(bare)
            await transport.publish([Outgoing(Message(b"a"), routing_key=queue)])
            subscription = await transport.subscribe(queue, no_ack=True)
            async for message in subscription:
                in_span(lambda found: trace.get_current_span().is_recording())(message)
                break
            await subscription.cancel()

    run(scenario())
    assert (observed.span(f"process {queue}").attributes or {})["warren.settlement"] == "none"


@in_event_loop
async def test_a_message_that_is_not_traced_is_handled_as_it_is(url: str, queue: str) -> None:
    async with connected(url, queue) as bare:
        await bare.publish([Outgoing(Message(b"a"), routing_key=queue)])
        message = await take(bare, queue)
        assert in_span(lambda found: found.body)(message) == b"a"
        message.ack()


def test_without_a_provider_messages_go_out_as_they_are(url: str, queue: str) -> None:
    async def scenario() -> dict[str, object]:
        async with connected(url, queue) as bare:
            await Traced(bare).publish([Outgoing(Message(b"a"), routing_key=queue)])
            return await headers_of_next(Traced(bare), queue)

    assert run(scenario()) == {}


def test_the_duplicates_of_an_inbox_are_a_metric(url: str, queue: str, observed: Observed, tmp_path: Path) -> None:
    def work(connection: Connection, message: Incoming) -> None:
        pass

    async def scenario(inbox: Inbox) -> None:
        async with connected(url, queue) as bare:
            await bare.publish([Outgoing(Message(b"a", Properties(message_id="m1")), routing_key=queue)] * 3)
            for _ in range(3):
                message = await take(bare, queue)
                inbox.handler(work)(message)
                message.ack()

    with opened(sqlite_url(tmp_path)) as engine:
        create_tables(engine)
        inbox = Inbox(engine, "payments")
        observe(inbox, meter_provider=observed.meters)
        run(scenario(inbox))
    assert observed.counted("warren.client.duplicate.messages") == {"": 2}


def test_errors_of_the_transport_are_raised(url: str, queue: str, observed: Observed) -> None:
    async def scenario() -> None:
        async with connected(url, queue) as bare:
            await observed.traced(bare).close()
            with pytest.raises(ConnectionClosed):
                await observed.traced(bare).send([Outgoing(Message(b"a"), routing_key=queue)])

    run(scenario())
    assert (observed.span(f"publish {queue}").attributes or {})["error.type"] == "ConnectionClosed"
