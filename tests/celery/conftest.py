"""A broker, a queue and a folder of traces for each test, and the workers it starts."""

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from tests.celery import jobs
from tests.celery.worker_process import WorkerProcess
from tests.support.node_process import NodeProcess

StartWorker = Callable[[], WorkerProcess]


@pytest.fixture(scope="session")
def broker_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """WARREN_TEST_AMQP=HOST:PORT names a running broker; otherwise a node is started."""
    given = os.environ.get("WARREN_TEST_AMQP")
    if given:
        yield f"amqp://guest:guest@{given}//"
        return
    node = NodeProcess(tmp_path_factory.mktemp("node"))
    try:
        host, port = node.amqp
        yield f"amqp://guest:guest@{host}:{port}//"
    except BaseException:
        node.kill()
        raise
    node.stop()


@pytest.fixture
def queue() -> str:
    return f"celery-{uuid.uuid4().hex}"


@pytest.fixture
def app(broker_url: str, queue: str) -> Iterator[Any]:
    """A client of the application, which knows its tasks by name alone; the queue is gone afterwards."""
    client = Celery("client", broker=broker_url, backend="rpc://", set_as_current=False)
    client.conf.task_default_queue = queue
    yield client
    with client.connection_for_write() as connection:
        connection.default_channel.queue_delete(queue)
        connection.default_channel.exchange_delete(queue)
    with contextlib.suppress(AttributeError):
        # A client that asked for no result has no consumer of results to stop, and says so like this.
        client.backend.result_consumer.stop()
    client.close()


@pytest.fixture
def start_worker(app: Any, broker_url: str, queue: str, tmp_path: Path) -> Iterator[StartWorker]:
    started: list[WorkerProcess] = []
    environment = {jobs.BROKER: broker_url, jobs.QUEUE: queue, jobs.TRACES: str(tmp_path)}

    def start() -> WorkerProcess:
        name = f"worker-{len(started)}-{queue}"
        started.append(WorkerProcess(environment, tmp_path / f"{name}.log", name))
        started[-1].wait_until_ready()
        return started[-1]

    yield start
    for worker in started:
        worker.stop()


@pytest.fixture
def worker(start_worker: StartWorker) -> WorkerProcess:
    return start_worker()
