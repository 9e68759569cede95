"""Publishers that repeat messages to the queue `work`, and the ids that nodes know of them.

Not here: the cluster (`tests.simulation.cluster.scenario`).
"""

import gc
import random

from tests.simulation.cluster.mirrored import FOREVER_MS, masters, replica_of
from tests.simulation.cluster.scenario import CHANNEL, ClusterScenario, Guest
from warren.broker.model.message import Envelope, Message
from warren.broker.replication.master_replica import MasterReplica, NodeIntake
from warren.sim.cluster.nodes import SimulatedClusterNode
from warren.wire.frames import content_frames
from warren.wire.methods import BasicAck, BasicGet, BasicGetOk, BasicPublish, ConfirmSelect, ConfirmSelectOk
from warren.wire.properties import Properties, encode_header_payload

ALL_IDS = [b"%d" % number for number in range(1, 13)]


def publisher(scenario: ClusterScenario, node: SimulatedClusterNode) -> Guest:
    guest = scenario.guest(node)
    assert isinstance(scenario.ask(guest, ConfirmSelect()), ConfirmSelectOk)
    guest.answers.clear()
    return guest


def intake_of(master_replica: MasterReplica) -> NodeIntake:
    """The entry of a node's publishes; only that node's replica of the queue knows it."""
    return next(one for one in gc.get_objects() if type(one) is NodeIntake and one._master_replica is master_replica)


def message_of(number: bytes) -> Message:
    headers: dict[str, object] = {"x-warren-publisher": "p", "x-warren-publishing-id": number.decode()}
    payload = encode_header_payload(Properties(headers=headers, delivery_mode=2), len(number))
    message = Message(Envelope("", "work"), content_frames(payload, number, CHANNEL, 4096), CHANNEL, len(number), 4096)
    message.identified = True
    return message


def send(guest: Guest, ids: list[bytes], persistent: bool = True) -> None:
    """Publish a message for each id, which is its body, too."""
    for one in ids:
        headers: dict[str, object] = {"x-warren-publisher": "p", "x-warren-publishing-id": one.decode()}
        properties = Properties(headers=headers, delivery_mode=2 if persistent else 1)
        content = content_frames(encode_header_payload(properties, len(one)), one, CHANNEL, guest.frame_max)
        guest.send(CHANNEL, BasicPublish("", "work"), content=content)


def confirmed(guest: Guest) -> int:
    acks = [heard.method for heard in guest.answers if isinstance(heard.method, BasicAck)]
    return max((int(ack.delivery_tag) for ack in acks), default=0)


def publish(scenario: ClusterScenario, node: SimulatedClusterNode, ids: list[bytes], persistent: bool = True) -> None:
    """And wait until all of it is confirmed."""
    guest = publisher(scenario, node)
    send(guest, ids, persistent)
    scenario.until(lambda: confirmed(guest) == len(ids))


def drain(scenario: ClusterScenario, node: SimulatedClusterNode) -> list[bytes]:
    guest, bodies = scenario.guest(node), []
    while isinstance(scenario.ask(guest, BasicGet("work", no_ack=True)), BasicGetOk):
        bodies.append(guest.answers[-1].body)
    return bodies


def lose(scenario: ClusterScenario, node: SimulatedClusterNode, down_ms: int = FOREVER_MS) -> None:
    """And wait for the next master."""
    node.lose_power(down_ms)
    scenario.until(lambda: masters(scenario) not in ([], [node.name]))


def remember(node: SimulatedClusterNode, name: str, offset: int) -> None:
    replica = replica_of(node)
    assert replica is not None
    assert replica.master_replica is not None
    replica.master_replica.log().store_offset(name, offset)
    # every action of a reader happens in a turn
    node._schedule_turn()


def knows(node: SimulatedClusterNode, one: bytes) -> bool:
    replica = replica_of(node)
    assert replica is not None
    return replica._queue_index.seen.has((b"p", one))


def remembered(node: SimulatedClusterNode) -> dict[str, int]:
    replica = replica_of(node)
    assert replica is not None
    return replica._queue_index.stored_offsets()


class Repeating:
    """A publisher that goes from node to node, and repeats all unconfirmed messages."""

    def __init__(self, scenario: ClusterScenario) -> None:
        self.scenario = scenario
        self.unsure: list[bytes] = []
        self.all: list[bytes] = []
        self._guest: Guest | None = None
        self._sent: list[bytes] = []

    def publish(self, node: SimulatedClusterNode, count: int) -> None:
        """Publish all unconfirmed messages and so many more, without waiting."""
        self.hear()
        new = [b"%d" % number for number in range(len(self.all), len(self.all) + count)]
        self.all += new
        self.unsure += new
        self._guest = publisher(self.scenario, node)
        self._sent = list(self.unsure)
        send(self._guest, self._sent)

    def hear(self) -> None:
        """Check that every confirmed message is there."""
        if self._guest is not None:
            for heard in self._guest.answers:
                if isinstance(heard.method, BasicAck):
                    tag = int(heard.method.delivery_tag)
                    told = self._sent[:tag] if heard.method.multiple else self._sent[tag - 1 : tag]
                    self.unsure = [one for one in self.unsure if one not in told]
            self._guest = None


def harm(scenario: ClusterScenario, chance: random.Random) -> None:
    """A random fault of a node, which ends by itself."""
    node = chance.choice(scenario.nodes)
    what = chance.choice(["power", "kill", "cut", "freeze"])
    for_ms = chance.choice([200, 2_000, 6_000])
    if what == "power":
        node.lose_power(for_ms)
    elif what == "kill":
        node.kill(for_ms)
    elif what == "freeze":
        node.freeze(for_ms)
    else:
        scenario.isolate(node)
        node.cut_off_from_store(True)
    scenario.elapse(for_ms)
    scenario.isolate(node, False)
    node.cut_off_from_store(False)
