"""Requests and their answers."""

import asyncio

import pytest

from tests.client.listening.worlds import World, is_empty, queue_of, taken
from tests.support.deadlines import in_event_loop, until
from warren.client import CallTimeout, Message, Properties, PublishFailed
from warren.client.listening import Arrival, Listener, Requester, Retries


@in_event_loop
async def test_each_of_many_requests_gets_its_own_answer(world: World) -> None:
    transport = await world.open()
    queue = await queue_of(world, transport)

    async def double(arrival: Arrival[bytes]) -> bytes:
        # those that came first are answered last
        await asyncio.sleep(0.05 / int(arrival.body))
        return b"%d" % (2 * int(arrival.body))

    async with Listener(transport, queue, double, concurrency=20), Requester(transport, "", queue) as requester:
        answers = await asyncio.gather(*(requester.request(b"%d" % number) for number in range(1, 41)))
    assert [int(answer.body) for answer in answers] == [2 * number for number in range(1, 41)]
    assert await is_empty(transport, queue)
    await transport.close()


@in_event_loop
async def test_a_plain_handler_answers_what_the_listener_makes_of_its_result(world: World) -> None:
    transport = await world.open()
    queue = await queue_of(world, transport)

    def length(arrival: Arrival[bytes]) -> int:
        return len(arrival.body)

    def as_message(count: int) -> Message:
        return Message(str(count).encode(), Properties(content_type="text/plain"))

    async with Listener(transport, queue, length, answer=as_message), Requester(transport, "", queue) as requester:
        answer = await requester.request(Message(b"coffee", Properties(headers={"table": 4})))
    assert (answer.body, answer.properties.content_type) == (b"6", "text/plain")
    await transport.close()


@in_event_loop
async def test_a_request_without_a_reply_times_out_and_is_not_handled_later(world: World) -> None:
    transport = await world.open()
    queue = await queue_of(world, transport)
    async with Requester(transport, "", queue) as requester:
        with pytest.raises(CallTimeout, match="no answer came") as raised:
            await requester.request(b"request", timeout_s=0.3)
        assert raised.value.outcome == "unknown"
        async with asyncio.timeout(20):
            while await transport.get(queue) is not None:
                await asyncio.sleep(0.01)
    await transport.close()


@in_event_loop
async def test_an_unroutable_request_fails_at_once(world: World) -> None:
    transport = await world.open()
    async with Requester(transport, "", world.name("unserved")) as requester:
        with pytest.raises(PublishFailed):
            await requester.request(b"request")
    await transport.close()


@in_event_loop
async def test_an_answer_that_comes_too_late_is_dropped_and_its_request_is_done(world: World) -> None:
    transport = await world.open()
    queue = await queue_of(world, transport)
    asked: list[bytes] = []
    go_on = asyncio.Event()

    async def answer(arrival: Arrival[bytes]) -> bytes:
        asked.append(arrival.body)
        if arrival.body == b"slow":
            await go_on.wait()
        return arrival.body

    async with Listener(transport, queue, answer), Requester(transport, "", queue) as requester:
        with pytest.raises(CallTimeout):
            # which is also how long it may take to get to its handler
            await requester.request(b"slow", timeout_s=3.0)
        go_on.set()
        assert (await requester.request(b"quick")).body == b"quick"
    assert asked == [b"slow", b"quick"]
    assert await is_empty(transport, queue)
    await transport.close()


@in_event_loop
async def test_a_request_whose_asker_is_gone_is_handled_and_acked(world: World) -> None:
    transport = await world.open()
    message = Message(b"hello?", Properties(reply_to="nowhere.to.be.found", correlation_id="7"))
    queue = await queue_of(world, transport, [message])
    asked: list[bytes] = []

    async def answer(arrival: Arrival[bytes]) -> bytes:
        asked.append(arrival.body)
        return b"yes"

    async with Listener(transport, queue, answer):
        await until(lambda: asked)
    assert asked == [b"hello?"]
    assert await is_empty(transport, queue)
    await transport.close()


@in_event_loop
async def test_an_answer_that_has_no_form_parks_the_request(world: World) -> None:
    transport = await world.open()
    queue = await queue_of(world, transport)

    async def answer(arrival: Arrival[bytes]) -> object:
        return {"not": "bytes"}

    async with (
        Listener(transport, queue, answer, retries=Retries(5, ())),
        Requester(transport, "", queue) as requester,
    ):
        asking = asyncio.create_task(requester.request(b"hello?", timeout_s=60))
        [parked] = await taken(transport, f"{queue}.parked", 1)
    assert "an answer is bytes or a Message, not dict" in str(parked.headers["x-error"])
    with pytest.raises(CallTimeout, match="closed before an answer came"):
        await asking
    await transport.close()


@in_event_loop
async def test_one_answer_may_be_given_to_many_at_once(world: World) -> None:
    transport = await world.open()
    queue = await queue_of(world, transport)
    same = Message(b"closed", Properties(content_type="text/plain"))

    async def answer(arrival: Arrival[bytes]) -> Message:
        return same

    async with Listener(transport, queue, answer, concurrency=5), Requester(transport, "", queue) as requester:
        answers = await asyncio.gather(*(requester.request(b"open?", timeout_s=20) for _ in range(20)))
    assert [each.body for each in answers] == [b"closed"] * 20
    assert same.properties == Properties(content_type="text/plain")
    await transport.close()


@in_event_loop
async def test_a_request_that_fails_is_not_tried_again_when_its_asker_has_gone(world: World) -> None:
    transport = await world.open()
    queue = await queue_of(world, transport)
    tries: list[int] = []

    async def handle(arrival: Arrival[bytes]) -> bytes:
        tries.append(arrival.retries)
        raise OSError("the database is away")

    retries = Retries(delays_s=(0.01, 0.01, 60.0), way="in_hand")
    async with Requester(transport, "", queue) as requester, Listener(transport, queue, handle, retries=retries):
        with pytest.raises(CallTimeout):
            await requester.request(b"x", timeout_s=4.0)
        # the third pause would end behind the time-out, and was not begun
        [parked] = await taken(transport, f"{queue}.parked", 1)
    assert (tries, parked.headers["x-retries"]) == ([0, 1, 2], 2)
    await transport.close()
