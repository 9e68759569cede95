"""Waiting with a deadline: for a condition, in a thread (`eventually`) or in an event loop (`until`), and for a
coroutine to end (`run`, and `in_event_loop` for a test that is one)."""

import asyncio
import functools
import inspect
import time
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

DEADLINE_S = 60.0
PATIENCE_S = 90.0
LOOK_EVERY_S = 0.05
LOOK_OFTEN_S = 0.01
SCENARIO_S = 400.0

P = ParamSpec("P")
T = TypeVar("T")


def eventually(
    condition: Callable[[], object],
    claim: str | Callable[[], object] = "the condition holds",
    deadline_s: float = PATIENCE_S,
    pause_s: float = LOOK_EVERY_S,
) -> float:
    """Wait until a condition holds; the seconds that took. After the deadline the test fails: `claim` names the
    condition, or is a function that describes the state found instead."""
    start = time.monotonic()
    while not condition():
        late = time.monotonic() >= start + deadline_s
        assert not late, claim() if callable(claim) else f"within {deadline_s:g} s it never happened: {claim}"
        time.sleep(pause_s)
    return time.monotonic() - start


async def until(condition: Callable[[], object], deadline_s: float = PATIENCE_S, pause_s: float = LOOK_OFTEN_S) -> None:
    """Wait until a condition holds, or a coroutine that it returns answers that it does."""
    async with asyncio.timeout(deadline_s):
        while True:
            holds = condition()
            if await holds if inspect.isawaitable(holds) else holds:
                return
            await asyncio.sleep(pause_s)


def run(scenario: Coroutine[Any, Any, T], deadline_s: float = SCENARIO_S) -> T:
    """Run a coroutine in an event loop of its own."""

    async def within() -> T:
        async with asyncio.timeout(deadline_s):
            return await scenario

    return asyncio.run(within())


def in_event_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Make a test of a coroutine function."""

    @functools.wraps(test)
    def run_test(*arguments: P.args, **named: P.kwargs) -> None:
        run(test(*arguments, **named))

    return run_test
