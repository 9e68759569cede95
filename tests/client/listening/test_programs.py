"""Programs that listen and do nothing else."""

import asyncio
import os
import signal
import threading
import time

import pytest

from tests.client.listening.worlds import World, fill, is_empty, queue_of, taken
from warren.client import ClientError
from warren.client.listening import Arrival, Listener, Program
from warren.client.transport import Transport


def filled_queue(world: World, bodies: list[bytes]) -> str:
    async def make() -> str:
        transport = await world.open()
        queue = await queue_of(world, transport, bodies)
        await transport.close()
        return queue

    return asyncio.run(make())


def check_empty(world: World, queue: str) -> None:
    async def look() -> None:
        transport = await world.open()
        assert await is_empty(transport, queue)
        await transport.close()

    asyncio.run(look())


def still_there(world: World, queue: str) -> list[bytes]:
    async def look() -> list[bytes]:
        transport = await world.open()
        bodies = [message.body for message in await taken(transport, queue, 1)]
        await transport.close()
        return bodies

    return asyncio.run(look())


@pytest.mark.parametrize("end", ["stop", "SIGTERM", "SIGINT"])
def test_a_program_listens_until_it_is_stopped_or_gets_a_signal(world: World, end: str) -> None:
    queue = filled_queue(world, [b"1", b"2", b"3"])
    seen: list[bytes] = []

    def handle(arrival: Arrival[bytes]) -> None:
        seen.append(arrival.body)
        if len(seen) == 3:
            program.stop() if end == "stop" else os.kill(os.getpid(), signal.Signals[end])

    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    program = Program(world.open, lambda transport: Listener(transport, queue, handle))
    program.run()
    assert seen == [b"1", b"2", b"3"]
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    check_empty(world, queue)


def test_a_program_may_run_in_any_thread_with_several_listeners(world: World) -> None:
    queues = [filled_queue(world, [b"x"]) for _ in range(2)]
    both = threading.Barrier(3, timeout=30)

    def handle(arrival: Arrival[bytes]) -> None:
        both.wait()

    makers = [lambda transport, queue=queue: Listener(transport, queue, handle) for queue in queues]
    program = Program(world.open, *makers)
    thread = threading.Thread(target=program.run)
    thread.start()
    both.wait()
    program.stop()
    thread.join(30)
    assert not thread.is_alive()
    for queue in queues:
        check_empty(world, queue)


def test_a_program_whose_listener_cannot_go_on_ends_with_what_happened(world: World) -> None:
    missing = world.name("missing")
    with pytest.raises(ClientError):
        Program(world.open, lambda transport: Listener(transport, missing, print)).run()


def test_a_program_that_was_stopped_before_it_ran_returns_at_once(world: World) -> None:
    queue = filled_queue(world, [])
    program = Program(world.open, lambda transport: Listener(transport, queue, print))
    program.stop()
    program.run()
    check_empty(world, queue)


def test_messages_that_come_while_a_program_runs_are_handled(world: World) -> None:
    queue = filled_queue(world, [])
    seen = threading.Event()
    program = Program(world.open, lambda transport: Listener(transport, queue, lambda arrival: seen.set()))
    thread = threading.Thread(target=program.run)
    thread.start()

    async def publish() -> None:
        transport = await world.open()
        await fill(transport, queue, [b"late"])
        await transport.close()

    asyncio.run(publish())
    assert seen.wait(30)
    program.stop()
    thread.join(30)
    assert not thread.is_alive()


def test_a_program_can_be_stopped_while_it_waits_for_its_broker() -> None:
    opening = threading.Event()

    async def open_never() -> Transport:
        opening.set()
        return await asyncio.get_running_loop().create_future()

    program = Program(open_never, lambda transport: Listener(transport, "orders", print))
    thread = threading.Thread(target=program.run)
    thread.start()
    assert opening.wait(20)
    program.stop()
    thread.join(20)
    assert not thread.is_alive()


def test_a_program_whose_handler_does_not_end_is_over_at_its_deadline(world: World) -> None:
    queue = filled_queue(world, [b"slow"])
    end = threading.Event()

    def block(arrival: Arrival[bytes]) -> None:
        program.stop()
        end.wait(60)

    program = Program(world.open, lambda transport: Listener(transport, queue, block), deadline_s=0.3)
    began = time.monotonic()
    program.run()
    end.set()
    assert time.monotonic() - began < 20
    assert still_there(world, queue) == [b"slow"]
