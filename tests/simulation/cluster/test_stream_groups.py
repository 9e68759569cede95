"""A group of three nodes on a slow network; its members ack late, in any order, leave and come again.

No node is cut off or lost, so a member is gone when it says so, and the member that holds each message is known.
"""

from random import Random

import pytest

from tests.simulation.cluster.scenario import CHANNEL, ClusterScenario, Guest
from tests.simulation.cluster.streams import Streams
from warren.broker.model.stream_partitions import index_for
from warren.sim.cluster.nodes import SimulatedClusterNode
from warren.sim.cluster.world import ClusterWorld
from warren.wire.field_tables import Table
from warren.wire.frames import content_frames
from warren.wire.method_stream import ReceivedMethod
from warren.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicPublish,
    BasicQos,
    ConfirmSelect,
    ExchangeDeclare,
    QueueBind,
)
from warren.wire.properties import Properties, decode_properties, encode_header_payload

PARTITIONS = 4
KEYS = [f"k{number}" for number in range(10)]
ROUNDS = 15


class Diary:
    """The messages that each member holds, and the acked messages of all members."""

    def __init__(self) -> None:
        self.holders: dict[int, dict[str, int]] = {index: {} for index in range(PARTITIONS)}
        self.acked: set[tuple[str, int]] = set()
        self.seen: dict[str, int] = dict.fromkeys(KEYS, -1)

    def got(self, member: str, partition: int, key: str, number: int) -> None:
        holders = self.holders[partition]
        others = [name for name, count in holders.items() if count and name != member]
        assert others == [], f"{member} got {key} {number} of partition {partition} while {others} held something"
        holders[member] = holders.get(member, 0) + 1
        assert partition == index_for(key, PARTITIONS)
        assert number <= self.seen[key] + 1, f"{key} {number} came before {self.seen[key] + 1}"
        self.seen[key] = max(self.seen[key], number)


class GroupMember(Guest):
    """Acks one of its messages at intervals, and sometimes leaves without an ack."""

    def __init__(
        self, world: ClusterWorld, name: str, node: SimulatedClusterNode, diary: Diary, chance: Random
    ) -> None:
        super().__init__(world, name, node)
        self.diary = diary
        self.luck = chance
        self.restless = True
        self._held: dict[int, tuple[int, str, int]] = {}

    def channel_opened(self) -> None:
        self.send(CHANNEL, BasicQos(prefetch_count=3))
        arguments: Table = {"x-stream-group": "g", "x-stream-member": self.name}
        self.send(CHANNEL, BasicConsume("log", self.name, arguments=arguments))

    def forget_channel(self) -> None:
        self._held.clear()
        for holders in self.diary.holders.values():
            holders.pop(self.name, None)

    def channel_method_received(self, heard: ReceivedMethod) -> None:
        if isinstance(heard.method, BasicDeliver):
            headers = decode_properties(heard.header, 0, len(heard.header)).headers or {}
            partition = headers["x-stream-partition"]
            assert isinstance(partition, int)
            key, number = heard.method.routing_key, int(heard.body)
            self.diary.got(self.name, partition, key, number)
            self._held[heard.method.delivery_tag] = (partition, key, number)

    def work(self) -> None:
        if self.restless and self.luck.random() < 0.01:
            self.close_channel()
        elif self._held and self.luck.random() < 0.5:
            tag = self.luck.choice(list(self._held))
            partition, key, number = self._held.pop(tag)
            self.diary.holders[partition][self.name] -= 1
            self.diary.acked.add((key, number))
            self.send(CHANNEL, BasicAck(tag))


@pytest.mark.parametrize("seed", range(6))
def test_a_group_whose_members_come_and_go_deals_with_everything_in_order(seed: int) -> None:
    chance = Random(seed)
    scenario = ClusterScenario()
    writer = scenario.guest(scenario.nodes[0])
    Streams(scenario).declare(scenario.nodes[0], {"x-stream-partitions": PARTITIONS})
    scenario.ask(writer, ExchangeDeclare("all", "fanout", durable=True))
    scenario.ask(writer, QueueBind("log", "all"))
    scenario.ask(writer, ConfirmSelect())
    scenario.world.network.calm = False
    diary = Diary()
    members = [GroupMember(scenario.world, f"m{at}", scenario.nodes[at % 3], diary, chance) for at in range(4)]
    for number in range(ROUNDS):
        for key in KEYS:
            publish(writer, key, number)
        scenario.elapse(chance.randint(1, 300))
    for member in members:
        member.restless = False
    wanted = {(key, number) for key in KEYS for number in range(ROUNDS)}
    scenario.until(lambda: wanted <= diary.acked)


def publish(writer: Guest, key: str, number: int) -> None:
    body = str(number).encode()
    header = encode_header_payload(Properties(delivery_mode=2), len(body))
    content = content_frames(header, body, CHANNEL, writer.frame_max)
    writer.send(CHANNEL, BasicPublish("all", key), content=content)
