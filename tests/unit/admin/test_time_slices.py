"""Long work lets the node continue with its turns."""

import asyncio
import time

from warren.admin.time_slices import SLICE_S, TimeSlicer

WORKS, SLICES = 30, 5


async def work(rounds: list[int], now: list[int]) -> None:
    """Note the loop iteration of each slice."""
    pace = TimeSlicer()
    for _ in range(SLICES):
        await pace.rest()
        rounds.append(now[0])
        until = time.monotonic() + SLICE_S
        while time.monotonic() < until:
            pass


async def count_rounds(now: list[int]) -> None:
    while True:
        await asyncio.sleep(0)
        now[0] += 1


async def rounds_of_slices() -> list[int]:
    rounds: list[int] = []
    now = [0]
    counting = asyncio.create_task(count_rounds(now))
    first = asyncio.create_task(work(rounds, now))
    while not rounds:
        await asyncio.sleep(0)
    await asyncio.gather(first, *[work(rounds, now) for _ in range(WORKS)])
    counting.cancel()
    return rounds


def test_one_slice_of_work_is_done_a_round() -> None:
    rounds = asyncio.run(rounds_of_slices())
    assert len(rounds) == (WORKS + 1) * SLICES
    together = max(rounds.count(number) for number in set(rounds[WORKS + 1 :]))
    assert together == 1


def test_a_row_outlives_its_loop() -> None:
    async def ended_early() -> None:
        rounds: list[int] = []
        works = [asyncio.create_task(work(rounds, [0])) for _ in range(3)]
        while len(rounds) < 4:
            await asyncio.sleep(0)
        asyncio.get_running_loop().stop()
        await asyncio.gather(*works)

    loop = asyncio.new_event_loop()
    ending = loop.create_task(ended_early())
    loop.run_forever()
    assert len(asyncio.run(rounds_of_slices())) == (WORKS + 1) * SLICES
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.gather(ending, return_exceptions=True))
    loop.close()


def test_a_cancelled_waiter_delays_no_other() -> None:
    async def given_up() -> int:
        rounds: list[int] = []
        tasks = [asyncio.create_task(work(rounds, [0])) for _ in range(3)]
        while len(rounds) < 4:
            await asyncio.sleep(0)
        tasks[0].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return len([task for task in tasks if not task.cancelled()])

    assert asyncio.run(given_up()) == 2
