"""Mirrored streams: readers at every master, and the backfill of joining mirrors."""

from tests.simulation.cluster.mirrored import AUTOMATIC, in_sync, masters, replica_of, set_policy
from tests.simulation.cluster.scenario import ClusterScenario
from tests.simulation.cluster.streams import Streams
from warren.broker.replication.stream_contents import StreamContents
from warren.sim.cluster.nodes import SimulatedClusterNode
from warren.wire.field_tables import Table

LARGE = 100_000
"""Eleven such messages fill a chunk."""


def copy_of(node: SimulatedClusterNode) -> StreamContents:
    replica = replica_of(node, "log")
    assert replica is not None
    assert isinstance(replica.contents, StreamContents)
    return replica.contents


def archived(node: SimulatedClusterNode) -> int:
    return int(copy_of(node).catalog.end())


def first_archived(node: SimulatedClusterNode) -> int:
    catalog = copy_of(node).catalog
    return 0 if catalog.empty() else int(catalog.first())


def test_a_mirrored_stream_is_written_and_read_from_every_node() -> None:
    scenario = ClusterScenario()
    streams = Streams(scenario)
    streams.mirror(scenario.nodes[0])
    readers = [streams.reader(node) for node in scenario.nodes]
    for node in scenario.nodes:
        streams.write(streams.writer(node), 30)
    for reader in readers:
        streams.has_read(reader, range(90))
    streams.book.check_whole()


def test_every_member_archives_committed_messages() -> None:
    scenario = ClusterScenario()
    one = scenario.nodes[0]
    streams = Streams(scenario)
    streams.mirror(one)
    streams.write(streams.writer(one), 60, LARGE)
    scenario.until(lambda: all(archived(node) > 40 for node in scenario.nodes))
    scenario.elapse(500)
    assert all(copy_of(node).count() == 60 for node in scenario.nodes)
    for node in scenario.nodes:
        streams.has_read(streams.reader(node), range(60))
    streams.book.check_whole()


def test_every_member_makes_files_as_small_as_a_policy_says() -> None:
    scenario = ClusterScenario()
    one = scenario.nodes[0]
    streams = Streams(scenario)
    streams.mirror(one)
    writer = streams.writer(one)
    streams.write(writer, 30, LARGE)
    set_policy(scenario, {"stream-max-segment-size-bytes": 1_000_000, "max-length-bytes": 3_000_000})
    streams.write(writer, 100, LARGE)
    kept = [copy_of(node).catalog for node in scenario.nodes]
    scenario.until(lambda: all(catalog.end() > 110 and catalog.size_bytes < 6_000_000 for catalog in kept))


def test_readers_go_on_at_the_next_master_behind_what_they_saw() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    streams = Streams(scenario)
    streams.mirror(one)
    writer = streams.writer(two)
    streams.write(writer, 30, LARGE)
    whole, some, fresh = streams.reader(two), streams.reader(three, 12), streams.reader(three, "next")
    streams.has_read(whole, range(30))
    streams.has_read(some, range(12, 30))
    one.kill(20_000)
    streams.write(writer, 30, LARGE)
    streams.has_read(whole, range(60))
    streams.has_read(some, range(12, 60))
    streams.has_read(fresh, range(30, 60))
    assert masters(scenario, "log") in (["two"], ["three"])
    streams.book.check_whole()


def test_a_member_that_comes_back_gets_what_it_lacks_and_archives_it() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    streams = Streams(scenario)
    streams.mirror(one)
    writer = streams.writer(one)
    streams.write(writer, 30, LARGE)
    three.kill(5_000)
    streams.write(writer, 60, LARGE)
    scenario.until(lambda: in_sync(one, "log") == ["one", "three", "two"])
    scenario.until(lambda: archived(three) > 60)
    assert copy_of(three).count() == 90
    one.kill(60_000)
    two.kill(60_000)
    streams.has_read(streams.reader(three), range(90))
    streams.book.check_whole()


def test_an_old_master_that_comes_back_drops_uncommitted_messages() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    streams = Streams(scenario)
    streams.mirror(one)
    streams.write(streams.writer(two), 10)
    lost = streams.writer(one)
    scenario.isolate(one)
    lost.write(5)
    scenario.elapse(20)
    assert copy_of(one).count() == 15
    one.kill(20_000)
    scenario.until(lambda: masters(scenario, "log") in (["two"], ["three"]))
    scenario.isolate(one, False)
    streams.write(streams.writer(three), 10)
    scenario.until(lambda: in_sync(two, "log") == ["one", "three", "two"])
    streams.has_read(streams.reader(one), range(20))
    assert copy_of(one).count() == 20
    streams.book.check_whole()


def test_a_stream_survives_that_all_nodes_stop_at_once() -> None:
    scenario = ClusterScenario()
    streams = Streams(scenario)
    streams.mirror(scenario.nodes[0])
    writer = streams.writer(scenario.nodes[1])
    streams.write(writer, 40, LARGE)
    for node in scenario.nodes:
        node.kill(1_000)
    scenario.until(lambda: len(in_sync(scenario.nodes[0], "log")) == 3)
    scenario.until(lambda: writer.channel_open)
    scenario.until(lambda: masters(scenario, "log") != [])
    streams.write(writer, 20, LARGE)
    for node in scenario.nodes:
        streams.has_read(streams.reader(node), range(60))
    streams.book.check_whole()


def test_a_stream_that_becomes_mirrored_keeps_its_readers_and_all_it_has() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    streams = Streams(scenario)
    streams.declare(one)
    writer = streams.writer(two)
    streams.write(writer, 30, LARGE)
    readers = [streams.reader(node) for node in scenario.nodes]
    some, fresh = streams.reader(two, 12), streams.reader(three, "next")
    for reader in readers:
        streams.has_read(reader, range(30))
    writer.write(5, LARGE)
    set_policy(scenario, AUTOMATIC)
    scenario.until(lambda: in_sync(one, "log") == ["one", "three", "two"])
    streams.write(writer, 25, LARGE)
    for reader in readers:
        streams.has_read(reader, range(60))
    streams.has_read(fresh, range(30, 60))
    scenario.until(lambda: all(archived(node) > 40 for node in scenario.nodes))
    one.kill(60_000)
    streams.write(writer, 20, LARGE)
    for reader in readers[1:]:
        streams.has_read(reader, range(80))
    streams.has_read(some, range(12, 80))
    streams.has_read(fresh, range(30, 80))
    streams.book.check_whole()


def test_a_master_that_moves_hands_its_readers_over() -> None:
    scenario = ClusterScenario()
    one, two, _three = scenario.nodes
    streams = Streams(scenario)
    streams.mirror(one)
    writer = streams.writer(two)
    streams.write(writer, 30, LARGE)
    readers = [streams.reader(node) for node in scenario.nodes]
    for reader in readers:
        streams.has_read(reader, range(30))
    writer.write(40, LARGE)
    set_policy(scenario, {"ha-mode": "nodes", "ha-params": ["two", "three"]})
    scenario.until(lambda: masters(scenario, "log") in (["two"], ["three"]))
    scenario.until(writer.done)
    for reader in readers:
        streams.has_read(reader, range(70))
    scenario.until(lambda: replica_of(one, "log") is None)
    streams.write(writer, 10)
    for reader in readers:
        streams.has_read(reader, range(80))
    assert writer.refused == 0
    streams.book.check_whole()


def test_messages_beyond_the_limit_are_dropped_on_every_node() -> None:
    scenario = ClusterScenario()
    one, _two, three = scenario.nodes
    limits: Table = {"x-max-length-bytes": 4_000_000, "x-stream-max-segment-size-bytes": 1_000_000}
    streams = Streams(scenario)
    streams.mirror(one, limits)
    writer = streams.writer(one)
    streams.write(writer, 200, LARGE)
    scenario.until(lambda: all(first_archived(node) > 100 for node in scenario.nodes))
    # a returning member gets only the existing messages
    three.kill(2_000)
    streams.write(writer, 100, LARGE)
    scenario.until(lambda: in_sync(one, "log") == ["one", "three", "two"])
    one.kill(60_000)
    reader = streams.reader(three)
    scenario.until(lambda: reader.offsets != [] and reader.offsets[-1] == 299)
    assert reader.offsets == list(range(reader.offsets[0], 300))
    assert reader.offsets[0] > 200
    streams.write(streams.writer(three), 10)
    scenario.until(lambda: reader.offsets[-1] == 309)


def test_an_incomplete_mirror_that_is_promoted_makes_the_others_start_again() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    streams = Streams(scenario)
    streams.declare(one)
    set_policy(scenario, {"ha-mode": "all", "ha-promote-on-failure": "always"})
    scenario.until(lambda: in_sync(one, "log") == ["one", "three", "two"])
    writer = streams.writer(one)
    streams.write(writer, 20, LARGE)
    three.kill(5_000)
    streams.write(writer, 60, LARGE)
    scenario.until(lambda: archived(one) > 60 and archived(two) > 40)
    for node in (one, two):
        node.kill(60_000)
    scenario.until(lambda: masters(scenario, "log") == ["three"])
    late = Streams(scenario)
    late.write(late.writer(three), 5)
    scenario.until(lambda: in_sync(three, "log") == ["one", "three", "two"])
    assert copy_of(one).count() == copy_of(two).count() == copy_of(three).count() == 25
    late.has_read(late.reader(one), range(25))
