"""The session, the node and the channel beside Spark that the tests of the connector have, and the command line.

Not here: jobs that are killed, or run elsewhere; those are processes of their own.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.conftest import broker, node, queue, spark, url
from tests.support.postgres import Postgres
from warren.pipeline import session
from warren.pipeline.folder import Folder

__all__ = ["broker", "lake", "node", "queue", "spark", "url"]


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    server = Postgres()
    yield server
    server.stop()


@pytest.fixture
def lake(tmp_path: Path) -> Folder:
    """A folder that does not exist yet."""
    return Folder(str(tmp_path / "lake"))


@pytest.fixture
def shared(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """The session of all tests, which commands have in place of one of their own."""
    monkeypatch.setattr(session, "start", lambda *_: spark)
    monkeypatch.setattr(session, "stop", lambda _: None)
    return spark
