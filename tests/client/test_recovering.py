"""A recovering transport with connections that are cut, stalled and refused, and a broker that keeps running."""

import asyncio
import time
from collections.abc import Callable

import pytest

from tests.client.recovery import contents, drained, first_seen, numbered, only, to
from tests.support.deadlines import in_event_loop, run, until
from tests.support.ports import free_port
from warren.client import (
    CallTimeout,
    CannotConnect,
    ChannelClosed,
    ClientError,
    ConnectionLost,
    LoginRefused,
    Message,
    connect,
    recovering,
)
from warren.client.connection import Dialer
from warren.client.testing import FaultProxy
from warren.client.transport import BindingLayout, ExchangeLayout, Layout, Outgoing, QueueLayout

ON_EITHER_BROKER = True

Unique = Callable[[str], str]


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


@in_event_loop
async def test_both_connections_bear_the_programs_name(url: str, queue: str) -> None:
    # an exclusive queue belongs to the connection that consumes
    layout = Layout(queues=(QueueLayout(queue, exclusive=True, durable=False),))
    async with await recovering.open(url, name="shop") as transport:
        await transport.declare(layout)
        subscription = await transport.subscribe(queue)
        assert await transport.publish(to(queue, b"x")) == [None]
        [message] = await subscription.batch()
        message.ack()
        assert transport.is_connected


@in_event_loop
async def test_messages_cut_off_in_the_middle_are_resent_in_order_and_none_is_lost(
    url: str, proxy: FaultProxy, queue: str
) -> None:
    count = 5_000
    async with await recovering.open(proxy.url, window=500) as transport:
        await transport.declare(only(queue))
        proxy.close_after(40_000, "to_broker")
        outcomes = asyncio.ensure_future(transport.publish(numbered(queue, count)))
        await until(lambda: not transport.is_connected)
        proxy.restore()
        assert await outcomes == [None] * count
        found = await drained(url, queue)
        assert first_seen(found) == [b"%06d" % number for number in range(count)]
        # no more than the window was in flight
        assert count <= len(found) <= count + 500


@in_event_loop
async def test_confirms_that_were_cut_off_lead_to_duplicates_and_never_to_a_loss(
    url: str, proxy: FaultProxy, queue: str
) -> None:
    async with await recovering.open(proxy.url) as transport:
        await transport.declare(only(queue))
        proxy.stall("to_client")
        outcomes = asyncio.ensure_future(transport.publish(numbered(queue, 10)))
        async with await connect(url) as beside:
            channel = await beside.channel()
            while (await channel.declare_queue(queue, passive=True)).messages < 10:
                await asyncio.sleep(0.005)
        proxy.cut()
        proxy.restore()
        assert await outcomes == [None] * 10
        found = await contents(transport, queue)
        assert found == [b"%06d" % number for number in range(10)] * 2


@in_event_loop
async def test_confirmed_messages_are_not_sent_again(proxy: FaultProxy, queue: str) -> None:
    async with await recovering.open(proxy.url) as transport:
        await transport.declare(only(queue))
        assert await transport.publish(numbered(queue, 100)) == [None] * 100
        proxy.cut()
        assert await transport.publish(numbered(queue, 1, first=100)) == [None]
        assert await contents(transport, queue) == [b"%06d" % number for number in range(101)]


@in_event_loop
async def test_calls_that_were_under_way_keep_their_order_and_go_before_later_ones(
    proxy: FaultProxy, queue: str
) -> None:
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


@in_event_loop
async def test_the_time_of_a_call_is_respected_and_its_error_says_what_is_certain(
    proxy: FaultProxy, queue: str
) -> None:
    async with await recovering.open(proxy.url) as transport:
        await transport.declare(only(queue))
        proxy.stall("to_client")
        begun_s = time.monotonic()
        [late] = await transport.publish(to(queue, b"late"), 0.2)
        assert (type(late), late and late.outcome) == (CallTimeout, "unknown")
        cut_off = asyncio.ensure_future(transport.publish(to(queue, b"cut off"), 5.0))
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
        assert time.monotonic() - begun_s < 30
        proxy.restore()
        assert await transport.publish(to(queue, b"at last")) == [None]
        # cancelled publishes are not sent
        assert b"kept out" not in await contents(transport, queue)


@in_event_loop
async def test_a_publish_that_is_cancelled_is_given_up(proxy: FaultProxy, queue: str) -> None:
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


@in_event_loop
async def test_one_way_messages_wait_for_room_and_are_resent(proxy: FaultProxy, queue: str) -> None:
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


@in_event_loop
async def test_objects_that_ended_with_the_connection_are_declared_again(proxy: FaultProxy, unique: Unique) -> None:
    queue, topic = unique("queue"), unique("topic")
    layout = Layout(
        (ExchangeLayout(topic, "fanout"),),
        (QueueLayout(queue, durable=False, exclusive=True),),
        (BindingLayout(topic, queue),),
    )
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


@in_event_loop
async def test_a_first_refusal_is_raised_and_not_tried_again(proxy: FaultProxy, unique: Unique) -> None:
    queue = unique("queue")
    async with await recovering.open(proxy.url) as transport:
        await transport.declare(only(queue))
        with pytest.raises(ChannelClosed, match="406"):
            await transport.declare(Layout(queues=(QueueLayout(queue, durable=False),)))
        with pytest.raises(ClientError, match="has a name"):
            await transport.declare(only(""))
        proxy.cut()
        assert await transport.publish(to(queue, b"x")) == [None]


@in_event_loop
async def test_a_refused_redeclaration_is_reported_and_the_others_go_on(
    url: str, proxy: FaultProxy, unique: Unique
) -> None:
    changed, other = unique("changed"), unique("other")
    notices: list[recovering.Notice] = []
    async with await recovering.open(proxy.url, observer=notices.append) as transport:
        await transport.declare(Layout(queues=(QueueLayout(changed), QueueLayout(other))))
        async with await connect(url) as operator, await operator.channel() as channel:
            await channel.delete_queue(changed)
            await channel.delete_queue(other)
            await channel.declare_queue(changed, durable=True, arguments={"x-max-length": 5})
        proxy.cut()
        await until(lambda: not transport.is_connected)
        assert await transport.publish(to(other, b"x")) == [None]
        told = [notice for notice in notices if isinstance(notice, recovering.LayoutRefused)]
        assert {notice.name for notice in told} == {f"queue '{changed}'"}


@in_event_loop
async def test_an_invalid_host_name_does_not_prevent_the_others(proxy: FaultProxy, queue: str) -> None:
    async with await recovering.open(proxy.url.replace("/%2F", ",broker..example/%2F")) as transport:
        await transport.declare(only(queue))
        proxy.cut()
        await until(lambda: not transport.is_connected)
        assert await transport.publish(to(queue, b"x")) == [None]


def test_an_unforeseen_error_while_reconnecting_reaches_all_callers(
    proxy: FaultProxy, queue: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    notices: list[recovering.Notice] = []

    async def fails(*_: object, **__: object) -> None:
        raise RuntimeError("a defect")

    async def talk() -> None:
        async with await recovering.open(proxy.url, observer=notices.append) as transport:
            await transport.declare(only(queue))
            subscription = await transport.subscribe(queue)
            monkeypatch.setattr(Dialer, "connect_once", fails)
            proxy.cut()
            await until(lambda: not transport.is_connected)
            [outcome] = await transport.publish(to(queue, b"x"))
            assert outcome is not None
            assert outcome.outcome == "not_sent"
            for attempt in (subscription.batch(), transport.get(queue), transport.send(to(queue, b"x"))):
                with pytest.raises(ClientError, match="open another transport"):
                    await attempt
        assert {each.role for each in notices if isinstance(each, recovering.GivenUp)} == {"publishing", "consuming"}

    run(talk())
    assert "RuntimeError: a defect" in caplog.text
