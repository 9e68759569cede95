"""Brokers that stop, crash, fall silent or block: the errors of a client, and that it can continue elsewhere."""

import asyncio
import signal
import subprocess
from collections.abc import Callable

import pytest

from tests.client.conftest import url_of
from tests.support.deadlines import in_event_loop
from tests.support.node_process import NodeProcess
from warren.client import CallTimeout, ClientError, Connection, ConnectionClosed, ConnectionLost, connect

Start = Callable[..., NodeProcess]


async def consequences(connection: Connection, ends: Callable[[], object]) -> tuple[ClientError, list[object]]:
    """The reason why a connection ended, and the errors of pending deliveries and of later calls."""
    channel = await connection.channel(confirms=True, window=1)
    await channel.declare_queue("q")
    consumer = await channel.consume("q")
    ends()
    error = await connection.closed()
    learned = await asyncio.gather(
        consumer.batch(),
        channel.publish(b"x", routing_key="elsewhere"),
        channel.wait_for_confirms(),
        connection.channel(),
        return_exceptions=True,
    )
    return error, list(learned)


@in_event_loop
async def test_a_broker_that_is_stopped_says_so_in_words(start: Start) -> None:
    node = start()
    async with await connect(url_of(node.amqp)) as connection:
        error, learned = await consequences(connection, lambda: node.process.send_signal(signal.SIGTERM))
        assert type(error) is ConnectionClosed
        assert (error.code, error.retriable) == (320, True)
        assert "CONNECTION_FORCED" in error.text
        assert [type(each) for each in learned] == [
            ConnectionClosed,
            ConnectionClosed,
            type(None),
            ConnectionClosed,
        ]


@in_event_loop
async def test_a_broker_that_is_killed_is_a_lost_connection(start: Start) -> None:
    node = start()
    async with await connect(url_of(node.amqp)) as connection:
        error, learned = await consequences(connection, node.process.kill)
        assert type(error) is ConnectionLost
        assert (error.retriable, error.outcome) == (True, "unknown")
        assert [type(each) for each in learned] == [ConnectionLost, ConnectionLost, type(None), ConnectionLost]


@in_event_loop
async def test_publishers_that_wait_when_their_broker_dies_learn_that_the_outcome_is_unknown(start: Start) -> None:
    node = start()
    async with await connect(url_of(node.amqp)) as connection:
        channel = await connection.channel(confirms=True, window=10)
        await channel.declare_queue("q", durable=True)
        node.process.send_signal(signal.SIGSTOP)
        waiting = [
            asyncio.ensure_future(channel.publish(b"x", routing_key="q")),
            asyncio.ensure_future(channel.send_many([b"y"] * 1000, routing_key="q")),
            asyncio.ensure_future(channel.wait_for_confirms()),
            asyncio.ensure_future(channel.declare_queue("other")),
        ]
        while channel.unconfirmed < 10:
            await asyncio.sleep(0)
        node.process.kill()
        learned = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(each) for each in learned] == [ConnectionLost] * 4


@in_event_loop
async def test_a_broker_that_falls_silent_is_missed_after_two_heartbeats(start: Start) -> None:
    node = start()
    connection = await connect(url_of(node.amqp, "?heartbeat=1"))
    node.process.send_signal(signal.SIGSTOP)
    error = await connection.closed()
    assert type(error) is ConnectionLost
    assert "nothing was heard" in str(error)
    await connection.close()


@in_event_loop
async def test_heartbeats_keep_an_idle_connection(start: Start) -> None:
    node = start()
    async with await connect(url_of(node.amqp, "?heartbeat=4")) as connection:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(9):
                await connection.closed()
        await connection.channel()


@in_event_loop
async def test_a_call_that_is_not_answered_in_time_fails_and_a_close_does_not_hang(start: Start) -> None:
    node = start()
    connection = await connect(url_of(node.amqp, "?heartbeat=0"), call_timeout_s=5.0)
    channel = await connection.channel(confirms=True)
    node.process.send_signal(signal.SIGSTOP)
    with pytest.raises(CallTimeout, match="within 5 s"):
        await channel.declare_queue("q")
    with pytest.raises(CallTimeout, match=r"within 0\.2 s"):
        await channel.publish(b"x", routing_key="q", timeout_s=0.2)
    with pytest.raises(CallTimeout, match=r"1 publishes were not confirmed within 0\.1 s"):
        await channel.wait_for_confirms(timeout_s=0.1)
    await connection.close(deadline_s=0.2)
    assert not connection.is_open


@in_event_loop
async def test_a_late_answer_is_not_taken_for_that_of_the_next_call(start: Start) -> None:
    node = start()
    async with await connect(url_of(node.amqp), call_timeout_s=5.0) as connection:
        channel = await connection.channel()
        node.process.send_signal(signal.SIGSTOP)
        with pytest.raises(CallTimeout):
            await channel.declare_queue("late")
        node.process.send_signal(signal.SIGCONT)
        assert (await channel.declare_queue("next")).name == "next"


@in_event_loop
async def test_a_blocked_publisher_waits_and_goes_on(start: Start) -> None:
    node = start()
    http = f"http://{node.addresses['http'][0]}:{node.addresses['http'][1]}"

    async def want_free(size: str) -> None:
        command = [*NodeProcess.COMMAND, "ctl", "--http", http, "set_disk_free_limit", size]
        await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)

    async with await connect(url_of(node.amqp)) as connection:
        channel = await connection.channel(confirms=True)
        await channel.declare_queue("q")
        await want_free("900000GB")
        # a broker with an alarm notifies publishers
        while connection.blocked_reason is None:
            await channel.send(b"x", routing_key="q")
            await asyncio.sleep(0.02)
        assert "disk" in connection.blocked_reason
        waiting = asyncio.ensure_future(channel.publish(b"last", routing_key="q"))
        async with await connect(url_of(node.amqp)) as other, await other.channel() as consuming:
            assert (await consuming.get("q")) is not None
        assert not waiting.done()
        await want_free("1MB")
        await waiting
        await channel.wait_for_confirms()
        assert connection.blocked_reason is None


@in_event_loop
async def test_when_a_broker_is_gone_the_same_url_leads_to_the_next(start: Start) -> None:
    first, second = start(), start()
    url = url_of(first.amqp).replace("/%2F", f",{second.amqp[0]}:{second.amqp[1]}/%2F")
    connection = await connect(url)
    assert connection.address.port == first.amqp[1]
    first.process.kill()
    assert isinstance(await connection.closed(), ConnectionLost)
    await connection.close()
    async with await connect(url) as connection:
        assert connection.address.port == second.amqp[1]
