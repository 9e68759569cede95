"""The audit of a mirrored queue after a kill of its master, with publishers that repeat nothing: no fault is found.

Not here: publishers that repeat unconfirmed messages, and ledgers (`test_demo`).
"""

import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.cluster.mirrored import await_another_master, await_in_sync, mirror_everything
from tests.cluster.trio import Trio
from tests.support.node_process import NodeProcess
from tests.support.operator import Operator
from warren.client import Message, Properties, PublishFailed, blocking
from warren.pipeline.audit import counters
from warren.pipeline.audit.job import Settings, run
from warren.pipeline.folder import Folder
from warren.pipeline.trace import job as trace_job
from warren.pipeline.trace.sources import StreamSource

QUEUE = "mirrored orders"
STREAM = "trace"
BATCH = 25
BATCHES = 12
KILLED_AT = 5
"""The batch that is under way then."""


@pytest.fixture
def trio(tmp_path: Path) -> Iterator[Trio]:
    made = Trio(tmp_path)
    yield made
    made.destroy()


def url_of(node: NodeProcess) -> str:
    return f"amqp://guest:guest@{node.amqp[0]}:{node.amqp[1]}/%2F"


def published(publisher: NodeProcess, master: NodeProcess) -> tuple[int, int]:
    """Publish each message once, and kill the master meanwhile; the counts of published and of confirmed messages."""
    sent = confirmed = 0
    with blocking.connect(url_of(publisher)) as connection:
        channel = connection.channel(confirms=True)
        for batch in range(BATCHES):
            channel.send_many(goods(), routing_key=QUEUE)
            if batch == KILLED_AT:
                # so that some are certainly under way
                master.process.send_signal(signal.SIGSTOP)
            channel.send_many(goods(), routing_key=QUEUE)
            if batch == KILLED_AT:
                assert channel.unconfirmed >= BATCH
                master.kill()
            sent += 2 * BATCH
            try:
                channel.wait_for_confirms()
                confirmed += 2 * BATCH
            except PublishFailed:
                # their outcome is unknown, and they are not published again
                assert batch >= KILLED_AT
    return sent, confirmed


def goods() -> list[Message]:
    return [Message(b"goods", Properties(message_id=uuid.uuid4().hex, delivery_mode=2)) for _ in range(BATCH)]


def consumed(node: NodeProcess) -> int:
    """How many messages there were."""
    taken = 0
    with blocking.connect(url_of(node)) as connection:
        channel = connection.channel()
        while (delivery := channel.get(QUEUE)) is not None:
            channel.ack(delivery)
            taken += 1
        # the answer comes behind the acks
        assert channel.declare_queue(QUEUE, passive=True).messages == 0
    return taken


def await_copies(nodes: list[NodeProcess]) -> None:
    """What a node has copied is in the stream before it has an answer from there."""
    for node in nodes:
        with blocking.connect(url_of(node)) as connection:
            connection.channel().declare_queue(STREAM, passive=True)


@pytest.mark.timeout(600)
def test_nothing_is_lost_duplicated_or_out_of_order_when_a_master_is_killed(
    trio: Trio, spark: SparkSession, tmp_path: Path
) -> None:
    master, keeper, publisher = trio.nodes
    mirror_everything(trio)
    trio.channel(master).call("queue.declare", queue=QUEUE, durable=True)
    await_in_sync(trio, [QUEUE])
    trace = StreamSource(url_of(keeper), STREAM, declare=True)
    trace.prepare()
    for node in trio.nodes:
        Operator(node.addresses["http"]).trace("/", True)
    sent, confirmed = published(publisher, master)
    await_another_master(trio, [QUEUE], master)
    taken = consumed(publisher)
    assert confirmed > (KILLED_AT + 1) * 2 * BATCH
    assert confirmed <= taken <= sent
    await_copies([publisher, keeper])
    host, port = keeper.addresses["http"]
    said = counters.from_broker(f"http://{host}:{port}", "guest", "guest")
    lake = Folder(str(tmp_path / "lake"))
    trace_job.run(spark, trace_job.Settings(lake.uri, stream=trace))
    outcome = run(spark, Settings(lake, said, lake.child("audit"), queues=(QUEUE,)))
    [row] = outcome.queues
    assert (row["published"], row["delivered"], row["acked"]) == (sent, taken, taken)
    assert (row["lost"], row["duplicated"], row["out_of_order"]) == (0, 0, 0), row["findings"]
    assert row["excused"] == sent - taken
    assert outcome.is_well
