"""What counts as slow: work of the processor, not waiting for it."""

import asyncio

import pytest

from tests.unit.admin.stepped_clocks import SteppedClocks
from warren.admin import loop_holds
from warren.admin.loop_holds import LoopHolds, in_measured_steps


class Lines:
    """A log that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[dict[str, object]] = []

    def warning(self, event: str, **fields: object) -> None:
        self.lines.append({"event": event, **fields})


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> SteppedClocks:
    stepped = SteppedClocks()
    stepped.replace(monkeypatch, loop_holds)
    return stepped


def named(name: str) -> dict[str, object]:
    return {"name": name}


def hold(holds: LoopHolds, clocks: SteppedClocks, work_s: float, wait_s: float = 0.0) -> None:
    started, cpu_started = clocks.perf_counter(), clocks.thread_time()
    clocks.work(work_s)
    clocks.wait(wait_s)
    if clocks.perf_counter() - started > holds.short_s:
        holds.ended(started, cpu_started, clocks.perf_counter(), named, "it")


def test_work_is_slow_by_the_processor_time_that_it_used(clocks: SteppedClocks) -> None:
    log = Lines()
    holds = LoopHolds("turn.slow", log)
    hold(holds, clocks, work_s=0.04, wait_s=0.2)
    assert (holds.slow_count, log.lines) == (0, [])
    hold(holds, clocks, work_s=0.06, wait_s=0.1)
    assert holds.slow_count == 1
    assert log.lines == [{"event": "turn.slow", "ms": 160, "cpu_ms": 60, "name": "it", "skipped": 0}]
    assert (round(holds.longest_s, 6), round(holds.longest_cpu_s, 6)) == (0.24, 0.06)


def test_the_longest_of_both_clocks_are_kept_apart(clocks: SteppedClocks) -> None:
    holds = LoopHolds("turn.slow", Lines())
    hold(holds, clocks, work_s=0.001, wait_s=0.5)
    hold(holds, clocks, work_s=0.03)
    assert (round(holds.longest_s, 6), round(holds.longest_cpu_s, 6)) == (0.501, 0.03)


def test_work_that_stalls_is_logged_and_not_counted(clocks: SteppedClocks) -> None:
    log = Lines()
    holds = LoopHolds("turn.slow", log)
    hold(holds, clocks, work_s=0.001, wait_s=1.5)
    assert (holds.slow_count, len(log.lines)) == (0, 1)


def test_one_line_a_second_says_how_many_it_skipped(clocks: SteppedClocks) -> None:
    log = Lines()
    holds = LoopHolds("turn.slow", log)
    for _ in range(3):
        hold(holds, clocks, work_s=0.1)
    clocks.wait(1.0)
    hold(holds, clocks, work_s=0.1)
    assert [line["skipped"] for line in log.lines] == [0, 2]
    assert holds.slow_count == 4


def test_each_step_of_a_coroutine_is_measured_and_waiting_is_not(clocks: SteppedClocks) -> None:
    log = Lines()
    holds = LoopHolds("request.slow", log)

    async def request() -> None:
        for _ in range(2):
            clocks.work(0.03)
            await asyncio.sleep(0)
        clocks.work(0.07)

    async def conversation() -> None:
        await in_measured_steps(request(), holds, named, "it")

    asyncio.run(conversation())
    assert (holds.slow_count, [line["cpu_ms"] for line in log.lines]) == (1, [70])


def test_a_measured_coroutine_is_cancelled_and_raises_as_without(clocks: SteppedClocks) -> None:
    holds = LoopHolds("request.slow", Lines())
    ended: list[str] = []

    async def request(fails: bool) -> None:
        try:
            await asyncio.sleep(0 if fails else 3600)
            raise ValueError("wrong")
        finally:
            ended.append("yes")

    async def conversation() -> None:
        with pytest.raises(ValueError, match="wrong"):
            await in_measured_steps(request(fails=True), holds, named, "it")
        async with asyncio.timeout(30):
            waiting = asyncio.ensure_future(in_measured_steps(request(fails=False), holds, named, "it"))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(conversation())
    assert ended == ["yes", "yes"]
