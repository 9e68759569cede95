"""Every job on a standalone cluster of a master and two workers, and through Spark Connect, has the same output.

Not here: the data sources on a cluster (`tests.spark.test_stream_cluster`).
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.command_process import Command
from tests.pipeline.connect_server import ConnectServer
from tests.pipeline.jobs import Job, Jobs
from tests.spark.standalone import StandaloneCluster
from tests.support.node_process import NodeProcess
from warren.client import blocking

JOBS = ("trace", "audit", "report", "reconcile", "load", "compensate")
EXECUTORS = (
    "spark.executor.memory=512m",
    "spark.executor.cores=1",
    "spark.cores.max=2",
    "spark.scheduler.minRegisteredResourcesRatio=1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime=60s",
)
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def channel(url: str) -> Iterator[blocking.Channel]:
    with blocking.connect(url) as connection:
        yield connection.channel(confirms=True)


class Here:
    """Jobs, and their output on this machine, where each is run once."""

    def __init__(self, folder: Path, jobs: Jobs) -> None:
        self._folder = folder
        self._jobs = jobs
        self._found: dict[str, tuple[Job, list[str]]] = {}

    def done(self, name: str) -> tuple[Job, list[str]]:
        if name not in self._found:
            job: Job = getattr(self._jobs, name)()
            place = self._folder / name
            place.mkdir()
            Command(self._folder / f"{name}.log", *job.arguments(place)).finish(job.exit_code)
            self._found[name] = job, job.left(place)
        return self._found[name]


@pytest.fixture(scope="module")
def here(
    tmp_path_factory: pytest.TempPathFactory,
    spark: SparkSession,
    node: NodeProcess,
    url: str,
    channel: blocking.Channel,
) -> Here:
    inputs = tmp_path_factory.mktemp("inputs")
    return Here(tmp_path_factory.mktemp("here"), Jobs(inputs, spark, node, url, channel))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    with ConnectServer(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.mark.parametrize("name", JOBS)
def test_a_job_on_a_cluster_writes_the_same_tables(
    name: str, here: Here, cluster: StandaloneCluster, tmp_path: Path
) -> None:
    job, expected = here.done(name)
    before = applications(cluster)
    log = tmp_path.with_suffix(".log")
    Command(log, *job.arguments(tmp_path), master=cluster.url, conf=EXECUTORS).finish(job.exit_code)
    assert applications(cluster) == [count + 1 for count in before]
    assert job.left(tmp_path) == expected


def test_a_result_in_a_folder_that_each_machine_has_for_itself_is_refused(
    cluster: StandaloneCluster, tmp_path: Path
) -> None:
    """Drivers and workers run in folders of their own, which stand for disks of their own."""
    (tmp_path / "a.csv").write_text("id\n1\n2\n")
    (tmp_path / "b.csv").write_text("id\n1\n3\n")
    log = tmp_path / "log"
    books = [str(tmp_path / "a.csv"), str(tmp_path / "b.csv"), "--key", "id"]
    words = ["reconcile", *books, "--out", "/proc/self/cwd/found"]
    Command(log, *words, master=cluster.url, conf=EXECUTORS, folder=tmp_path).finish(2)
    assert "warren: Spark wrote 2 rows to /proc/self/cwd/found/unfinished/suspects, and here are 0" in log.read_text()
    assert not (tmp_path / "found").exists()


@pytest.mark.parametrize("name", JOBS)
def test_a_job_through_connect_writes_the_same_tables(
    name: str, here: Here, server: ConnectServer, tmp_path: Path
) -> None:
    job, expected = here.done(name)
    Command(tmp_path.with_suffix(".log"), *job.arguments(tmp_path), master=server.url).finish(job.exit_code)
    assert job.left(tmp_path) == expected


def applications(cluster: StandaloneCluster) -> list[int]:
    """How many each worker has run."""
    return [len(list(folder.glob("app-*"))) for folder in cluster.work_folders()]
