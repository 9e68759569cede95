"""A transport that keeps itself alive, on a broker that stays: its connections are cut, stalled and refused between.

All of it holds for RabbitMQ too (`WARREN_TEST_AMQP`).
"""

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.client.conftest import run
from tests.support.ports import free_port
from warren.client import (
    CallTimeout,
    CannotConnect,
    CannotConvert,
    ChannelClosed,
    ClientError,
    ConnectionClosed,
    ConnectionLost,
    LoginRefused,
    Message,
    Properties,
    PublishFailed,
    connect,
    recovering,
)
from warren.client.recovering import RecoveringTransport
from warren.client.testing import FaultProxy
from warren.client.transport import (
    BindingLayout,
    ExchangeLayout,
    Incoming,
    Layout,
    Outgoing,
    QueueLayout,
    Subscription,
    Transport,
)

Unique = Callable[[str], str]
PERSISTENT = Properties(delivery_mode=2)


@pytest.fixture
def proxy(url: str) -> Iterator[FaultProxy]:
    with FaultProxy(url) as between:
        yield between


def to(queue: str, *bodies: bytes, properties: Properties | None = PERSISTENT) -> list[Outgoing]:
    return [Outgoing(Message(body, properties), "", queue) for body in bodies]


def numbered(queue: str, count: int, first: int = 0) -> list[Outgoing]:
    return to(queue, *(b"%06d" % number for number in range(first, first + count)))


def only(queue: str) -> Layout:
    return Layout(queues=(QueueLayout(queue),))


async def until(condition: Callable[[], bool]) -> None:
    """The test's deadline ends it."""
    while not condition():
        await asyncio.sleep(0.005)


async def taken(subscription: Subscription, count: int) -> list[Incoming]:
    found: list[Incoming] = []
    while len(found) < count:
        found += await subscription.batch()
    return found


async def contents(transport: Transport, queue: str) -> list[bytes]:
    """All that is in a queue, in order."""
    found: list[bytes] = []
    while message := await transport.get(queue, no_ack=True):
        found.append(message.body)
    return found


async def drained(url: str, queue: str) -> list[bytes]:
    """The same for many, past the transport."""
    async with await connect(url) as connection, await connection.channel() as channel:
        count = (await channel.declare_queue(queue, passive=True)).messages
        consumer = await channel.consume(queue, no_ack=True)
        found: list[bytes] = []
        while len(found) < count:
            found += [delivery.body for delivery in await consumer.batch()]
        return found


def first_seen(bodies: Sequence[bytes]) -> list[bytes]:
    return list(dict.fromkeys(bodies))


def kinds(outcomes: Sequence[ClientError | None]) -> list[tuple[str, str] | None]:
    return [None if error is None else (type(error).__name__, error.outcome) for error in outcomes]


# the start


def refused_start(url: str) -> ClientError:
    async def attempt() -> ClientError:
        with pytest.raises(ClientError) as refusal:
            await recovering.open(url)
        return refusal.value

    return run(attempt())


def test_a_start_without_a_broker_fails_after_as_many_attempts_as_the_url_says() -> None:
    first, second = free_port(), free_port()
    begun_s = time.monotonic()
    error = refused_start(f"amqp://127.0.0.1:{first},127.0.0.1:{second}?connection_attempts=3&retry_delay=0.2")
    assert isinstance(error, CannotConnect)
    assert [address for address, _ in error.attempts] == [f"127.0.0.1:{first}", f"127.0.0.1:{second}"]
    assert 0.4 <= time.monotonic() - begun_s < 10


def test_a_start_with_a_wrong_password_is_refused_at_once(url: str) -> None:
    begun_s = time.monotonic()
    error = refused_start(url.replace("guest:guest", "guest:wrong") + "?connection_attempts=1000&retry_delay=60")
    assert isinstance(error, LoginRefused)
    assert time.monotonic() - begun_s < 30


def test_a_window_without_room_is_a_mistake(url: str) -> None:
    with pytest.raises(ValueError, match="room for one"):
        run(recovering.open(url, window=0))


def test_both_connections_bear_the_programs_name(url: str, queue: str) -> None:
    async def talk() -> None:
        # an exclusive queue belongs to the connection that consumes
        layout = Layout(queues=(QueueLayout(queue, exclusive=True, durable=False),))
        async with await recovering.open(url, name="shop") as transport:
            await transport.declare(layout)
            subscription = await transport.subscribe(queue)
            assert await transport.publish(to(queue, b"x")) == [None]
            [message] = await subscription.batch()
            message.ack()
            assert transport.is_connected

    run(talk())


# publishing through failures


def test_what_was_cut_off_in_the_middle_is_resent_in_order_and_nothing_is_lost(proxy: FaultProxy, queue: str) -> None:
    count = 5_000

    async def talk() -> None:
        async with await recovering.open(proxy.url, window=500) as transport:
            await transport.declare(only(queue))
            proxy.close_after(40_000, "to_broker")
            outcomes = asyncio.ensure_future(transport.publish(numbered(queue, count)))
            await until(lambda: not transport.is_connected)
            proxy.restore()
            assert await outcomes == [None] * count
            found = await drained(proxy_target(proxy), queue)
            assert first_seen(found) == [b"%06d" % number for number in range(count)]
            # no more than the window was on its way
            assert count <= len(found) <= count + 500

    run(talk())


def test_confirms_that_were_cut_off_lead_to_duplicates_and_never_to_a_loss(proxy: FaultProxy, queue: str) -> None:
    async def talk() -> None:
        async with await recovering.open(proxy.url) as transport:
            await transport.declare(only(queue))
            proxy.stall("to_client")
            outcomes = asyncio.ensure_future(transport.publish(numbered(queue, 10)))
            async with await connect(proxy_target(proxy)) as beside:
                channel = await beside.channel()
                while (await channel.declare_queue(queue, passive=True)).messages < 10:
                    await asyncio.sleep(0.005)
            proxy.cut()
            proxy.restore()
            assert await outcomes == [None] * 10
            found = await contents(transport, queue)
            assert found == [b"%06d" % number for number in range(10)] * 2

    run(talk())


def proxy_target(proxy: FaultProxy) -> str:
    return proxy._url


def test_what_was_confirmed_is_not_sent_again(proxy: FaultProxy, queue: str) -> None:
    async def talk() -> None:
        async with await recovering.open(proxy.url) as transport:
            await transport.declare(only(queue))
            assert await transport.publish(numbered(queue, 100)) == [None] * 100
            proxy.cut()
            assert await transport.publish(numbered(queue, 1, first=100)) == [None]
            assert await contents(transport, queue) == [b"%06d" % number for number in range(101)]

    run(talk())


def test_calls_that_were_under_way_keep_their_order_and_go_before_later_ones(proxy: FaultProxy, queue: str) -> None:
    async def talk() -> None:
        async with await recovering.open(proxy.url) as transport:
            await transport.declare(only(queue))
            proxy.stall()
            calls = [asyncio.ensure_future(transport.publish(numbered(queue, 10, 10 * each))) for each in range(20)]
            await asyncio.sleep(0)
            await transport.send(numbered(queue, 10, 200))
            proxy.cut(refuse=True)
            await until(lambda: not transport.is_connected)
            calls.append(asyncio.ensure_future(transport.publish(numbered(queue, 10, 210))))
            proxy.restore()
            assert await asyncio.gather(*calls) == [[None] * 10] * 21
            assert await contents(transport, queue) == [b"%06d" % number for number in range(220)]

    run(talk())


def test_the_time_of_a_call_is_respected_and_its_error_says_what_is_certain(proxy: FaultProxy, queue: str) -> None:
    async def talk() -> None:
        async with await recovering.open(proxy.url) as transport:
            await transport.declare(only(queue))
            proxy.stall("to_client")
            begun_s = time.monotonic()
            [late] = await transport.publish(to(queue, b"late"), 0.2)
            assert (type(late), late and late.outcome) == (CallTimeout, "unknown")
            cut_off = asyncio.ensure_future(transport.publish(to(queue, b"cut off"), 1.0))
            await asyncio.sleep(0)
            while transport.undecided < 1:
                await asyncio.sleep(0)
            await asyncio.sleep(0.05)
            proxy.cut(refuse=True)
            await until(lambda: not transport.is_connected)
            [kept_out] = await transport.publish(to(queue, b"kept out"), 0.2)
            assert (type(kept_out), kept_out and kept_out.outcome) == (CannotConnect, "not_sent")
            assert kept_out is not None
            assert kept_out.retriable
            assert f"127.0.0.1:{proxy.address[1]}" in str(kept_out)
            [error] = await cut_off
            assert (type(error), error and error.outcome) == (ConnectionLost, "unknown")
            assert time.monotonic() - begun_s < 10
            proxy.restore()
            assert await transport.publish(to(queue, b"at last")) == [None]
            # what was given up is not sent any more
            assert b"kept out" not in await contents(transport, queue)

    run(talk())


def test_a_publish_that_is_cancelled_is_given_up(proxy: FaultProxy, queue: str) -> None:
    async def talk() -> None:
        async with await recovering.open(proxy.url) as transport:
            await transport.declare(only(queue))
            proxy.cut(refuse=True)
            await until(lambda: not transport.is_connected)
            call = asyncio.ensure_future(transport.publish(to(queue, b"never")))
            await asyncio.sleep(0.01)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert transport.undecided == 0
            proxy.restore()
            assert await transport.publish(to(queue, b"ever")) == [None]
            assert await contents(transport, queue) == [b"ever"]

    run(talk())


def test_one_way_messages_wait_for_room_and_are_resent(proxy: FaultProxy, queue: str) -> None:
    async def talk() -> None:
        async with await recovering.open(proxy.url, window=100) as transport:
            await transport.declare(only(queue))
            proxy.cut(refuse=True)
            await until(lambda: not transport.is_connected)
            for number in range(10):
                await transport.send(numbered(queue, 10, 10 * number))
            waiting = asyncio.ensure_future(transport.send(to(queue, b"000100")))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            proxy.restore()
            await waiting
            await until(lambda: transport.undecided == 0)
            assert await contents(transport, queue) == [b"%06d" % number for number in range(101)]

    run(talk())


# what became of each message


def test_each_message_of_a_call_learns_its_own_fate(url: str, unique: Unique) -> None:
    queue, full, topic = unique("queue"), unique("full"), unique("topic")
    layout = Layout(
        (ExchangeLayout(topic, "topic"),),
        (QueueLayout(queue), QueueLayout(full, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})),
        (BindingLayout(topic, queue, "in.*"),),
    )

    async def talk() -> None:
        async with await recovering.open(url) as transport:
            await transport.declare(layout)
            assert await transport.publish(to(full, b"fills it")) == [None]
            outcomes = await transport.publish(
                [
                    Outgoing(Message(b"1"), topic, "in.a"),
                    Outgoing(Message(b"2"), topic, "out.a"),
                    Outgoing(Message(b"3", routing_key="in.own"), topic, "out.a"),
                    Outgoing(Message(b"4"), topic, "out.a", mandatory=False),
                    Outgoing(Message(b"5"), "", full),
                    Outgoing(Message(b"6"), topic, "k" * 256),
                    Outgoing(Message(b"7"), topic, "in.b"),
                ]
            )
            refused = ("PublishFailed", "rejected")
            assert kinds(outcomes) == [None, refused, None, None, refused, ("CannotConvert", "not_sent"), None]
            returned, nacked = outcomes[1], outcomes[4]
            assert isinstance(returned, PublishFailed)
            assert [message.body for message in returned.returned] == [b"2"]
            assert isinstance(nacked, PublishFailed)
            assert len(nacked.refused) == 1
            assert await contents(transport, queue) == [b"1", b"3", b"7"]

    run(talk())


def test_fates_are_not_mixed_up_among_tasks_that_publish_at_once(url: str, unique: Unique) -> None:
    queue, nowhere = unique("queue"), unique("nowhere")

    async def publisher(transport: RecoveringTransport, number: int) -> None:
        for each in range(30):
            batch = [
                Outgoing(Message(b"%d" % place), "", nowhere if (place + number + each) % 3 == 0 else queue)
                for place in range(number % 7 + 1)
            ]
            expected = [("PublishFailed", "rejected") if out.routing_key == nowhere else None for out in batch]
            assert kinds(await transport.publish(batch)) == expected

    async def talk() -> None:
        async with await recovering.open(url, window=50) as transport:
            await transport.declare(only(queue))
            await asyncio.gather(*(publisher(transport, number) for number in range(20)))

    run(talk())


def test_a_missing_exchange_fails_its_own_messages_and_no_others(url: str, unique: Unique) -> None:
    queue, missing = unique("queue"), unique("missing")

    async def talk() -> None:
        async with await recovering.open(url) as transport:
            await transport.declare(only(queue))
            [alone] = await transport.publish([Outgoing(Message(b"x"), missing, "k")])
            assert isinstance(alone, ChannelClosed)
            assert (alone.code, alone.outcome, alone.retriable) == (404, "rejected", False)
            assert missing in str(alone)
            mixed = [
                out for number in range(50) for out in (*numbered(queue, 1, number), Outgoing(Message(b"x"), missing))
            ]
            calls = await asyncio.gather(transport.publish(mixed), transport.publish(numbered(queue, 50, 50)))
            assert kinds(calls[0])[0::2] == [None] * 50
            assert {type(error) for error in calls[0][1::2]} == {ChannelClosed}
            assert calls[1] == [None] * 50
            assert first_seen(await contents(transport, queue)) == [b"%06d" % number for number in range(100)]

    run(talk())


def test_a_message_that_ends_its_channel_is_found_among_many(url: str, queue: str) -> None:
    """Who says to be somebody else is refused with the channel, which does not tell which message it was."""

    async def talk() -> None:
        async with await recovering.open(url) as transport:
            await transport.declare(only(queue))
            batch = numbered(queue, 200)
            batch[130:130] = to(queue, b"poison", properties=Properties(user_id="somebody-else"))
            outcomes = await transport.publish(batch)
            assert [place for place, error in enumerate(outcomes) if error is not None] == [130]
            assert isinstance(outcomes[130], ChannelClosed)
            assert first_seen(await contents(transport, queue)) == [b"%06d" % number for number in range(200)]
            assert await transport.publish(to(queue, b"afterwards")) == [None]

    run(talk())


def test_a_call_of_which_nothing_can_be_encoded_ends(url: str, queue: str) -> None:
    async def talk() -> None:
        async with await recovering.open(url) as transport:
            outcomes = await transport.publish([Outgoing(Message(b"x"), "", "k" * 256)] * 50)
            assert {type(error) for error in outcomes} == {CannotConvert}
            assert await transport.publish([]) == []

    run(talk())


# topology


def test_what_only_lived_with_its_connection_is_declared_again(proxy: FaultProxy, unique: Unique) -> None:
    queue, topic = unique("queue"), unique("topic")
    layout = Layout(
        (ExchangeLayout(topic, "fanout"),),
        (QueueLayout(queue, durable=False, exclusive=True),),
        (BindingLayout(topic, queue),),
    )

    async def talk() -> None:
        async with await recovering.open(proxy.url) as transport:
            await transport.declare(layout)
            subscription = await transport.subscribe(queue)
            for body in (b"first", b"second"):
                # the queue comes with the consuming connection, and the publishing one may be first
                while await transport.publish([Outgoing(Message(body), topic)]) != [None]:
                    await asyncio.sleep(0.01)
                [message] = await subscription.batch()
                assert message.body == body
                message.ack()
                proxy.cut()
                await until(lambda: not transport.is_connected)

    run(talk())


def test_what_is_refused_for_the_first_time_is_raised_and_not_tried_again(proxy: FaultProxy, unique: Unique) -> None:
    queue = unique("queue")

    async def talk() -> None:
        async with await recovering.open(proxy.url) as transport:
            await transport.declare(only(queue))
            with pytest.raises(ChannelClosed, match="406"):
                await transport.declare(Layout(queues=(QueueLayout(queue, durable=False),)))
            with pytest.raises(ClientError, match="has a name"):
                await transport.declare(only(""))
            proxy.cut()
            assert await transport.publish(to(queue, b"x")) == [None]

    run(talk())


def test_what_is_refused_when_it_is_declared_again_is_told_and_keeps_nothing_else_away(
    proxy: FaultProxy, unique: Unique
) -> None:
    changed, other = unique("changed"), unique("other")
    notices: list[recovering.Notice] = []

    async def talk() -> None:
        async with await recovering.open(proxy.url, observer=notices.append) as transport:
            await transport.declare(Layout(queues=(QueueLayout(changed), QueueLayout(other))))
            async with await connect(proxy_target(proxy)) as operator, await operator.channel() as channel:
                await channel.delete_queue(changed)
                await channel.delete_queue(other)
                await channel.declare_queue(changed, durable=True, arguments={"x-max-length": 5})
            proxy.cut()
            await until(lambda: not transport.is_connected)
            assert await transport.publish(to(other, b"x")) == [None]
            told = [notice for notice in notices if isinstance(notice, recovering.LayoutRefused)]
            assert {notice.name for notice in told} == {f"queue '{changed}'"}

    run(talk())


# the end


def test_a_close_waits_for_publishes_and_for_what_is_in_hand(proxy: FaultProxy, queue: str) -> None:
    async def talk() -> None:
        transport = await recovering.open(proxy.url)
        await transport.declare(only(queue))
        await transport.publish(numbered(queue, 3))
        subscription = await transport.subscribe(queue, prefetch=2)
        in_hand = await taken(subscription, 2)
        proxy.delay(0.1)
        call = asyncio.ensure_future(transport.publish(to(queue, b"last")))
        reader = asyncio.ensure_future(subscription.batch())
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(transport.close(20.0))
        assert await reader == []
        assert await call == [None]
        assert not closing.done()
        for message in in_hand:
            message.ack()
        await closing
        assert kinds(await transport.publish(to(queue, b"too late"))) == [("ConnectionClosed", "not_sent")]
        with pytest.raises(ConnectionClosed, match="was closed"):
            await transport.send(to(queue, b"too late"))
        with pytest.raises(ConnectionClosed, match="was closed"):
            await transport.subscribe(queue)
        proxy.restore()
        async with await recovering.open(proxy.url) as other:
            assert await contents(other, queue) == [b"000002", b"last"]

    run(talk())


def test_a_close_ends_within_its_deadline_and_tells_what_is_not_decided(proxy: FaultProxy, queue: str) -> None:
    async def talk() -> None:
        transport = await recovering.open(proxy.url)
        await transport.declare(only(queue))
        await transport.publish(to(queue, b"kept"))
        subscription = await transport.subscribe(queue)
        [message] = await subscription.batch()
        proxy.stall("to_client")
        written = asyncio.ensure_future(transport.publish(to(queue, b"written")))
        while transport.undecided < 1:
            await asyncio.sleep(0)
        await asyncio.sleep(0.05)
        begun_s = time.monotonic()
        await transport.close(0.5)
        assert time.monotonic() - begun_s < 5
        assert kinds(await written) == [("ConnectionLost", "unknown")]
        message.ack()
        proxy.restore()
        async with await recovering.open(proxy.url) as other:
            assert (await contents(other, queue))[0] == b"kept"

    run(talk())


def test_a_close_while_nobody_is_there_says_that_nothing_was_sent(proxy: FaultProxy, queue: str) -> None:
    async def talk() -> None:
        transport = await recovering.open(proxy.url)
        proxy.cut(refuse=True)
        await until(lambda: not transport.is_connected)
        call = asyncio.ensure_future(transport.publish(to(queue, b"never")))
        await asyncio.sleep(0)
        await transport.close(0.2)
        assert kinds(await call) == [("CannotConnect", "not_sent")]

    run(talk())


def test_what_happens_is_logged_and_told_to_the_observer(
    proxy: FaultProxy, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    notices: list[recovering.Notice] = []

    def observer(notice: recovering.Notice) -> None:
        notices.append(notice)
        raise RuntimeError("an observer that fails does no harm")

    def told(kind: type[recovering.Notice]) -> set[str]:
        return {notice.role for notice in notices if type(notice) is kind}

    async def talk() -> None:
        async with await recovering.open(proxy.url, observer=observer) as transport:
            proxy.cut(refuse=True)
            await until(lambda: told(recovering.ReconnectFailed) == {"publishing", "consuming"})
            proxy.restore()
            await until(lambda: told(recovering.ConnectionUp) == {"publishing", "consuming"})
            assert told(recovering.ConnectionDown) == {"publishing", "consuming"}
            assert await transport.publish([Outgoing(Message(b"x"), "", uuid.uuid4().hex, mandatory=False)]) == [None]

    with caplog.at_level(logging.INFO, "warren.client.recovering"):
        run(talk())
    logged = [record for record in caplog.records if record.name == "warren.client.recovering"]
    assert any("the publishing connection is there again" in record.getMessage() for record in logged)
    assert {record.__dict__.get("warren_role") for record in logged} >= {"publishing", "consuming"}
    assert "guest:guest" not in caplog.text
