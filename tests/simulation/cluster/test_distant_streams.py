"""Streams of one node, and clients of others."""

from tests.simulation.cluster.scenario import ClusterScenario
from tests.simulation.cluster.streams import Streams


def test_a_stream_is_written_and_read_from_every_node() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    streams = Streams(scenario)
    streams.declare(one)
    readers = [streams.reader(node) for node in scenario.nodes]
    for node in (two, three):
        streams.write(streams.writer(node), 50)
    for reader in readers:
        streams.has_read(reader, range(100))
    streams.book.check_whole()


def test_a_reader_of_another_node_begins_where_it_wants_to() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    streams = Streams(scenario)
    streams.declare(one)
    writer = streams.writer(one)
    streams.write(writer, 20)
    streams.has_read(streams.reader(two, 7), range(7, 20))
    streams.has_read(streams.reader(three, "last"), range(19, 20))
    fresh = streams.reader(two, "next")
    scenario.elapse(100)
    streams.write(writer, 5)
    streams.has_read(fresh, range(20, 25))
