"""Features that a Celery application uses: results, retries, delayed tasks, and no loss with a killed worker."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import group

from tests.celery.jobs import traces
from tests.celery.worker_process import WorkerProcess
from tests.support.deadlines import eventually

RESULT_LIMIT_S = 60


@pytest.mark.usefixtures("worker")
def test_a_result_comes_back_to_the_caller(app: Any) -> None:
    assert app.send_task("add", (2, 3)).get(timeout=RESULT_LIMIT_S) == 5


@pytest.mark.usefixtures("worker")
def test_a_failure_comes_back_as_the_exception_it_was(app: Any) -> None:
    with pytest.raises(ValueError, match="no such order"):
        app.send_task("refuse", ("no such order",)).get(timeout=RESULT_LIMIT_S)


@pytest.mark.usefixtures("worker")
def test_the_results_of_a_group_come_back_in_the_order_of_its_tasks(app: Any) -> None:
    results = group((app.signature("add", (number, number)) for number in range(50)), app=app).apply_async()
    assert results.get(timeout=RESULT_LIMIT_S) == [2 * number for number in range(50)]


@pytest.mark.usefixtures("worker")
def test_a_task_is_retried_until_it_succeeds(app: Any, tmp_path: Path) -> None:
    assert app.send_task("succeed_at", (3,)).get(timeout=RESULT_LIMIT_S) == 3
    assert traces(tmp_path, "attempts") == ["0", "1", "2", "3"]


@pytest.mark.usefixtures("worker")
def test_a_task_with_a_countdown_runs_once_and_not_before_its_time(app: Any, tmp_path: Path) -> None:
    sent_at = time.time()
    ran_at = app.send_task("note_time", ("later",), countdown=2).get(timeout=RESULT_LIMIT_S)
    assert ran_at - sent_at >= 2
    assert len(traces(tmp_path, "times")) == 1


@pytest.mark.usefixtures("worker")
def test_tasks_with_an_eta_run_in_the_order_of_their_times(app: Any, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    results = [
        app.send_task("note_time", (f"after-{delay_s}",), eta=now + timedelta(seconds=delay_s))
        for delay_s in (10, 6, 2)
    ]
    for result in results:
        result.get(timeout=RESULT_LIMIT_S)
    assert [line.split()[0] for line in traces(tmp_path, "times")] == ["after-2", "after-6", "after-10"]


def test_a_worker_answers_remote_control(app: Any, worker: WorkerProcess) -> None:
    assert app.control.ping(destination=[worker.hostname], timeout=RESULT_LIMIT_S) == [
        {worker.hostname: {"ok": "pong"}}
    ]


def test_no_task_is_lost_with_a_worker_killed_in_the_middle_of_its_tasks(
    app: Any, start_worker: Callable[[], WorkerProcess], tmp_path: Path
) -> None:
    numbers = set(range(40))
    first = start_worker()
    for number in numbers:
        app.send_task("work_behind_gate", (number,), ignore_result=True)
    eventually(lambda: len(traces(tmp_path, "started")) == 2, "both children of the worker were at work")
    interrupted = {int(line.split()[0]) for line in traces(tmp_path, "started")}

    first.kill()
    (tmp_path / "gate").touch()
    start_worker()

    eventually(lambda: {int(line) for line in traces(tmp_path, "done")} == numbers, "every task was done")
    assert len(traces(tmp_path, "done")) == len(numbers), "nothing was finished twice: the gate held until the kill"
    started_again = {int(line.split()[0]) for line in traces(tmp_path, "started")[2:] if line.split()[1] == "True"}
    assert interrupted <= started_again, "what the killed worker had begun came back marked redelivered"


def test_a_task_that_waits_for_its_time_outlives_the_worker_that_held_it(
    app: Any, start_worker: Callable[[], WorkerProcess], tmp_path: Path
) -> None:
    first = start_worker()
    waiting = app.send_task("note_time", ("later",), countdown=6)
    eventually(lambda: first.has_received(waiting.id), "the worker held the task")

    first.kill()
    assert traces(tmp_path, "times") == []
    start_worker()

    waiting.get(timeout=RESULT_LIMIT_S)
    assert [line.split()[0] for line in traces(tmp_path, "times")] == ["later"]
