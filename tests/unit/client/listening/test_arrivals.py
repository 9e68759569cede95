"""A message as its handler sees it, in any thread."""

import asyncio
import threading

import pytest

from tests.support.deadlines import in_event_loop
from tests.unit.client.listening.messages import HandMade, Unreadable, with_headers
from warren.client.errors import CannotConvert
from warren.client.listening import Arrival
from warren.client.listening.handler import HandlerThreads
from warren.client.transport import Incoming
from warren.wire.properties import Properties


@in_event_loop
async def test_only_the_first_ack_or_nack_is_sent() -> None:
    message = HandMade()
    arrival: Arrival[bytes] = Arrival(message, "orders")
    arrival.ack()
    arrival.nack()
    assert message.answers == ["ack"]
    assert arrival.settled


@in_event_loop
async def test_an_ack_from_a_thread_is_sent_by_the_loop() -> None:
    loop_thread = threading.get_ident()
    seen: list[int] = []

    class Noting(HandMade):
        def ack(self) -> None:
            seen.append(threading.get_ident())

    arrival: Arrival[bytes] = Arrival(Noting(), "orders")
    await HandlerThreads(1).run(arrival.ack)
    assert seen == [loop_thread]
    assert arrival.settled


@in_event_loop
async def test_a_moved_message_has_its_origin() -> None:
    message = with_headers(x_origin_exchange="shop", x_origin_key="orders.new", x_retries=2)
    message.exchange, message.routing_key = "", "orders"
    arrival: Incoming = Arrival[bytes](message, "orders")
    assert (arrival.exchange, arrival.routing_key) == ("shop", "orders.new")
    untouched: Arrival[bytes] = Arrival(HandMade(), "orders")
    assert (untouched.exchange, untouched.routing_key, untouched.retries) == ("shop", "orders.new", 0)


@in_event_loop
async def test_malformed_properties_raise_cannot_convert() -> None:
    arrival: Arrival[bytes] = Arrival(Unreadable(), "orders")
    with pytest.raises(CannotConvert, match="are invalid"):
        _ = arrival.headers


@in_event_loop
async def test_threads_pass_on_results_and_failures_of_every_kind() -> None:
    def fail(error: BaseException) -> None:
        raise error

    threads = HandlerThreads(2)
    assert await asyncio.gather(*(threads.run(lambda n=n: n * n) for n in range(9))) == [n * n for n in range(9)]
    with pytest.raises(KeyError):
        await threads.run(lambda: fail(KeyError("x")))
    for error in (StopIteration(), SystemExit(3)):
        with pytest.raises(RuntimeError, match="the handler raised"):
            await threads.run(lambda error=error: fail(error))
    threads.stop()


@in_event_loop
async def test_there_are_no_more_threads_than_are_needed_at_once() -> None:
    threads = HandlerThreads(8)
    names: set[str] = set()
    for _ in range(20):
        await threads.run(lambda: names.add(threading.current_thread().name))
    assert len(names) == 1
    threads.stop()


@in_event_loop
async def test_headers_are_those_of_the_message() -> None:
    arrival: Arrival[bytes] = Arrival(HandMade(properties=Properties(headers={"a": 1})), "orders")
    assert (arrival.headers, arrival.payload, arrival.queue) == ({"a": 1}, b"body", "orders")
