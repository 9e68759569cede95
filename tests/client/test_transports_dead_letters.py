"""All transports: dead letters and their reasons."""

import asyncio
import time

from tests.client.seam import (
    PATIENCE_S,
    QUIET_S,
    Brokers,
    bodies,
    bodies_in,
    fetched,
    taken,
    to,
    with_dead_letters,
    with_queue,
)
from tests.support.deadlines import in_event_loop
from warren.client import PublishFailed
from warren.client.transport import BindingLayout, ExchangeLayout, Incoming, Layout, QueueLayout
from warren.wire.field_tables import Table

TTL_S = 0.15


def death(incoming: Incoming) -> Table:
    """The latest entry of `x-death`, without the time."""
    deaths = incoming.headers["x-death"]
    assert isinstance(deaths, list)
    latest: Table = dict(deaths[0])
    told = latest.pop("time")
    assert abs(told.seconds - time.time()) < 60  # type: ignore[attr-defined]
    return latest


@in_event_loop
async def test_a_rejected_message_is_dead_lettered(broker: Brokers) -> None:
    queue, grave = broker.name("queue"), broker.name("grave")
    async with broker.transport() as transport:
        await transport.declare(with_dead_letters(queue, grave))
        await transport.publish(to(queue, b"bad", message_id="m3", headers={"own": 1}))
        (await fetched(transport, queue)).nack(requeue=False)
        dead = await fetched(transport, grave)
        assert death(dead) == {
            "count": 1,
            "reason": "rejected",
            "queue": queue,
            "exchange": "",
            "routing-keys": [queue],
        }
        assert {name: value for name, value in dead.headers.items() if name != "x-death"} == {
            "own": 1,
            "x-first-death-reason": "rejected",
            "x-first-death-queue": queue,
            "x-first-death-exchange": "",
        }
        assert (dead.exchange, dead.routing_key, dead.redelivered) == ("", grave, False)
        assert (dead.body, dead.properties.message_id) == (b"bad", "m3")


@in_event_loop
async def test_a_message_that_dies_twice_in_a_queue_is_counted(broker: Brokers) -> None:
    queue, retry = broker.name("queue"), broker.name("retry")
    back: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue, "x-message-ttl": 1}
    away: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": retry}
    layout = Layout(queues=(QueueLayout(queue, arguments=away), QueueLayout(retry, arguments=back)))
    async with broker.transport() as transport:
        await transport.declare(layout)
        await transport.publish(to(queue, b"again"))
        for _ in range(2):
            (await fetched(transport, queue)).nack(requeue=False)
        last = await fetched(transport, queue)
        deaths = last.headers["x-death"]
        assert isinstance(deaths, list)
        assert [(each["queue"], each["reason"], each["count"]) for each in deaths] == [
            (retry, "expired", 2),
            (queue, "rejected", 2),
        ]
        assert last.headers["x-first-death-reason"] == "rejected"


@in_event_loop
async def test_an_expired_message_is_dead_lettered(broker: Brokers) -> None:
    queue, grave = broker.name("queue"), broker.name("grave")
    async with broker.transport() as transport:
        await transport.declare(with_dead_letters(queue, grave, x_message_ttl=int(TTL_S * 1000)))
        subscription = await transport.subscribe(grave)
        await transport.publish(to(queue, b"1", b"2"))
        first, second = await taken(subscription, 2)
        assert bodies([first, second]) == [b"1", b"2"]
        assert death(first) == {
            "count": 1,
            "reason": "expired",
            "queue": queue,
            "exchange": "",
            "routing-keys": [queue],
        }
        assert await transport.get(queue) is None


@in_event_loop
async def test_a_message_may_have_its_own_time_and_holds_up_those_behind_it(broker: Brokers) -> None:
    queue, grave = broker.name("queue"), broker.name("grave")
    async with broker.transport() as transport:
        await transport.declare(with_dead_letters(queue, grave))
        await transport.publish([*to(queue, b"long"), *to(queue, b"short", expiration="1")])
        subscription = await transport.subscribe(grave)
        assert list(await subscription.batch(QUIET_S)) == []
        held = await fetched(transport, queue)
        assert held.body == b"long"
        [dead] = await taken(subscription, 1)
        assert dead.properties.expiration is None
        assert death(dead) == {
            "count": 1,
            "reason": "expired",
            "queue": queue,
            "exchange": "",
            "routing-keys": [queue],
            "original-expiration": "1",
        }
        held.ack()


@in_event_loop
async def test_the_oldest_makes_room_in_a_queue_that_is_full(broker: Brokers) -> None:
    queue, grave = broker.name("queue"), broker.name("grave")
    async with broker.transport() as transport:
        await transport.declare(with_dead_letters(queue, grave, x_max_length=2))
        assert await transport.publish(to(queue, b"1", b"2", b"3")) == [None] * 3
        dead = await fetched(transport, grave)
        assert (dead.body, death(dead)["reason"]) == (b"1", "maxlen")
        held = await fetched(transport, queue)
        await transport.publish(to(queue, b"4"))
        held.nack()
        assert (await fetched(transport, grave)).body == b"2"
        assert await bodies_in(transport, queue) == [b"3", b"4"]


@in_event_loop
async def test_a_queue_that_is_full_by_bytes_dead_letters_refused_publishes(broker: Brokers) -> None:
    queue, grave = broker.name("queue"), broker.name("grave")
    layout = with_dead_letters(queue, grave, x_max_length_bytes=10, x_overflow="reject-publish-dlx")
    async with broker.transport() as transport:
        await transport.declare(layout)
        assert await transport.publish(to(queue, b"12345678")) == [None]
        [refused] = await transport.publish(to(queue, b"abc"))
        assert isinstance(refused, PublishFailed)
        dead = await fetched(transport, grave)
        assert (dead.body, death(dead)["reason"]) == (b"abc", "maxlen")
        assert await transport.publish(to(queue, b"ab")) == [None]
        assert await bodies_in(transport, queue) == [b"12345678", b"ab"]


@in_event_loop
async def test_a_message_that_would_go_round_for_ever_is_dropped(broker: Brokers) -> None:
    one, two, witness = broker.name("one"), broker.name("two"), broker.name("witness")
    exchange = broker.name("exchange")
    dying: Table = {"x-message-ttl": 1, "x-dead-letter-exchange": exchange}
    layout = Layout(
        (ExchangeLayout(exchange),),
        (
            QueueLayout(one, arguments=dying | {"x-dead-letter-routing-key": "to-two"}),
            QueueLayout(two, arguments=dying | {"x-dead-letter-routing-key": "to-one"}),
            QueueLayout(witness),
        ),
        (
            BindingLayout(exchange, two, "to-two"),
            BindingLayout(exchange, one, "to-one"),
            BindingLayout(exchange, witness, "to-one"),
        ),
    )
    async with broker.transport() as transport:
        await transport.declare(layout)
        await transport.publish(to(one, b"round"))
        seen = await fetched(transport, witness)
        assert death(seen)["queue"] == two
        subscription = await transport.subscribe(witness)
        assert list(await subscription.batch(QUIET_S)) == []


@in_event_loop
async def test_a_message_that_expires_at_once_reaches_a_consumer_that_waits(broker: Brokers) -> None:
    queue, grave = broker.name("queue"), broker.name("grave")
    async with broker.transport() as transport:
        await transport.declare(with_dead_letters(queue, grave, x_message_ttl=0))
        await transport.publish(to(queue, b"without a reader"))
        assert (await fetched(transport, grave)).body == b"without a reader"
        subscription = await transport.subscribe(queue)
        await transport.publish(to(queue, b"with a reader"))
        assert bodies(await taken(subscription, 1)) == [b"with a reader"]


@in_event_loop
async def test_an_unused_queue_expires(broker: Brokers) -> None:
    queue = broker.name("queue")
    async with broker.transport() as transport:
        await transport.declare(with_queue(queue, x_expires=300))
        deadline = time.monotonic() + PATIENCE_S
        while (await transport.publish(to(queue, b"alive still"))) == [None]:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
