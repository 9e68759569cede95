"""Faults on demand, and their effect on a program."""

import asyncio

from tests.support.deadlines import in_event_loop
from tests.unit.client.testing.running import to, with_queue
from warren.client import CallTimeout, ConnectionClosed, ConnectionLost, PublishFailed
from warren.client.testing import MemoryBroker, MemoryTransport
from warren.client.transport import Layout, QueueLayout


async def opened() -> tuple[MemoryBroker, MemoryTransport]:
    broker = MemoryBroker()
    transport = broker.transport()
    await transport.declare(with_queue("orders"))
    return broker, transport


def bodies(broker: MemoryBroker, queue: str = "orders") -> list[bytes]:
    return [message.body for message in broker.ready(queue)]


@in_event_loop
async def test_the_next_publishes_are_refused_and_no_more() -> None:
    broker, transport = await opened()
    broker.faults.refuse(2)
    decided = await transport.publish(to("orders", b"1", b"2", b"3"))
    assert [type(each) for each in decided] == [PublishFailed, PublishFailed, type(None)]
    assert [each.outcome for each in decided if each] == ["rejected", "rejected"]
    assert bodies(broker) == [b"3"]


@in_event_loop
async def test_a_connection_is_lost_after_some_publishes_with_unknown_outcome() -> None:
    broker, transport = await opened()
    for arrives, expected in ((True, [b"1", b"2", b"3"]), (False, [b"1"])):
        broker.faults.lose_connection(after=1, arrives=arrives)
        decided = await transport.publish(to("orders", b"1", b"2", b"3"))
        assert [type(each) for each in decided] == [type(None), ConnectionLost, ConnectionLost]
        assert [each.outcome for each in decided if each] == ["unknown", "unknown"]
        assert bodies(broker) == expected
        assert await transport.publish(to("orders", b"4")) == [None]
        while await transport.get("orders", no_ack=True):
            pass


@in_event_loop
async def test_an_unacked_message_of_a_lost_connection_is_redelivered_and_its_ack_is_ignored() -> None:
    broker, transport = await opened()
    await transport.publish(to("orders", b"1", b"2"))
    subscription = await transport.subscribe("orders", prefetch=1)
    [before] = await subscription.batch()
    broker.faults.lose_connections()
    [again] = await subscription.batch()
    assert (again.body, again.redelivered) == (b"1", True)
    before.ack()
    assert await subscription.batch(0.01) == []
    again.ack()
    [second] = await subscription.batch()
    assert (second.body, second.redelivered) == (b"2", False)


@in_event_loop
async def test_an_exclusive_queue_is_there_again_after_the_connection_was_lost_and_empty() -> None:
    broker, transport = await opened()
    await transport.declare(Layout(queues=(QueueLayout("replies", exclusive=True),)))
    await transport.publish(to("replies", b"lost"))
    subscription = await transport.subscribe("replies", prefetch=1)
    broker.faults.lose_connections()
    await transport.publish(to("replies", b"found"))
    assert [incoming.body for incoming in await subscription.batch()] == [b"found"]


@in_event_loop
async def test_an_object_that_cannot_be_declared_again_does_not_stop_the_others() -> None:
    broker, transport = await opened()
    mine, shared = QueueLayout("mine", exclusive=True), QueueLayout("shared", auto_delete=True)
    await transport.declare(Layout(queues=(mine, shared)))
    subscription = await transport.subscribe("shared")
    other = broker.transport()
    broker.delete_queue("mine")
    await other.declare(Layout(queues=(mine,)))
    broker.faults.lose_connections()
    await other.publish(to("shared", b"found"))
    assert [incoming.body for incoming in await subscription.batch()] == [b"found"]


@in_event_loop
async def test_publishes_arrive_twice() -> None:
    broker, transport = await opened()
    broker.faults.publish_twice(1)
    assert await transport.publish(to("orders", b"1", b"2")) == [None, None]
    assert bodies(broker) == [b"1", b"1", b"2"]


@in_event_loop
async def test_messages_whose_acks_are_lost_are_delivered_twice() -> None:
    broker, transport = await opened()
    broker.faults.deliver_twice(1)
    await transport.publish(to("orders", b"1", b"2"))
    subscription = await transport.subscribe("orders", prefetch=1)
    seen = []
    for _ in range(3):
        [incoming] = await subscription.batch()
        seen.append((incoming.body, incoming.redelivered))
        incoming.ack()
    assert seen == [(b"1", False), (b"1", True), (b"2", False)]
    assert await subscription.batch(0.01) == []


@in_event_loop
async def test_a_confirm_that_takes_too_long_leaves_the_outcome_unknown() -> None:
    broker, transport = await opened()
    broker.faults.delay(60)
    [late] = await transport.publish(to("orders", b"1"), timeout_s=0.01)
    assert isinstance(late, CallTimeout)
    assert late.outcome == "unknown"
    assert bodies(broker) == [b"1"]
    broker.faults.delay(0)
    assert await transport.publish(to("orders", b"2"), timeout_s=5) == [None]


@in_event_loop
async def test_a_broker_that_blocks_takes_nothing_until_it_does_not() -> None:
    broker, transport = await opened()
    broker.faults.block()
    [late] = await transport.publish(to("orders", b"1"), timeout_s=0.01)
    assert isinstance(late, CallTimeout)
    assert late.outcome == "not_sent"
    waiting = asyncio.create_task(transport.publish(to("orders", b"2")))
    sending = asyncio.create_task(transport.send(to("orders", b"3")))
    done, _ = await asyncio.wait([waiting, sending], timeout=0.02)
    assert not done
    assert bodies(broker) == []
    broker.faults.unblock()
    assert await waiting == [None]
    await sending
    assert bodies(broker) == [b"2", b"3"]


@in_event_loop
async def test_publishes_that_a_broker_blocks_for_ever_end_with_their_transport() -> None:
    broker, transport = await opened()
    broker.faults.block()
    waiting = asyncio.create_task(transport.publish(to("orders", b"1")))
    await asyncio.sleep(0)
    await transport.close(deadline_s=0.02)
    [closed] = await waiting
    assert isinstance(closed, ConnectionClosed)
    assert closed.outcome == "not_sent"
    assert bodies(broker) == []
