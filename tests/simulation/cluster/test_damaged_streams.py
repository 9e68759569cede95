"""A member of a ring that finds, while it runs, that something it holds of a stream cannot be read."""

import pytest

from tests.simulation.cluster.mirrored import in_sync, masters
from tests.simulation.cluster.scenario import ClusterScenario
from tests.simulation.cluster.streams import StreamReader, Streams
from tests.simulation.cluster.test_lost_streams import EVERYBODY, LARGE, copy_of, filled, told
from warren.sim.cluster.member import Member
from warren.wire.values import Table


def spoil_a_chunk(node: Member) -> None:
    """The first one; its head stays as it is."""
    directory = node.disk.archives.directory
    file = directory.find(min(directory.names()))
    assert file is not None
    file.write(LARGE, b"spoilt")
    file.flush()


def test_a_master_that_cannot_read_its_files_lets_another_serve_and_begins_with_nothing() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    streams = filled(scenario)
    spoil_a_chunk(one)
    reader = streams.reader(one)
    streams.has_read(reader, range(60))
    assert not reader.cancelled
    assert masters(scenario, "log") in (["two"], ["three"])
    scenario.until(lambda: in_sync(two, "log") == EVERYBODY)
    assert told(one, "mirror.damaged") == ["a chunk is damaged: segment 1 of the stream at byte 0"]
    streams.write(streams.writer(three), 5)
    for node in (two, three):
        node.kill(60_000)
    streams.has_read(streams.reader(one), range(65))
    streams.book.check_whole()


def test_a_newcomer_gets_from_another_what_its_master_cannot_read() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    streams = filled(scenario)
    three.kill(5_000)
    for name in list(three.disk.archives.directory.names()):
        three.disk.archives.directory.unlink(name)
    three.disk.archives.directory.sync()
    scenario.until(lambda: in_sync(one, "log") == ["one", "two"])
    spoil_a_chunk(one)
    scenario.until(lambda: masters(scenario, "log") == ["two"])
    scenario.until(lambda: in_sync(two, "log") == EVERYBODY)
    for node in (two, three):
        assert copy_of(node).count() == 60
    streams.has_read(streams.reader(one), range(60))


def test_the_only_one_that_has_everything_goes_on_and_ends_those_who_want_what_it_cannot_read() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    streams = filled(scenario)
    for node in (two, three):
        node.kill(200_000)
    scenario.until(lambda: in_sync(one, "log") == ["one"])
    spoil_a_chunk(one)
    reader = streams.reader(one)
    with pytest.raises(AssertionError, match=r"stream\.damaged"):
        scenario.until(lambda: reader.cancelled)
    scenario.checkers.complaints.clear()
    scenario.until(lambda: reader.cancelled)
    streams.write(streams.writer(one), 5)
    streams.has_read(streams.reader(one, 40), range(40, 65))


@pytest.mark.parametrize("arguments", [{}, {"x-ha-mode": "exactly", "x-ha-params": 1}])
def test_a_client_of_another_node_is_told_that_it_cannot_go_on(arguments: Table) -> None:
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


def test_a_mirror_whose_journal_cannot_be_read_drops_out_and_begins_with_nothing() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    streams = filled(scenario)
    before = copy_of(three)
    before.archivist.past_failed("a record is damaged")
    scenario.until(lambda: in_sync(one, "log") == ["one", "two"])
    scenario.until(lambda: in_sync(one, "log") == EVERYBODY)
    assert told(three, "mirror.damaged") == ["a record is damaged"]
    assert copy_of(three) is not before
    streams.write(streams.writer(three), 30, LARGE)
    for node in (one, two):
        node.kill(60_000)
    streams.has_read(streams.reader(three), range(90))
    streams.book.check_whole()
