"""A Spark session that all tests of a process share, and a node for each module.

The session is small: two cores, no pages, the simplest garbage collector and compiler of Java. Its tasks run in
processes with the same imports as this one.

Not here: drivers that are killed; those are processes of their own (`driver_process`).
"""

import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.driver_process import SESSION
from tests.support.node_process import NodeProcess
from warren.client import blocking
from warren.spark.java import java_version


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    java_version()
    os.environ.update(SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable)
    builder = SparkSession.Builder().master("local[2, 3]").appName("warren tests")
    for name, value in SESSION.items():
        builder = builder.config(name, value)
    session = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse"))).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    node = NodeProcess(tmp_path_factory.mktemp("node"))
    yield node
    node.stop()


@pytest.fixture(scope="module")
def url(node: NodeProcess) -> str:
    return f"amqp://guest:guest@{node.amqp[0]}:{node.amqp[1]}/%2F"


@pytest.fixture
def broker(url: str) -> Iterator[blocking.Channel]:
    """A channel beside Spark, to make queues and look into them."""
    with blocking.connect(url) as connection:
        yield connection.channel(confirms=True)


@pytest.fixture
def queue(broker: blocking.Channel) -> str:
    return broker.declare_queue(f"queue-{uuid.uuid4().hex[:8]}", durable=True).name


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for checkpoints and staged files."""
    return tmp_path
