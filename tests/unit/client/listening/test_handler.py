"""The end of messages that working brokers do not cause: unreadable ones, and ones that cannot be moved."""

import asyncio
import logging
from collections.abc import Sequence

import pytest
from sqlalchemy import create_engine, text

from tests.support.deadlines import in_event_loop
from tests.unit.client.listening.messages import HandMade, Unreadable, with_headers
from warren.client import ClientError
from warren.client.listening import Arrival, Retries
from warren.client.listening.handler import (
    GIVE_WAY_TIMEOUT_S,
    FailureCounters,
    HandlerRunner,
    HandlerThreads,
    ListenerOptions,
    RecentOutcomes,
)
from warren.client.testing import MemoryBroker, MemoryTransport
from warren.client.transport import Layout, Outgoing, QueueLayout


@pytest.fixture(autouse=True)
def silent(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "warren.client.listening")


async def deal_with(message: HandMade, options: ListenerOptions[bytes], transport: MemoryTransport) -> float | None:
    await transport.declare(Layout(queues=(QueueLayout("orders.parked"),)))
    return await HandlerRunner(transport, options, HandlerThreads(1), FailureCounters(["orders"])).deal_with(
        Arrival(message, "orders")
    )


def look_at_headers(arrival: Arrival[bytes]) -> None:
    assert arrival.headers is not None


def fail(arrival: Arrival[bytes]) -> None:
    raise OSError("no disk")


@pytest.mark.parametrize("handler", [look_at_headers, fail])
def test_a_message_with_unreadable_properties_is_parked_by_its_body(handler: object) -> None:
    broker = MemoryBroker()
    message = Unreadable(b"soup")

    async def scenario() -> None:
        transport = broker.transport()
        assert await deal_with(message, ListenerOptions(handler), transport) is None  # type: ignore[arg-type]
        parked = await transport.get("orders.parked")
        assert parked is not None
        assert (parked.body, parked.headers["x-origin-queue"]) == (b"soup", "orders")

    asyncio.run(scenario())
    assert message.answers == ["ack"]


def test_without_parking_it_is_rejected() -> None:
    message = Unreadable(b"soup")
    options: ListenerOptions[bytes] = ListenerOptions(look_at_headers, retries=Retries(parking=False))
    asyncio.run(deal_with(message, options, MemoryBroker().transport()))
    assert message.answers == ["reject"]


@in_event_loop
async def test_deliveries_of_a_stream_are_never_requeued() -> None:
    broker = MemoryBroker()
    broker.faults.refuse(1)
    message = HandMade(b"soup")
    retries = Retries(2, (0.5,), "in_hand")
    options: ListenerOptions[bytes] = ListenerOptions(fail, retries=retries, is_stream=True)
    transport = broker.transport()
    await transport.declare(Layout(queues=(QueueLayout("orders.parked"),)))
    failure_counters = FailureCounters(["orders"])
    handling, arrival = (
        HandlerRunner(transport, options, HandlerThreads(1), failure_counters),
        Arrival[bytes](message, "orders"),
    )
    first = await handling.deal_with(arrival)
    refused_to_be_parked = await handling.deal_with(arrival)
    assert (first, refused_to_be_parked, message.answers) == (0.5, 1.0, [])
    assert await handling.deal_with(arrival) is None
    assert message.answers == ["ack"]
    assert [failure_counters.total(fate) for fate in ("retried", "stuck", "parked", "rejected")] == [1, 1, 1, 0]


@pytest.mark.parametrize("fault", ["refused", "blocked"])
def test_a_failed_message_that_cannot_be_requeued_at_the_end_is_retried_in_place_with_a_count(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = MemoryBroker()
    messages = [HandMade(b"soup"), HandMade(b"cake"), HandMade(b"well")]

    def handle(arrival: Arrival[bytes]) -> None:
        if arrival.body != b"well":
            raise OSError("nobody can handle it")

    async def scenario() -> None:
        transport = broker.transport()
        await transport.declare(Layout(queues=(QueueLayout("orders"),)))
        publish = transport.publish
        asked: list[tuple[bytes, float | None]] = []

        async def noted(messages: Sequence[Outgoing], timeout_s: float | None = None) -> list[ClientError | None]:
            asked.extend((outgoing.message.body, timeout_s) for outgoing in messages)
            return await publish(messages, timeout_s)

        monkeypatch.setattr(transport, "publish", noted)
        options: ListenerOptions[bytes] = ListenerOptions(handle, retries=Retries(3, (7.0,), "in_hand"))
        failure_counters = FailureCounters(["orders"])
        handling = HandlerRunner(transport, options, HandlerThreads(1), failure_counters, RecentOutcomes(100))
        soup, cake, *_ = arrivals = [Arrival[bytes](message, "orders") for message in messages]
        for _ in range(5):
            await handling.deal_with(Arrival(HandMade(b"well"), "orders"))
        broker.faults.block() if fault == "blocked" else broker.faults.refuse(1)
        waits_s = [await handling.deal_with(arrival, gives_way=lambda: True) for arrival in arrivals]
        # one that stood for its timeout is enough: the next one does not ask
        assert asked == [(b"soup", GIVE_WAY_TIMEOUT_S)]
        assert waits_s == [7.0, 7.0, None]
        assert (soup.retries, cake.retries) == (1, 1)
        assert [failure_counters.total(fate) for fate in ("retried", "stuck")] == [2, 0]
        assert await transport.get("orders") is None

    asyncio.run(scenario())
    assert [message.answers for message in messages] == [[], [], ["ack"]]


@pytest.mark.parametrize(("tries", "retries_before", "goes"), [(3, 0, True), (2, 0, False), (5, 1, False)])
def test_a_message_gives_way_at_its_first_failure_if_it_has_tries_left_behind_that(
    tries: int, retries_before: int, goes: bool
) -> None:
    message = with_headers(x_retries=retries_before)

    async def scenario() -> None:
        transport = MemoryBroker().transport()
        await transport.declare(Layout(queues=(QueueLayout("orders"),)))
        recent_outcomes = RecentOutcomes(100)
        recent_outcomes.note(True)
        recent_outcomes.note(True)
        options: ListenerOptions[bytes] = ListenerOptions(fail, retries=Retries(tries, (7.0,), "in_hand"))
        handling = HandlerRunner(transport, options, HandlerThreads(1), FailureCounters(["orders"]), recent_outcomes)
        waits_s = await handling.deal_with(Arrival(message, "orders"), gives_way=lambda: True)
        behind = await transport.get("orders")
        assert (waits_s is None, behind is not None) == (goes, goes)
        assert behind is None or behind.headers["x-retries"] == 1

    asyncio.run(scenario())
    assert message.answers == (["ack"] if goes else [])


def test_a_failure_among_few_messages_does_not_make_an_outage() -> None:
    for count in (1, 2, 3):
        recent_outcomes = RecentOutcomes(count)
        for well in (True, True, False):
            recent_outcomes.note(well)
        assert recent_outcomes.goes_well
        recent_outcomes.note(False)
        assert not recent_outcomes.goes_well


def test_a_message_acked_by_its_handler_is_not_nacked_when_the_handler_fails() -> None:
    message = HandMade(b"soup")

    async def settle_and_fail(arrival: Arrival[bytes]) -> None:
        arrival.nack(requeue=False)
        raise OSError

    asyncio.run(deal_with(message, ListenerOptions(settle_and_fail), MemoryBroker().transport()))
    assert message.answers == ["reject"]


def test_the_log_has_the_traceback_of_a_failed_handler_and_no_values(caplog: pytest.LogCaptureFixture) -> None:
    def insert(arrival: Arrival[bytes]) -> None:
        with create_engine("sqlite://").connect() as connection:
            connection.execute(text("INSERT INTO nowhere VALUES (:name)"), {"name": arrival.body.decode()})

    caplog.set_level(logging.WARNING, "warren.client.listening")
    for retries in (Retries(2, (1,), "in_hand"), Retries(1)):
        options: ListenerOptions[bytes] = ListenerOptions(insert, retries=retries)
        asyncio.run(deal_with(HandMade(b"Ada Lovelace"), options, MemoryBroker().transport()))
    again, parked = [record for record in caplog.records if record.name == "warren.client.listening"]
    told = "OperationalError: (sqlite3.OperationalError) no such table: nowhere"
    assert [again.error, parked.error] == [told, told]  # type: ignore[attr-defined]
    assert again.getMessage().startswith(f"a message is tried again: {told}\nTraceback (most recent call last):")
    assert "connection.execute(text(" in caplog.text
    assert "Lovelace" not in caplog.text


def test_an_object_that_is_called_may_be_a_handler_of_either_kind() -> None:
    class Plain:
        def __call__(self, arrival: Arrival[bytes]) -> None: ...

    class Async:
        async def __call__(self, arrival: Arrival[bytes]) -> None: ...

    async def hidden(arrival: Arrival[bytes]) -> None: ...

    for handler in (Plain(), Async(), lambda arrival: hidden(arrival)):
        message = HandMade(b"soup")
        asyncio.run(deal_with(message, ListenerOptions(handler), MemoryBroker().transport()))
        assert message.answers == ["ack"]
