"""Random faults of the nodes of a mirrored stream: every offset keeps its message."""

from random import Random

import pytest

from tests.simulation.cluster.mirrored import in_sync, masters
from tests.simulation.cluster.scenario import ClusterScenario
from tests.simulation.cluster.streams import StreamReader, Streams, StreamWriter
from warren.broker.commands.requests import SetPolicy
from warren.broker.model.events import CommandReceived
from warren.broker.policies.policies import QUEUES, Policy
from warren.sim.cluster.nodes import SimulatedClusterNode
from warren.wire.field_tables import Table

ROUNDS = 12
ALL_NODES = ["one", "three", "two"]
LITTLE: Table = {"x-stream-max-segment-size-bytes": 1_000_000, "x-max-length-bytes": 3_000_000}


class Storm:
    """A stream of three nodes, a writer and a reader at each, and random faults."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.scenario = ClusterScenario()
        self.nodes = self.scenario.nodes
        self.streams = Streams(self.scenario)
        self.writers: list[StreamWriter] = []
        self.readers: list[StreamReader] = []
        self.begin()
        self.populate()

    def begin(self) -> None:
        self.streams.mirror(self.nodes[0], {"x-stream-max-segment-size-bytes": 2_000_000})

    def populate(self) -> None:
        self.writers = [self.streams.writer(node) for node in self.nodes]
        self.readers = [self.streams.reader(node) for node in self.nodes]

    def rage(self) -> None:
        for _round in range(ROUNDS):
            for writer in self.writers:
                if writer.channel_open and self.chance.random() < 0.8:
                    writer.write(self.chance.randint(1, 8), self.chance.choice((10, 1_000, 150_000)))
            self.disturb(self.chance.choice(self.nodes))
            self.scenario.elapse(self.chance.choice((5, 50, 500, 3_000)))

    def disturb(self, node: SimulatedClusterNode) -> None:
        what = self.chance.randrange(6)
        if what == 0:
            node.kill(self.chance.choice((100, 2_000)))
        elif what == 1:
            node.lose_power(self.chance.choice((100, 2_000)))
        elif what == 2:
            node.stop(self.chance.choice((100, 2_000)))
        elif what == 3:
            node.freeze(self.chance.choice((50, 1_000, 5_000)))
        elif what == 4:
            self.scenario.isolate(node)
            self.scenario.elapse(self.chance.choice((50, 1_000, 6_000)))
            self.scenario.isolate(node, False)

    def calm(self) -> int:
        """All nodes come back and are in sync, all readers read to the end; the offset of the end."""
        scenario, queue = self.scenario, self.streams.queue
        scenario.until(lambda: all(node.up and not node.frozen for node in self.nodes))
        scenario.until(lambda: len(masters(scenario, queue)) == 1)
        all_names = sorted(node.name for node in self.nodes)
        scenario.until(lambda: all(in_sync(node, queue) == all_names for node in self.nodes))
        scenario.until(lambda: all(client.channel_open for client in [*self.writers, *self.readers]))
        for writer in self.writers:
            writer.write(1)
            scenario.until(writer.done)
        end = max(self.streams.stream(node).end_offset() for node in self.nodes if self._leads(node))
        for reader in self.readers:
            self.read_to(reader, end)
        return end

    def read_to(self, reader: StreamReader, end: int) -> None:
        self.scenario.until(lambda: reader.offsets[-1:] == [end - 1])

    def _leads(self, node: SimulatedClusterNode) -> bool:
        return node.name in masters(self.scenario, self.streams.queue)


class Becoming(Storm):
    """The same, with a stream that begins on one node, and with a short retention."""

    def begin(self) -> None:
        self.streams.declare(self.nodes[0], LITTLE)

    def populate(self) -> None:
        super().populate()
        for _round in range(self.chance.randint(0, 6)):
            for writer in self.writers:
                writer.write(self.chance.randint(0, 6), 150_000)
            self.scenario.elapse(self.chance.choice((1, 20, 200)))
        policy = Policy("/", "mirroring", ".*", QUEUES, {"ha-mode": "all"})
        self.nodes[0].add(CommandReceived(3, SetPolicy(policy, False)))
        self.scenario.elapse(self.chance.choice((1, 10, 50, 1_000)))


class Losing(Storm):
    """The same, and at times a node that is down loses its files, if all others are complete."""

    def disturb(self, node: SimulatedClusterNode) -> None:
        queue = self.streams.queue
        whole = node.up and all(in_sync(one, queue) == ALL_NODES for one in self.nodes if one.up)
        if not whole or self.chance.random() < 0.5:
            super().disturb(node)
            return
        node.kill(self.chance.choice((100, 2_000, 8_000)))
        directory = node.disk.archives.directory
        names = sorted(directory.names())
        for name in names[self.chance.randint(0, len(names)) :]:
            directory.unlink(name)
        directory.sync()


@pytest.mark.parametrize("seed", [*range(4), 16, 74])
def test_every_offset_keeps_its_message_after_any_faults(seed: int) -> None:
    storm = Storm(seed)
    storm.rage()
    end = storm.calm()
    for reader in storm.readers:
        assert reader.offsets == list(range(end))
    storm.streams.book.check_whole()


@pytest.mark.parametrize("seed", [0, 29, 56])
def test_a_stream_becomes_mirrored_and_drops_old_messages_during_any_faults(seed: int) -> None:
    storm = Becoming(seed)
    storm.rage()
    end = storm.calm()
    for reader in storm.readers:
        # a slow reader may miss messages that retention has removed
        assert reader.offsets == sorted(set(reader.offsets))
    for node in storm.nodes:
        reader = storm.streams.reader(node)
        storm.read_to(reader, end)
        assert reader.offsets == list(range(reader.offsets[0], end))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_files_that_are_lost_cost_nothing_while_others_have_everything(seed: int) -> None:
    storm = Losing(seed)
    storm.rage()
    end = storm.calm()
    for node in storm.nodes:
        reader = storm.streams.reader(node)
        storm.read_to(reader, end)
        assert reader.offsets == list(range(end))
    storm.streams.book.check_whole()
