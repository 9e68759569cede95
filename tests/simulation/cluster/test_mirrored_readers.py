"""Readers of a mirrored stream of every kind, and a master that is lost."""

from tests.simulation.cluster.mirrored import masters
from tests.simulation.cluster.scenario import CHANNEL, ClusterScenario
from tests.simulation.cluster.streams import Book, ChunkReader, StreamReader, Streams
from warren.sim.cluster.nodes import SimulatedClusterNode
from warren.sim.cluster.world import ClusterWorld
from warren.wire.field_tables import Table
from warren.wire.method_stream import ReceivedMethod
from warren.wire.methods import BasicAck, BasicDeliver

LARGE = 100_000


class Slow(StreamReader):
    """Acks nothing from some offset on."""

    until = 0

    def __init__(
        self, world: ClusterWorld, name: str, node: SimulatedClusterNode, book: Book, arguments: Table
    ) -> None:
        super().__init__(world, name, node, book, "log", arguments)
        # what it holds
        self.tags: list[int] = []

    def channel_method_received(self, heard: ReceivedMethod) -> None:
        if isinstance(heard.method, BasicDeliver) and len(self.offsets) >= self.until:
            self.tags.append(heard.method.delivery_tag)
        else:
            super().channel_method_received(heard)


def lose_master(scenario: ClusterScenario) -> None:
    """It is node one."""
    one = scenario.nodes[0]
    assert masters(scenario, "log") == ["one"]
    one.kill(1_000_000)
    scenario.until(lambda: masters(scenario, "log") in (["two"], ["three"]))


def test_a_reader_of_chunks_goes_on_with_the_chunk_that_has_the_next_offset() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    streams = Streams(scenario)
    streams.mirror(one)
    writer = streams.writer(two)
    reader = ChunkReader(scenario.world, "chunks", three, "log")
    streams.write(writer, 35, LARGE)
    scenario.until(lambda: reader.end == 35)
    lose_master(scenario)
    streams.write(writer, 35, LARGE)
    scenario.until(lambda: reader.end == 70)
    assert set(reader.book.by_offset.values()) == streams.book.confirmed


def named(scenario: ClusterScenario, streams: Streams) -> Slow:
    """A reader at node three of a stream of twenty messages with its master on node one: eight acked, ten unacked."""
    one, two, three = scenario.nodes
    streams.mirror(one)
    streams.write(streams.writer(two), 20)
    arguments: Table = {"x-stream-offset": "first", "x-stream-consumer-name": "billing"}
    reader = Slow(scenario.world, "slow", three, streams.book, arguments)
    reader.until = 8
    scenario.until(lambda: len(reader.tags) == 10)
    # acks are written after a delay
    scenario.elapse(2_000)
    assert streams.stream(one).stored_offsets() == {"billing": 7}
    return reader


def stored(scenario: ClusterScenario, streams: Streams) -> dict[str, int]:
    leads = next(node for node in scenario.nodes if node.name in masters(scenario, "log"))
    return streams.stream(leads).stored_offsets()


def test_a_reader_with_a_name_gets_again_what_it_had_not_acked_when_the_master_was_lost() -> None:
    scenario = ClusterScenario()
    streams = Streams(scenario)
    reader = named(scenario, streams)
    lose_master(scenario)
    assert stored(scenario, streams) == {"billing": 7}
    reader.until = 1_000
    reader.send(CHANNEL, BasicAck(max(reader.tags), multiple=True))
    scenario.until(lambda: reader.offsets[-1] == 19)
    assert reader.offsets == list(range(20))
    scenario.elapse(2_000)
    assert stored(scenario, streams) == {"billing": 19}


def test_messages_that_a_named_reader_has_not_acked_go_to_the_next_reader_of_that_name() -> None:
    scenario = ClusterScenario()
    streams = Streams(scenario)
    reader = named(scenario, streams)
    lose_master(scenario)
    scenario.elapse(2_000)
    reader.close_channel()
    arguments = {"x-stream-consumer-name": "billing"}
    streams.has_read(streams.reader(scenario.nodes[1], "stored", **arguments), range(8, 20))


def test_a_probe_is_answered_once_by_every_master() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    streams = Streams(scenario)
    streams.mirror(one)
    streams.write(streams.writer(two), 5)
    arguments: Table = {"x-stream-offset": 3, "x-stream-probe": True}
    probe = StreamReader(scenario.world, "probe", three, streams.book, "log", arguments)
    answers: list[ReceivedMethod] = []
    probe.channel_method_received = answers.append  # type: ignore[method-assign]
    scenario.until(lambda: any(isinstance(heard.method, BasicDeliver) for heard in answers))
    lose_master(scenario)
    scenario.elapse(3_000)
    assert len([heard for heard in answers if isinstance(heard.method, BasicDeliver)]) == 1


def test_an_ack_of_what_a_lost_master_delivered_lets_its_reader_go_on() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    streams = Streams(scenario)
    streams.mirror(one)
    writer = streams.writer(two)
    streams.write(writer, 40)
    tags: list[int] = []
    reader = StreamReader(scenario.world, "reader", three, streams.book, "log", {"x-stream-offset": "first"})
    before = reader.channel_method_received
    reader.channel_method_received = lambda heard: tags.append(getattr(heard.method, "delivery_tag", 0))  # type: ignore[method-assign]
    scenario.until(lambda: len([tag for tag in tags if tag]) == 10)
    lose_master(scenario)
    reader.channel_method_received = before  # type: ignore[method-assign]
    reader.send(CHANNEL, BasicAck(max(tags), multiple=True))
    scenario.until(lambda: reader.offsets[-1:] == [39])
    assert reader.offsets == list(range(10, 40))


def test_messages_acked_late_are_delivered_to_the_next_reader() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    streams = Streams(scenario)
    streams.mirror(one)
    streams.write(streams.writer(two), 20)
    early = Slow(scenario.world, "slow", three, streams.book, {"x-stream-offset": "first"})
    scenario.until(lambda: len(early.tags) == 10)
    lose_master(scenario)
    early.until = 1_000
    early.send(CHANNEL, BasicAck(max(early.tags), multiple=True))
    scenario.until(lambda: early.offsets == list(range(10, 20)))
    streams.has_read(streams.reader(three), range(20))
