"""A group of a mirrored stream; the master is cut off from all but its own clients."""

from tests.simulation.cluster.mirrored import masters
from tests.simulation.cluster.scenario import CHANNEL, ClusterScenario, Guest
from tests.simulation.cluster.streams import Streams
from warren.sim.cluster.nodes import SimulatedClusterNode
from warren.sim.cluster.world import ClusterWorld
from warren.wire.field_tables import Table
from warren.wire.method_stream import ReceivedMethod
from warren.wire.methods import BasicAck, BasicConsume, BasicDeliver, BasicQos
from warren.wire.properties import decode_properties

GROUP: Table = {"x-stream-group": "g", "x-stream-offset": "first"}


class Worker(Guest):
    """A member that takes one message at a time, at intervals, and records when."""

    def __init__(self, world: ClusterWorld, name: str, node: SimulatedClusterNode) -> None:
        super().__init__(world, name, node)
        self.taken: dict[int, int] = {}
        self._tag = 0
        self.pace_ms = 100

    def channel_opened(self) -> None:
        self.send(CHANNEL, BasicQos(prefetch_count=1))
        self.send(CHANNEL, BasicConsume("log", self.name, arguments={**GROUP, "x-stream-member": self.name}))

    def channel_method_received(self, heard: ReceivedMethod) -> None:
        if isinstance(heard.method, BasicDeliver):
            offset = (decode_properties(heard.header, 0, len(heard.header)).headers or {})["x-stream-offset"]
            assert isinstance(offset, int)
            self.taken[offset] = self.world.now_ms
            self._tag = heard.method.delivery_tag

    def work(self) -> None:
        if self._tag:
            self.send(CHANNEL, BasicAck(self._tag))
            self._tag = 0


def test_a_master_that_is_cut_off_serves_no_group_beside_the_one_that_takes_its_place() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    streams = Streams(scenario)
    streams.mirror(one)
    streams.write(streams.writer(two), 500)
    here = Worker(scenario.world, "a", one)
    there = Worker(scenario.world, "b", two)
    scenario.until(lambda: len(here.taken) > 10)
    assert not there.taken
    # the other nodes see their links end, the master does not
    scenario.isolate(one)
    one.cut_off_from_store(True)
    for node in (two, three):
        scenario.world.peer_links.between("one", node.name).drop(node, "it seems to be gone")
    scenario.until(lambda: masters(scenario, "log") in (["one", "two"], ["one", "three"]))
    scenario.until(lambda: len(there.taken) > 20)
    assert max(here.taken.values()) < min(there.taken.values())


def test_a_group_is_served_on_when_its_master_is_heard_of_again() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    streams = Streams(scenario)
    streams.mirror(one)
    streams.write(streams.writer(two), 100)
    here = Worker(scenario.world, "a", one)
    scenario.until(lambda: len(here.taken) > 10)
    for node in (one, two, three):
        node.cut_off_from_store(True)
    scenario.isolate(one)
    scenario.elapse(4_000)
    before = len(here.taken)
    scenario.elapse(2_000)
    assert len(here.taken) == before
    scenario.isolate(one, False)
    for node in scenario.nodes:
        node.cut_off_from_store(False)
    scenario.until(lambda: 99 in here.taken)
