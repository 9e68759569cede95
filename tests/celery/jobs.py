"""The application under test: tasks that leave a line in a file for everything they do.

Loaded by the worker process (`celery -A tests.celery.jobs`), which takes the broker, the queue and the folder of the
traces from its environment. The tests send to it by the names of its tasks, as another service would.

Invariant: a line is appended with one write, so lines of tasks that run at the same time do not mix, and a line that
was written survives the kill of its worker.

Not here: starting and killing workers (`worker_process.py`).
"""

import os
import time
from pathlib import Path
from typing import Any

from celery import Celery

BROKER = "WARREN_CELERY_BROKER"
QUEUE = "WARREN_CELERY_QUEUE"
TRACES = "WARREN_CELERY_TRACES"

app = Celery("jobs", broker=os.environ.get(BROKER, "amqp://127.0.0.1:1//"), backend="rpc://")
app.conf.update(
    task_default_queue=os.environ.get(QUEUE, "jobs"),
    worker_prefetch_multiplier=4,
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
)


def leave_trace(name: str, line: str) -> None:
    with open(Path(os.environ[TRACES], name), "ab", buffering=0) as trace:
        trace.write(f"{line}\n".encode())


def traces(folder: Path, name: str) -> list[str]:
    try:
        return (folder / name).read_text().splitlines()
    except FileNotFoundError:
        return []


@app.task(name="add")
def add(left: int, right: int) -> int:
    return left + right


@app.task(name="refuse")
def refuse(reason: str) -> None:
    raise ValueError(reason)


@app.task(name="succeed_at", bind=True, max_retries=5)
def succeed_at(self: Any, attempt: int) -> int:
    """Fails until it is tried for the given time, counted from 0."""
    retries: int = self.request.retries
    leave_trace("attempts", str(retries))
    if retries < attempt:
        raise self.retry(countdown=0.1)
    return retries


@app.task(name="note_time")
def note_time(label: str) -> float:
    now = time.time()
    leave_trace("times", f"{label} {now}")
    return now


@app.task(name="work_behind_gate", bind=True, acks_late=True, reject_on_worker_lost=True)
def work_behind_gate(self: Any, number: int) -> None:
    """Acknowledged only when done, and done only once the file `gate` exists."""
    redelivered = bool(self.request.delivery_info["redelivered"])
    leave_trace("started", f"{number} {redelivered}")
    while not Path(os.environ[TRACES], "gate").exists():
        time.sleep(0.01)
    leave_trace("done", str(number))
