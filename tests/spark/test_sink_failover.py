"""The master of a mirrored queue is killed while Spark writes to it: every row is there, and none twice."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.cluster.mirrored import await_another_master, await_in_sync, standing
from tests.cluster.trio import Trio
from tests.spark.test_stream_failover import url_of
from tests.support.deadlines import eventually
from tests.support.queue_contents import taken
from warren.client import blocking

QUEUE = "orders"
ROWS = 20_000
TASKS = 2
BATCH_ROWS = 500
FIRST_BATCHES = 4

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    made = Trio(tmp_path_factory.mktemp("failover"))
    yield made
    made.destroy()


def test_a_batch_arrives_once_though_the_master_is_killed_in_its_midst(
    spark: SparkSession, trio: Trio, folder: Path
) -> None:
    with blocking.connect(url_of(list(trio.nodes))) as connection:
        connection.channel().declare_queue(QUEUE, durable=True, arguments={"x-ha-mode": "all"})
    await_in_sync(trio, [QUEUE])
    master = next(node for node in trio.nodes if node.name == standing(trio, QUEUE).master)
    others = [node for node in trio.nodes if node is not master]
    gate = folder / "gate"

    def pass_on(batches: Iterator[Any]) -> Iterator[Any]:
        for number, batch in enumerate(batches):
            while number >= FIRST_BATCHES and not gate.exists():
                time.sleep(0.01)
            yield batch

    def write() -> None:
        # without this the session is not active in this thread, and Spark finds no source
        spark.createDataFrame([], "body string")
        rows = spark.range(0, ROWS, 1, TASKS).selectExpr("lpad(cast(id as string), 1024, '0') body")
        passed = rows.mapInArrow(pass_on, "body string")
        url = url_of([master, *others])
        passed.write.format("warren").mode("append").options(url=url, routingKey=QUEUE).save()

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(BATCH_ROWS))
    writing = threading.Thread(target=write, daemon=True)
    writing.start()
    try:
        with blocking.connect(url_of(others)) as connection:
            channel = connection.channel()
            half = TASKS * FIRST_BATCHES * BATCH_ROWS
            eventually(
                lambda: channel.declare_queue(QUEUE, passive=True).messages >= half // 2, "rows arrive", deadline_s=200
            )
            # the rest begins to flow
            gate.touch()
            eventually(lambda: channel.declare_queue(QUEUE, passive=True).messages > half, "more rows arrive")
            master.kill()
            assert writing.is_alive()
        await_another_master(trio, [QUEUE], master)
        writing.join(200)
        assert not writing.is_alive(), "it never ends"
    finally:
        gate.touch()
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    with blocking.connect(url_of(others)) as connection:
        found = taken(connection.channel(), QUEUE, ROWS)
    assert sorted(int(each.body) for each in found) == list(range(ROWS))
