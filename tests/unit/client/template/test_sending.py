"""A template on a broker in memory, with faults."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from warren.client import BatchFailed, CallTimeout, CannotConvert, ClientError, ConnectionLost, PublishFailed
from warren.client.template import Template
from warren.client.testing import MemoryBroker, MemoryTransport
from warren.client.transport import Layout, QueueLayout

QUEUE = "orders"
LAYOUT = Layout(queues=(QueueLayout(QUEUE),))
DEADLINE_S = 60.0


def sending(body: Callable[[MemoryBroker, MemoryTransport], Coroutine[Any, Any, None]]) -> None:
    """Run a test on a broker that has the queue."""

    async def whole() -> None:
        async with asyncio.timeout(DEADLINE_S):
            broker = MemoryBroker()
            transport = broker.transport()
            await transport.declare(LAYOUT)
            await body(broker, transport)

    asyncio.run(whole())


def bodies(broker: MemoryBroker) -> list[bytes]:
    return [message.body for message in broker.ready(QUEUE)]


def test_send_returns_the_id_of_a_message_that_the_broker_has() -> None:
    async def body(broker: MemoryBroker, transport: MemoryTransport) -> None:
        id = await Template(transport, routing_key=QUEUE).send({"order": 7})
        [message] = broker.ready(QUEUE)
        assert (message.body, message.properties.message_id) == (b'{"order":7}', id)

    sending(body)


def test_a_payload_that_does_not_serialise_is_refused_and_nothing_is_sent() -> None:
    async def body(broker: MemoryBroker, transport: MemoryTransport) -> None:
        template = Template(transport, routing_key=QUEUE)
        with pytest.raises(CannotConvert):
            await template.send(object())
        with pytest.raises(CannotConvert):
            await template.send_batch([1, 2, object()])
        with pytest.raises(CannotConvert):
            await template.submit(object())
        with pytest.raises(CannotConvert):
            await template.send_one_way(object())
        assert bodies(broker) == []

    sending(body)


def test_an_unroutable_message_is_returned_if_it_is_mandatory() -> None:
    async def body(broker: MemoryBroker, transport: MemoryTransport) -> None:
        template = Template(transport, routing_key="nowhere")
        with pytest.raises(PublishFailed, match="NO_ROUTE") as failed:
            await template.send(1)
        assert failed.value.outcome == "rejected"
        assert await template.send(1, mandatory=False)

    sending(body)


def test_a_batch_names_those_that_failed_and_the_others_are_there() -> None:
    async def body(broker: MemoryBroker, transport: MemoryTransport) -> None:
        template = Template(transport, routing_key=QUEUE)
        lost = template.prepare("b", routing_key="nowhere", message_id="order-b")
        with pytest.raises(BatchFailed, match="1 of 3 messages failed, the first, order-b: ") as failed:
            await template.send_batch(["a", lost, "c"])
        [(id, error)] = failed.value.failures
        assert id == "order-b"
        assert isinstance(error, PublishFailed)
        assert (failed.value.outcome, failed.value.retriable) == ("rejected", False)
        assert bodies(broker) == [b'"a"', b'"c"']

    sending(body)


def test_a_batch_of_which_the_outcome_is_unknown_says_so() -> None:
    async def body(broker: MemoryBroker, transport: MemoryTransport) -> None:
        template = Template(transport, routing_key=QUEUE)
        broker.faults.lose_connection(after=2, arrives=False)
        with pytest.raises(BatchFailed) as failed:
            await template.send_batch([template.prepare(0, routing_key="nowhere"), 1, 2, 3])
        errors = [type(error) for _, error in failed.value.failures]
        assert errors == [PublishFailed, ConnectionLost, ConnectionLost]
        assert (failed.value.outcome, failed.value.retriable) == ("unknown", False)
        assert bodies(broker) == [b"1"]

    sending(body)


def test_a_batch_keeps_its_order_and_gives_every_message_an_id() -> None:
    async def body(broker: MemoryBroker, transport: MemoryTransport) -> None:
        ids = await Template(transport, routing_key=QUEUE).send_batch(range(100), key="k")
        assert [message.properties.message_id for message in broker.ready(QUEUE)] == ids
        assert bodies(broker) == [b"%d" % number for number in range(100)]
        assert await Template(transport).send_batch([]) == []

    sending(body)


def test_errors_of_the_program_are_raised_before_anything_is_sent() -> None:
    async def body(broker: MemoryBroker, transport: MemoryTransport) -> None:
        template = Template(transport, routing_key=QUEUE)
        with pytest.raises(ValueError, match="have an id each"):
            await template.send_batch([1, 2], message_id="same")
        with pytest.raises(ValueError, match="is sent unchanged"):
            await template.send(template.prepare(1), routing_key="other")
        with pytest.raises(ValueError, match="room for one message at least"):
            Template(transport, window=0)
        assert bodies(broker) == []

    sending(body)


def test_one_way_returns_without_a_confirm() -> None:
    async def body(broker: MemoryBroker, transport: MemoryTransport) -> None:
        broker.faults.refuse(1)
        assert await Template(transport, routing_key=QUEUE).send_one_way(1)
        assert bodies(broker) == []

    sending(body)


def test_a_missing_confirm_raises_after_the_timeout() -> None:
    async def body(broker: MemoryBroker, transport: MemoryTransport) -> None:
        broker.faults.block()
        with pytest.raises(CallTimeout):
            await Template(transport, routing_key=QUEUE, timeout_s=0.05).send(1)

    sending(body)


def test_no_more_than_the_window_is_undecided() -> None:
    async def body(broker: MemoryBroker, transport: MemoryTransport) -> None:
        template = Template(transport, routing_key=QUEUE, window=3)
        broker.faults.block()
        futures = [await template.submit(number) for number in range(3)]
        fourth = asyncio.ensure_future(template.submit(3))
        done, _ = await asyncio.wait([fourth, *futures], timeout=0.05)
        assert done == set()
        broker.faults.unblock()
        futures.append(await fourth)
        ids = await asyncio.gather(*futures)
        assert [message.properties.message_id for message in broker.ready(QUEUE)] == ids
        assert bodies(broker) == [b"0", b"1", b"2", b"3"]

    sending(body)


def test_each_future_has_the_outcome_of_its_message() -> None:
    async def body(broker: MemoryBroker, transport: MemoryTransport) -> None:
        template = Template(transport, routing_key=QUEUE, window=8)
        futures = [
            await template.submit(number, routing_key=QUEUE if number % 3 else "nowhere") for number in range(100)
        ]
        await template.drain()
        errors = [future.exception() for future in futures]
        assert [number for number, error in enumerate(errors) if error] == list(range(0, 100, 3))
        assert all(error is None or isinstance(error, PublishFailed) for error in errors)
        assert bodies(broker) == [b"%d" % number for number in range(100) if number % 3]

    sending(body)


def test_a_failure_is_logged_also_if_its_future_is_not_read(caplog: pytest.LogCaptureFixture) -> None:
    async def body(broker: MemoryBroker, transport: MemoryTransport) -> None:
        template = Template(transport, routing_key=QUEUE, window=100)
        broker.faults.refuse(2)
        futures = [await template.submit(number, message_id=f"m{number}") for number in range(4)]
        await template.drain()
        assert [future.exception() is None for future in futures] == [False, False, True, True]
        [record] = [record for record in caplog.records if record.name == "warren.client.template"]
        assert record.levelname == "WARNING"
        assert [vars(record)[name] for name in ("failed", "of", "first_id")] == [2, 4, "m0"]

    sending(body)


def test_a_future_that_was_given_up_costs_no_room() -> None:
    async def body(broker: MemoryBroker, transport: MemoryTransport) -> None:
        template = Template(transport, routing_key=QUEUE, window=1)
        for _ in range(5):
            (await template.submit(1)).cancel()
        await template.drain()
        assert len(bodies(broker)) == 5

    sending(body)


def test_every_future_fails_when_the_transport_is_closed() -> None:
    async def body(broker: MemoryBroker, transport: MemoryTransport) -> None:
        template = Template(transport, routing_key=QUEUE, window=2)
        await transport.close()
        for _ in range(5):
            with pytest.raises(ClientError, match="closed"):
                await (await template.submit(1))

    sending(body)


def test_draining_without_messages_returns_at_once() -> None:
    async def body(broker: MemoryBroker, transport: MemoryTransport) -> None:
        await Template(transport).drain()

    sending(body)
