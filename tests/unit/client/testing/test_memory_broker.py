"""Properties of the broker in memory alone: a clock set by the test, a look inside, and no threads.

Properties shared with real brokers are in tests/client/test_transports.py.
"""

import asyncio
import threading

import pytest

from tests.support.deadlines import in_event_loop, run
from tests.unit.client.testing.running import DEADLINE_S, MIDNIGHT, standing_broker, to, with_queue
from warren.client import ChannelClosed, ConnectionClosed, Message, Properties, Timestamp
from warren.client.testing import MemoryBroker
from warren.client.transport import BindingLayout, ExchangeLayout, Layout, Outgoing, QueueLayout
from warren.wire.field_tables import Table


def bodies(broker: MemoryBroker, queue: str) -> list[bytes]:
    return [message.body for message in broker.ready(queue)]


def dying(ttl_ms: int, grave: str) -> Table:
    return {"x-message-ttl": ttl_ms, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": grave}


@in_event_loop
async def test_time_passes_only_when_the_test_says_so() -> None:
    broker = standing_broker()
    transport = broker.transport()
    await transport.declare(with_queue("grave"))
    await transport.declare(with_queue("orders", dying(60_000, "grave")))
    await transport.publish(to("orders", b"tea"))
    broker.advance(59.999)
    assert (bodies(broker, "orders"), bodies(broker, "grave")) == ([b"tea"], [])
    broker.advance(0.001)
    assert (bodies(broker, "orders"), bodies(broker, "grave")) == ([], [b"tea"])
    [dead] = broker.ready("grave")
    deaths = dead.headers["x-death"]
    assert isinstance(deaths, list)
    assert deaths[0]["time"] == Timestamp(int(MIDNIGHT) + 60)


@in_event_loop
async def test_timers_fire_in_order_when_time_is_advanced_at_once() -> None:
    broker = standing_broker()
    transport = broker.transport()
    await transport.declare(with_queue("grave"))
    await transport.declare(with_queue("second", dying(10_000, "grave")))
    await transport.declare(with_queue("first", dying(30_000, "second")))
    await transport.publish(to("first", b"slow"))
    await transport.publish(to("second", b"fast"))
    broker.advance(3600)
    assert bodies(broker, "grave") == [b"fast", b"slow"]
    [_, slow] = broker.ready("grave")
    deaths = slow.headers["x-death"]
    assert isinstance(deaths, list)
    assert [each["time"].seconds - int(MIDNIGHT) for each in deaths] == [40, 30]


@in_event_loop
async def test_a_subscription_that_waits_is_woken_when_time_is_advanced() -> None:
    broker = standing_broker()
    transport = broker.transport()
    await transport.declare(with_queue("grave"))
    await transport.declare(with_queue("orders", dying(86_400_000, "grave")))
    subscription = await transport.subscribe("grave")
    waiting = asyncio.create_task(subscription.batch())
    await transport.publish(to("orders", b"tea"))
    broker.advance(86_400)
    assert [incoming.body for incoming in await waiting] == [b"tea"]


@in_event_loop
async def test_a_queue_that_is_consumed_does_not_expire() -> None:
    broker = standing_broker()
    transport = broker.transport()
    await transport.declare(with_queue("orders", {"x-expires": 1000}))
    subscription = await transport.subscribe("orders")
    broker.advance(10)
    assert broker.has_queue("orders")
    await subscription.cancel()
    broker.advance(0.9)
    await transport.get("orders")
    broker.advance(0.9)
    assert broker.has_queue("orders")
    broker.advance(0.1)
    assert not broker.has_queue("orders")


@in_event_loop
async def test_an_unacked_message_does_not_expire() -> None:
    broker = standing_broker()
    transport = broker.transport()
    await transport.declare(with_queue("orders"))
    await transport.publish(to("orders", b"tea", expiration="1000"))
    incoming = await transport.get("orders")
    assert incoming is not None
    broker.advance(10)
    assert [message.body for message in broker.unacked("orders")] == [b"tea"]
    incoming.nack()
    assert (broker.ready("orders"), broker.unacked("orders")) == ([], [])


@pytest.mark.parametrize(
    "arguments",
    [{"x-queue-type": "stream"}, {"x-max-priority": 5}, {"x-message-ttl": -1}, {"x-overflow": "burst"}, {"x-typo": 1}],
)
@in_event_loop
async def test_unsupported_arguments_are_refused(arguments: Table) -> None:
    with pytest.raises(ChannelClosed) as refused:
        await MemoryBroker().transport().declare(with_queue("orders", arguments))
    assert refused.value.code == 540
    assert next(iter(arguments)) in str(refused.value)


@in_event_loop
async def test_arguments_about_how_a_queue_is_kept_are_taken() -> None:
    broker = MemoryBroker()
    await broker.transport().declare(with_queue("orders", {"x-queue-mode": "lazy", "x-queue-type": "classic"}))
    assert broker.has_queue("orders")


@pytest.mark.parametrize(
    ("layout", "code"),
    [
        (Layout(exchanges=(ExchangeLayout("amq.mine"),)), 403),
        (Layout(queues=(QueueLayout("amq.mine"),)), 403),
        (Layout(queues=(QueueLayout("q"),), bindings=(BindingLayout("", "q"),)), 403),
        (Layout(bindings=(BindingLayout("amq.direct", "missing", to_exchange=True),)), 404),
    ],
)
@in_event_loop
async def test_layouts_that_a_broker_forbids_are_refused(layout: Layout, code: int) -> None:
    with pytest.raises(ChannelClosed) as refused:
        await MemoryBroker().transport().declare(layout)
    assert refused.value.code == code


@in_event_loop
async def test_an_exchange_of_an_unknown_type_ends_the_connection() -> None:
    with pytest.raises(ConnectionClosed) as refused:
        await MemoryBroker().transport().declare(Layout(exchanges=(ExchangeLayout("x", "odd"),)))
    assert refused.value.text == "COMMAND_INVALID - unknown exchange type 'odd'"


@in_event_loop
async def test_an_expiration_that_is_no_number_is_refused() -> None:
    transport = MemoryBroker().transport()
    await transport.declare(with_queue("orders"))
    [failed] = await transport.publish(to("orders", b"tea", expiration="soon"))
    assert isinstance(failed, ChannelClosed)
    assert failed.code == 406


@in_event_loop
async def test_a_message_cannot_be_changed_from_outside() -> None:
    broker = MemoryBroker()
    transport = broker.transport()
    await transport.declare(with_queue("orders"))
    headers: Table = {"n": 1}
    await transport.publish([Outgoing(Message(b"tea", Properties(headers=headers)), routing_key="orders")])
    headers["n"] = 2
    broker.ready("orders")[0].headers["n"] = 3
    assert broker.ready("orders")[0].headers == {"n": 1}


@in_event_loop
async def test_exchanges_that_lead_back_to_one_another_are_passed_once() -> None:
    broker = MemoryBroker()
    transport = broker.transport()
    layout = Layout(
        (ExchangeLayout("one", "fanout"), ExchangeLayout("two", "fanout")),
        (QueueLayout("orders"),),
        (
            BindingLayout("one", "two", to_exchange=True),
            BindingLayout("two", "one", to_exchange=True),
            BindingLayout("two", "orders"),
            BindingLayout("one", "orders"),
        ),
    )
    await transport.declare(layout)
    assert await transport.publish([Outgoing(Message(b"tea"), "one")]) == [None]
    assert bodies(broker, "orders") == [b"tea"]


@in_event_loop
async def test_a_deleted_queue_ends_its_subscription_unless_it_is_declared_here() -> None:
    broker = MemoryBroker()
    owner, guest = broker.transport(), broker.transport()
    await owner.declare(with_queue("orders"))
    await owner.declare(with_queue("other"))
    kept, other = await owner.subscribe("orders"), await guest.subscribe("other")
    broker.delete_queue("orders")
    await guest.publish(to("orders", b"tea"))
    assert [incoming.body for incoming in await kept.batch()] == [b"tea"]
    broker.delete_queue("other")
    with pytest.raises(ChannelClosed) as refused:
        await other.batch()
    assert refused.value.code == 404
    assert not broker.has_queue("other")


def test_threads_with_loops_of_their_own_share_a_broker() -> None:
    broker = MemoryBroker()
    count = 200
    got: list[bytes] = []

    async def consume(ready: threading.Event) -> None:
        transport = broker.transport()
        await transport.declare(with_queue("orders"))
        subscription = await transport.subscribe("orders", prefetch=7)
        ready.set()
        async for incoming in subscription:
            got.append(incoming.body)
            incoming.ack()
            if len(got) == count:
                break
        await transport.close()

    async def publish() -> None:
        transport = broker.transport()
        for number in range(count):
            assert await transport.publish(to("orders", b"%d" % number)) == [None]

    ready = threading.Event()
    consumer = threading.Thread(target=lambda: run(consume(ready)))
    consumer.start()
    assert ready.wait(DEADLINE_S)
    run(publish())
    consumer.join(DEADLINE_S)
    assert got == [b"%d" % number for number in range(count)]


def test_a_waiting_subscription_of_a_loop_that_is_gone_does_no_harm() -> None:
    broker = MemoryBroker()
    transport = broker.transport()

    async def wait_a_moment() -> None:
        await transport.declare(with_queue("orders"))
        subscription = await transport.subscribe("orders")
        assert await subscription.batch(0.01) == []

    async def publish() -> None:
        assert await transport.publish(to("orders", b"tea")) == [None]

    run(wait_a_moment())
    run(publish())
    assert [message.body for message in broker.unacked("orders")] == [b"tea"]
