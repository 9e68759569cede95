"""Loops that fail, return and are cancelled."""

import asyncio

import pytest

from tests.support.deadlines import in_event_loop, until
from warren.admin import background
from warren.admin.background import PAUSE_MAX_S, STEADY_S, BackgroundTasks


class KeptLog:
    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, object]]] = []

    def error(self, event: str, **fields: object) -> None:
        self.lines.append((event, fields))


class Watched:
    """Background tasks on a clock of their own, whose pauses take no time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.log = KeptLog()
        self.tasks = BackgroundTasks(self.log, lambda: self.now)
        self.pauses: list[float] = []
        sleep = asyncio.sleep

        async def pause(delay_s: float) -> None:
            self.pauses.append(delay_s)
            self.now += delay_s
            await sleep(0)

        monkeypatch.setattr(background.asyncio, "sleep", pause)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


def forever() -> "asyncio.Future[None]":
    return asyncio.get_running_loop().create_future()


def test_a_loop_that_fails_is_logged_and_runs_again(watched: Watched) -> None:
    runs: list[int] = []

    async def loop() -> None:
        runs.append(len(runs))
        if len(runs) < 3:
            raise KeyError("gone")
        await forever()

    @in_event_loop
    async def conversation() -> None:
        task = watched.tasks.start("samples", loop)
        await until(lambda: len(runs) == 3, pause_s=0)
        assert [(event, fields["task"], fields["again_in_s"]) for event, fields in watched.log.lines] == [
            ("task.failed", "samples", 1.0),
            ("task.failed", "samples", 2.0),
        ]
        assert isinstance(watched.log.lines[0][1]["exc_info"], KeyError)
        assert [(each.name, each.failures, each.reason) for each in watched.tasks.failing()] == [
            ("samples", 2, "KeyError: 'gone'")
        ]
        watched.now += STEADY_S
        assert watched.tasks.failing() == []
        assert watched.tasks.failures() == 2
        task.cancel()

    conversation()


def test_the_pause_grows_to_its_bound_and_starts_anew_after_a_steady_run(watched: Watched) -> None:
    runs: list[int] = []

    async def loop() -> None:
        runs.append(len(runs))
        if len(runs) == 10:
            watched.now += STEADY_S
        if len(runs) == 11:
            await forever()
        raise OSError("broken")

    @in_event_loop
    async def conversation() -> None:
        task = watched.tasks.start("loop", loop)
        await until(lambda: len(runs) == 11, pause_s=0)
        pauses = [pause for pause in watched.pauses if pause]
        assert pauses == [1, 2, 4, 8, 16, 32, PAUSE_MAX_S, PAUSE_MAX_S, PAUSE_MAX_S, 1]
        task.cancel()

    conversation()


def test_a_call_that_fails_is_made_again_and_a_cancelled_loop_is_not(watched: Watched) -> None:
    calls: list[int] = []

    def call() -> None:
        calls.append(len(calls))
        if len(calls) == 1:
            raise ValueError("once")

    @in_event_loop
    async def conversation() -> None:
        task = watched.tasks.every("measure", 5.0, call)
        await until(lambda: len(calls) == 3, pause_s=0)
        assert len(watched.log.lines) == 1
        task.cancel()
        await asyncio.wait([task.task])
        assert watched.tasks.failing() == []
        assert watched.tasks.failures() == 1

    conversation()
