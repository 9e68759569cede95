"""Runs of a job that are killed at random points, and the check of the output when one has ended.

An undisturbed run shows how long it takes and how often its visible state changes: a file appears or grows, messages
arrive, a line is printed. A run is killed either after a part of that time, or a moment after a number of changes. The
next one has the folder as the killed one left it. A run that ends is compared, and the next one starts with an empty
folder.

Not here: the jobs (`jobs`).
"""

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

from tests.pipeline.command_process import RUN_S, Command
from tests.pipeline.jobs import Job, Jobs

KILLS = int(os.environ.get("WARREN_DRIVER_KILLS", "3"))
STEP_S = 0.01
MOMENT_S = 0.2
CHANGES = 20
"""The number of visible changes of any micro-batch, from its plan to its end."""
MESSAGES = 1000
"""This number of arriving messages counts as a change."""


class Sight:
    """The visible progress of a job; it only grows."""

    def __init__(self, place: Path, log: Path, arrived: Callable[[], int]) -> None:
        self._place = place
        self._log = log
        self._arrived = arrived
        self._seen: set[tuple[str, int]] = set()

    def changes(self) -> int:
        for folder, _, files in os.walk(self._place):
            self._seen |= {(path, _size(path)) for path in (os.path.join(folder, name) for name in files)}
        self._seen.add((str(self._log), _size(str(self._log))))
        self._seen.add(("messages", self._arrived() // MESSAGES))
        return len(self._seen)


def check_that_kills_change_nothing(job: Job, folder: Path, seed: int) -> None:
    """Kill runs, and compare each that ended with an undisturbed one."""
    places = iter([folder / f"{job.name} {number}" for number in range(KILLS + 2)])
    expected, duration_s, changes = _undisturbed(job, next(places))
    chance = random.Random(seed)
    place, killed = next(places), 0
    for _ in range(KILLS):
        run = _started(job, place)
        if _is_killed(run, job, place, chance, duration_s, changes):
            killed += 1
            continue
        run.finish(job.exit_code, *([0] if job.tells_once else []))
        assert job.left(place) == expected
        place = next(places)
    # the last one may have been killed between its last line and its exit
    _started(job, place).finish(job.exit_code, *([0] if job.tells_once else []))
    assert job.left(place) == expected
    assert killed >= KILLS // 2


def check_that_kills_change_nothing_of_what_runs_on(jobs: Jobs, folder: Path, seed: int) -> None:
    """Kill runs of a continuous trace while more events come; the last run ends with SIGTERM.

    Its output is compared with that of one run that reads everything at once.
    """
    once, chance = jobs.trace(), random.Random(seed)
    job = jobs.trace_on_and_on(once)
    _started(once, folder / "once").finish(once.exit_code)
    place, read = folder / job.name, 0
    for number in range(KILLS):
        jobs.more_is_traced((2 * number + 1) / (2 * KILLS + 1))
        run = _started(job, place)
        sight = Sight(place, _log(place), job.arrived)
        wanted = sight.changes() + chance.randint(CHANGES // 2, CHANGES)
        _await(run, lambda sight=sight, wanted=wanted: sight.changes() >= wanted)  # type: ignore[misc]
        # behind what it has seen when it began
        jobs.more_is_traced((2 * number + 2) / (2 * KILLS + 1))
        time.sleep(chance.uniform(0, 10 * MOMENT_S))
        run.kill()
        read += jobs.events_in(place) > 0
    assert read > 0, "no run came so far as to read anything"
    jobs.more_is_traced(1)
    run, everything = _started(job, place), jobs.events_in(folder / "once")
    _await(run, lambda: jobs.events_in(place) >= everything)
    run.end()
    run.finish(job.exit_code)
    assert job.left(place) == once.left(folder / "once")


def _await(run: Command, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + RUN_S
    while not is_so():
        assert run.runs(), run.log.read_text(errors="replace")[-4000:]
        assert time.monotonic() < deadline, "it never came so far"
        time.sleep(STEP_S)


def _started(job: Job, place: Path) -> Command:
    place.mkdir(exist_ok=True)
    return Command(_log(place), *job.arguments(place))


def _log(place: Path) -> Path:
    """Beside its folder, which is the job's alone."""
    return place.with_suffix(".log")


def _undisturbed(job: Job, place: Path) -> tuple[list[str], float, int]:
    begin = time.monotonic()
    run = _started(job, place)
    sight = Sight(place, _log(place), job.arrived)
    changes = sight.changes()
    while run.runs() and time.monotonic() < begin + RUN_S:
        changes = sight.changes()
        time.sleep(STEP_S)
    run.finish(job.exit_code)
    return job.left(place), time.monotonic() - begin, changes


def _is_killed(run: Command, job: Job, place: Path, chance: random.Random, duration_s: float, changes: int) -> bool:
    """True if it was killed before it ended."""
    sight = Sight(place, _log(place), job.arrived)
    first, deadline = sight.changes(), time.monotonic() + RUN_S
    if chance.random() < 0.5:
        at = time.monotonic() + chance.uniform(0.3, 1.0) * duration_s
        wanted = None
    else:
        at = deadline
        wanted = first + chance.randint(1, max(changes, 2) - 1)
    while run.runs() and time.monotonic() < at and (wanted is None or sight.changes() < wanted):
        time.sleep(STEP_S)
    moment = time.monotonic() + chance.uniform(0, MOMENT_S)
    while run.runs() and time.monotonic() < moment:
        time.sleep(STEP_S)
    if not run.runs():
        return False
    run.kill()
    return True


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return -1
