"""A member loses its files of a stream while it is down."""

import pytest

from tests.simulation.cluster.mirrored import in_sync, masters, replica_of
from tests.simulation.cluster.scenario import ClusterScenario
from tests.simulation.cluster.streams import Streams
from warren.broker.replication.stream_contents import StreamContents
from warren.sim.cluster.nodes import SimulatedClusterNode

LARGE = 100_000
"""Eleven such messages fill a chunk."""

SEGMENTS = {"x-stream-max-segment-size-bytes": 2_000_000}
ALL_NODES = ["one", "three", "two"]


def copy_of(node: SimulatedClusterNode) -> StreamContents:
    replica = replica_of(node, "log")
    assert replica is not None
    assert isinstance(replica.contents, StreamContents)
    return replica.contents


def filled(scenario: ClusterScenario, count: int = 60) -> Streams:
    """A stream on all nodes, which have most of it in files."""
    streams = Streams(scenario)
    streams.mirror(scenario.nodes[0], SEGMENTS)
    streams.write(streams.writer(scenario.nodes[0]), count, LARGE)
    scenario.until(lambda: all(copy_of(node).catalog.end() > 40 for node in scenario.nodes))
    return streams


def lose_files(node: SimulatedClusterNode, kept: int = 0) -> None:
    """All but the first few."""
    directory = node.disk.archives.directory
    names = sorted(directory.names())
    assert len(names) > kept
    for name in names[kept:]:
        directory.unlink(name)
    directory.sync()


def spoil_first_file(node: SimulatedClusterNode) -> None:
    directory = node.disk.archives.directory
    file = directory.find(min(directory.names()))
    assert file is not None
    file.write(0, b"spoilt")
    file.flush()


def told(node: SimulatedClusterNode, event: str) -> list[str]:
    """The reasons of this event in the replica history."""
    replica = replica_of(node, "log")
    assert replica is not None
    return [str(one.facts["reason"]) for one in replica.history.events if one.name == event]


@pytest.mark.parametrize("kept", [0, 1])
def test_a_member_that_lost_its_files_gets_them_from_the_master(kept: int) -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    streams = filled(scenario)
    three.kill(5_000)
    lose_files(three, kept)
    streams.write(streams.writer(one), 5)
    scenario.until(lambda: in_sync(one, "log") == ALL_NODES)
    assert len(told(three, "mirror.lost_files")) == 1
    assert copy_of(three).count() == 65
    for node in (one, two):
        node.kill(60_000)
    streams.has_read(streams.reader(three), range(65))
    streams.book.check_whole()


@pytest.mark.parametrize("losing", [0, 1])
def test_after_a_full_stop_a_member_that_lost_its_files_is_not_promoted(losing: int) -> None:
    scenario = ClusterScenario()
    streams = filled(scenario)
    for node in scenario.nodes:
        node.kill(1_000)
    lost = scenario.nodes[losing]
    lose_files(lost)
    scenario.until(lambda: masters(scenario, "log") not in ([], [lost.name]))
    scenario.until(lambda: in_sync(scenario.nodes[2], "log") == ALL_NODES)
    assert copy_of(lost).count() == 60
    streams.has_read(streams.reader(lost), range(60))
    streams.book.check_whole()


def test_the_only_complete_member_reports_its_lost_files_and_waits() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    filled(scenario)
    for node in (two, three):
        node.kill(200_000)
    scenario.until(lambda: in_sync(one, "log") == ["one"])
    end = int(copy_of(one).catalog.end())
    one.kill(1_000)
    lose_files(one)
    scenario.until(lambda: one.up and replica_of(one, "log") is not None)
    scenario.elapse(10_000)
    reason = f"the files of the stream are missing, and had everything up to offset {end - 1}"
    assert told(one, "mirror.damaged") == [reason]
    assert masters(scenario, "log") == []


def test_a_member_with_unreadable_files_starts_empty_when_another_is_master() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    streams = filled(scenario)
    three.kill(5_000)
    spoil_first_file(three)
    scenario.until(lambda: in_sync(one, "log") == ["one", "two"])
    scenario.until(lambda: in_sync(one, "log") == ALL_NODES)
    assert copy_of(three).count() == 60
    for node in (one, two):
        node.kill(60_000)
    streams.has_read(streams.reader(three), range(60))
    streams.book.check_whole()


def test_a_master_notices_the_loss_of_files_that_it_wrote() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    streams = filled(scenario)
    one.kill(5_000)
    lose_files(one, 1)
    scenario.until(lambda: masters(scenario, "log") in (["two"], ["three"]))
    scenario.until(lambda: in_sync(two, "log") == ALL_NODES)
    assert copy_of(one).count() == 60
    for node in (two, three):
        node.kill(60_000)
    streams.has_read(streams.reader(one), range(60))
    streams.book.check_whole()
