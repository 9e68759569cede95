"""Names that a real node generates are unique: they differ from those of other nodes and of its earlier runs."""

from pathlib import Path

from tests.support.amqp_client import Connection
from tests.support.node_process import NodeProcess


def first_generated_name(data: Path) -> str:
    node = NodeProcess(data)
    try:
        connection = Connection.opened(node.amqp)
        declared = connection.channel().call("queue.declare", exclusive=True)
        connection.close()
    finally:
        node.stop()
    return str(declared.queue)


def test_two_nodes_invent_different_names(tmp_path: Path) -> None:
    assert first_generated_name(tmp_path / "one") != first_generated_name(tmp_path / "other")
