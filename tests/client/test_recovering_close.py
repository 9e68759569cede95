"""Closing a transport, and its events."""

import asyncio
import logging
import time
import uuid
from collections.abc import Callable

import pytest

from tests.client.recovery import contents, kinds, numbered, only, taken, to
from tests.support.deadlines import in_event_loop, run, until
from warren.client import ConnectionClosed, Message, recovering
from warren.client.publisher import PublishBulk
from warren.client.testing import FaultProxy
from warren.client.transport import Outgoing

ON_EITHER_BROKER = True

Unique = Callable[[str], str]


@in_event_loop
async def test_a_close_waits_for_publishes_and_for_what_is_in_hand(proxy: FaultProxy, queue: str) -> None:
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
    with pytest.raises(ConnectionClosed, match="was closed") as refused:
        await transport.send(to(queue, b"too late"))
    assert refused.value.outcome == "not_sent"
    with pytest.raises(ConnectionClosed, match="was closed"):
        await transport.subscribe(queue)
    proxy.restore()
    async with await recovering.open(proxy.url) as other:
        assert await contents(other, queue) == [b"000002", b"last"]


@in_event_loop
async def test_a_close_ends_within_its_deadline_and_reports_undecided_messages(proxy: FaultProxy, queue: str) -> None:
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
    assert time.monotonic() - begun_s < 20
    assert kinds(await written) == [("ConnectionLost", "unknown")]
    message.ack()
    proxy.restore()
    async with await recovering.open(proxy.url) as other:
        found: list[bytes] = []
        # the broker may not have closed the connection yet
        while b"kept" not in found:
            found += await contents(other, queue)


@in_event_loop
async def test_a_close_amid_a_long_publish_reports_messages_that_were_never_written(url: str, queue: str) -> None:
    """The broker reads nothing after the first part, and has confirmed everything it read."""
    transport = await recovering.open(url)
    await transport.declare(only(queue))
    publish = asyncio.ensure_future(transport.publish(to(queue, *[b"x" * 1024] * 3000)))
    while not (bulks := sent_bulks(transport)):
        await asyncio.sleep(0)
    protocol = transport._publishing._connection._protocol  # type: ignore[union-attr]
    protocol.blocked_reason = "low on memory"
    await until(lambda: not bulks[0].undecided())
    await transport.close(0.5)
    outcomes = kinds(await publish)
    async with await recovering.open(url) as other:
        there = len(await contents(other, queue))
    assert 0 < there < 3000
    assert outcomes == [None] * there + [("ConnectionClosed", "not_sent")] * (3000 - there)


def sent_bulks(transport: recovering.RecoveringTransport) -> list[PublishBulk]:
    return [part.bulk for call in transport._sender._row for part in call._parts if part.bulk.sent]


@in_event_loop
async def test_a_close_without_a_connection_reports_not_sent(proxy: FaultProxy, queue: str) -> None:
    transport = await recovering.open(proxy.url)
    proxy.cut(refuse=True)
    await until(lambda: not transport.is_connected)
    call = asyncio.ensure_future(transport.publish(to(queue, b"never")))
    await asyncio.sleep(0)
    await transport.close(0.2)
    assert kinds(await call) == [("CannotConnect", "not_sent")]


def test_events_are_logged_and_given_to_the_observer(
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
