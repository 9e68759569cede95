"""A running member finds that a chunk of its stream cannot be read."""

import pytest

from tests.simulation.cluster.mirrored import in_sync, masters
from tests.simulation.cluster.scenario import ClusterScenario
from tests.simulation.cluster.streams import StreamReader, Streams
from tests.simulation.cluster.test_lost_streams import ALL_NODES, LARGE, filled
from warren.sim.cluster.nodes import SimulatedClusterNode
from warren.wire.field_tables import Table


def spoil_a_chunk(node: SimulatedClusterNode) -> None:
    """The first one; its head stays as it is."""
    directory = node.disk.archives.directory
    file = directory.find(min(directory.names()))
    assert file is not None
    file.write(LARGE, b"spoilt")
    file.flush()


def test_a_master_with_a_damaged_chunk_goes_on_and_cancels_its_readers() -> None:
    scenario = ClusterScenario()
    one, _two, _three = scenario.nodes
    streams = filled(scenario)
    spoil_a_chunk(one)
    reader = streams.reader(one)
    with pytest.raises(AssertionError, match=r"stream\.damaged"):
        scenario.until(lambda: reader.cancelled)
    scenario.checkers.complaints.clear()
    scenario.until(lambda: reader.cancelled)
    streams.write(streams.writer(one), 5)
    streams.has_read(streams.reader(one, 40), range(40, 65))
    assert (masters(scenario, "log"), in_sync(one, "log")) == (["one"], ALL_NODES)


@pytest.mark.parametrize("arguments", [{}, {"x-ha-mode": "exactly", "x-ha-params": 1}])
def test_a_client_of_another_node_is_refused_when_the_stream_is_damaged(arguments: Table) -> None:
    scenario = ClusterScenario()
    one, two, _three = scenario.nodes
    streams = Streams(scenario)
    streams.declare(one, arguments)
    streams.write(streams.writer(one), 60, LARGE)
    scenario.elapse(500)
    spoil_a_chunk(one)
    reader = StreamReader(scenario.world, "reader", two, streams.book, "log", {"x-stream-offset": "first"})
    with pytest.raises(AssertionError, match=r"stream\.damaged"):
        scenario.until(lambda: reader.cancelled)
    scenario.checkers.complaints.clear()
    scenario.until(lambda: reader.cancelled)
    streams.has_read(streams.reader(two, 40), range(40, 60))
