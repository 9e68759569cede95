"""A master on the client's own node: the proxy calls it without a link, with the same guarantees."""

import pytest

from tests.support.core_driver import Client
from tests.unit.broker.links.linked import LinkedCore, Together
from tests.unit.broker.links.test_mirrored_queue_proxy import QUEUE_ID, MirroredHome, RecordedIntake, acked, nacked
from warren.broker.links.admission import LINK_BYTES_MAX
from warren.broker.links.direct_master import LocalMasters
from warren.broker.links.link import NodeLinks
from warren.broker.links.mirrored_queue_proxy import MirroredQueueProxy
from warren.broker.model.effects import Effect
from warren.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    ChannelClose,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    QueuePurge,
    QueuePurgeOk,
)


class LocalCore(LinkedCore):
    """A node that may have masters."""

    def host(self) -> MirroredHome:
        home = MirroredHome(self)
        self.links = NodeLinks(self.node.turn, home)
        self.links.host_masters(self.name)
        return home

    @property
    def masters(self) -> LocalMasters:
        assert self.links.local_masters is not None
        return self.links.local_masters

    def _end(self) -> list[Effect]:
        while self.masters.due or self.node.turn.drains:
            self.masters.end_round()
            drains, self.node.turn.drains = self.node.turn.drains, []
            for queue in drains:
                queue.drain()
        return super()._end()


class DirectWorld:
    """Clients at the node that is the master, and another node that may be the next."""

    def __init__(self) -> None:
        self.nodes = Together("here", "two")
        self.core = LocalCore("here")
        self.nodes.cores["here"] = self.core
        self.home = self.core.host()
        other = self.nodes["two"]
        self.other_home = MirroredHome(other)
        other.links = NodeLinks(other.node.turn, self.other_home)
        self.nodes.cut_link("here", "two")
        self.nodes.link("here", "two")
        self.proxy = MirroredQueueProxy("/", "q", True, False, {}, "here", QUEUE_ID, self.core.links)
        self.core.queues["q"] = self.proxy
        self.core.turn()

    def open(self, mark: int = 0, known: bool = True) -> RecordedIntake:
        """This node is the master."""
        del self.core.queues["q"]
        self.core.client().declare("q")
        intake = RecordedIntake(self.core.queue("q"))
        self.core.queues["q"] = self.proxy
        [waiter] = self.home.waiting
        self.home.waiting = []
        intake.publisher = waiter
        waiter.opened(intake.queue, intake, mark, known)
        self.core.turn()
        return intake

    def open_other(self, mark: int = 0) -> RecordedIntake:
        """The other node is the master."""
        other = self.nodes["two"]
        other.client().declare("q")
        intake = RecordedIntake(other.queue("q"))
        for waiter in self.other_home.waiting:
            intake.publisher = waiter
            waiter.opened(intake.queue, intake, mark, True)
        other.turn()
        self.nodes.settle()
        return intake

    def commit(self, intake: RecordedIntake) -> None:
        intake.commit()
        self.core.turn()
        self.nodes.settle()

    def rehome(self, node: str) -> None:
        """Announce the next master to the proxy."""
        self.proxy.rehome(node)
        self.core.turn()
        self.nodes.settle()

    def consumer(self) -> Client:
        """A client whose consumer the master has accepted."""
        client = self.core.client()
        client.say(BasicConsume("q", "c"))
        self.core.turn()
        self.core.turn()
        return client

    def publisher(self) -> Client:
        client = self.core.client()
        client.confirm()
        return client


@pytest.fixture
def world() -> DirectWorld:
    return DirectWorld()


def deliveries(client: Client) -> list[Method]:
    return [method for method in client.methods() if isinstance(method, BasicDeliver)]


def test_a_publish_is_confirmed_when_it_is_committed(world: DirectWorld) -> None:
    intake = world.open()
    client = world.publisher()
    client.publish("q", b"1")
    client.publish("q", b"2")
    assert (intake.counts, client.methods()) == ([1, 2], [])
    world.commit(intake)
    assert acked(client.methods()) == [2]


def test_nothing_goes_over_a_link(world: DirectWorld) -> None:
    intake = world.open()
    world.publisher().publish("q", b"1")
    world.commit(intake)
    assert world.core.sent == []


def test_publishes_wait_for_the_master_and_for_its_part_to_be_known(world: DirectWorld) -> None:
    client = world.publisher()
    client.publish("q", b"1")
    assert client.methods() == []
    intake = world.open()
    assert intake.counts == [1]
    world.commit(intake)
    assert acked(client.methods()) == [1]


def test_a_refused_publish_is_nacked_and_the_next_is_not(world: DirectWorld) -> None:
    intake = world.open()
    client = world.publisher()
    intake.refuses = True
    client.publish("q", b"1")
    intake.refuses = False
    client.publish("q", b"2")
    world.commit(intake)
    heard = client.methods()
    assert (nacked(heard), acked(heard)) == ([1], [2])


def test_an_early_confirm_is_sent_once(world: DirectWorld) -> None:
    intake = world.open()
    client = world.publisher()
    client.publish("q", b"1")
    assert intake.publisher is not None
    intake.publisher.held(1)
    world.core.turn()
    assert acked(client.methods()) == [1]
    world.commit(intake)
    assert client.methods() == []


def test_a_delivery_is_acked_at_the_queue(world: DirectWorld) -> None:
    intake = world.open()
    client = world.consumer()
    client.publish("q", b"1")
    world.core.turn()
    assert [type(method) for method in client.methods()] == [BasicConsumeOk, BasicDeliver]
    assert intake.queue.unacked_count() == 1
    client.say(BasicAck(1))
    assert (intake.queue.unacked_count(), intake.queue.ready_count()) == (0, 0)


def test_an_unacked_delivery_goes_back_with_its_channel(world: DirectWorld) -> None:
    intake = world.open()
    client = world.consumer()
    client.publish("q", b"1")
    client.say(ChannelClose(200, "", 0, 0))
    world.core.turn()
    assert (intake.queue.unacked_count(), intake.queue.ready_count(), intake.queue.consumer_count()) == (0, 1, 0)


def test_requests_are_answered(world: DirectWorld) -> None:
    intake = world.open()
    client = world.core.client()
    client.publish("q", b"1")
    client.publish("q", b"2")
    for asked, answer in (
        (QueueDeclare("q", passive=True), QueueDeclareOk),
        (BasicGet("q"), BasicGetOk),
        (QueuePurge("q"), QueuePurgeOk),
        (BasicGet("q"), BasicGetEmpty),
    ):
        client.say(asked)
        world.commit(intake)
        assert [type(method) for method in client.methods()] == [answer]
    client.say(BasicNack(1))
    assert intake.queue.ready_count() == 1


def test_the_next_master_gets_uncommitted_publishes(world: DirectWorld) -> None:
    intake = world.open()
    client = world.publisher()
    for body in (b"1", b"2", b"3"):
        client.publish("q", body)
    intake.places.pop()
    world.commit(intake)
    assert acked(client.methods()) == [2]
    world.rehome("two")
    other = world.open_other(mark=2)
    assert other.counts == [3]
    other.commit()
    world.nodes["two"].turn()
    world.nodes.settle()
    assert acked(client.methods()) == [3]


def test_a_master_whose_term_is_over_reports_nothing(world: DirectWorld) -> None:
    intake = world.open()
    client = world.publisher()
    client.publish("q", b"1")
    world.rehome("two")
    world.commit(intake)
    assert client.methods() == []


def test_consumers_go_on_at_the_next_master_and_late_acks_reach_it(world: DirectWorld) -> None:
    intake = world.open()
    client = world.consumer()
    client.publish("q", b"1")
    world.core.turn()
    client.methods()
    world.rehome("two")
    intake.queue.close()
    other = world.open_other(mark=1)
    assert other.queue.consumer_count() == 1
    client.say(BasicAck(1))
    world.nodes.settle()
    publisher = world.nodes["two"].client()
    # this master has the position of the acked delivery
    publisher.publish("q", b"1")
    publisher.publish("q", b"2")
    world.nodes.settle()
    assert len(deliveries(client)) == 1


def test_this_nodes_lane_counts_the_window(world: DirectWorld) -> None:
    intake = world.open()
    client = world.publisher()
    client.publish("q", b"x" * 1000)
    world.core.turn()
    lane = world.core.masters.lane
    assert lane.unsettled_bytes > 1000
    world.commit(intake)
    assert lane.unsettled_bytes == 0
    client.publish("q", b"y" * 1000)
    world.rehome("two")
    assert (lane.unsettled_bytes, world.core.links.admission.unsettled_bytes) == (0, 0)


def test_a_publisher_that_fills_the_window_is_held_until_its_publishes_are_committed(world: DirectWorld) -> None:
    intake = world.open()
    client = world.publisher()
    for _ in range(int(LINK_BYTES_MAX) // 1_000_000 + 1):
        client.publish("q", bytes(1_000_000))
    client.publish("q", b"last")
    held = len(intake.counts)
    assert held < int(LINK_BYTES_MAX) // 1_000_000 + 2
    world.commit(intake)
    world.core.turn()
    assert len(intake.counts) == held + 1
