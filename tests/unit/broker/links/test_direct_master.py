"""Where the master is on the client's own node the proxy reaches it without a link, and keeps the same promises."""

import pytest

from tests.support.core_driver import Client
from tests.unit.broker.links.linked import LinkedCore, Together
from tests.unit.broker.links.test_seats import QUEUE_ID, MirroredHome, Taken, acked, nacked
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
    """A node on which masters may be."""

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


class Own:
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

    def open(self, mark: int = 0, known: bool = True) -> Taken:
        """This node is the master."""
        del self.core.queues["q"]
        self.core.client().declare("q")
        intake = Taken(self.core.queue("q"))
        self.core.queues["q"] = self.proxy
        [waiter] = self.home.waiting
        self.home.waiting = []
        intake.publisher = waiter
        waiter.opened(intake.queue, intake, mark, known)
        self.core.turn()
        return intake

    def open_other(self, mark: int = 0) -> Taken:
        """The other node is the master."""
        other = self.nodes["two"]
        other.client().declare("q")
        intake = Taken(other.queue("q"))
        for waiter in self.other_home.waiting:
            intake.publisher = waiter
            waiter.opened(intake.queue, intake, mark, True)
        other.turn()
        self.nodes.settle()
        return intake

    def commit(self, intake: Taken) -> None:
        intake.settle()
        self.core.turn()
        self.nodes.settle()

    def rehome(self, node: str) -> None:
        """The proxy hears of the next master."""
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
def own() -> Own:
    return Own()


def deliveries(client: Client) -> list[Method]:
    return [method for method in client.methods() if isinstance(method, BasicDeliver)]


def test_a_publish_is_confirmed_when_it_is_committed(own: Own) -> None:
    intake = own.open()
    client = own.publisher()
    client.publish("q", b"1")
    client.publish("q", b"2")
    assert (intake.counts, client.methods()) == ([1, 2], [])
    own.commit(intake)
    assert acked(client.methods()) == [2]


def test_nothing_goes_over_a_link(own: Own) -> None:
    intake = own.open()
    own.publisher().publish("q", b"1")
    own.commit(intake)
    assert own.core.sent == []


def test_publishes_wait_for_the_master_and_for_its_part_to_be_known(own: Own) -> None:
    client = own.publisher()
    client.publish("q", b"1")
    assert client.methods() == []
    intake = own.open()
    assert intake.counts == [1]
    own.commit(intake)
    assert acked(client.methods()) == [1]


def test_a_refused_publish_is_nacked_and_the_next_is_not(own: Own) -> None:
    intake = own.open()
    client = own.publisher()
    intake.refuses = True
    client.publish("q", b"1")
    intake.refuses = False
    client.publish("q", b"2")
    own.commit(intake)
    heard = client.methods()
    assert (nacked(heard), acked(heard)) == ([1], [2])


def test_an_early_confirm_is_told_once(own: Own) -> None:
    intake = own.open()
    client = own.publisher()
    client.publish("q", b"1")
    assert intake.publisher is not None
    intake.publisher.held(1)
    own.core.turn()
    assert acked(client.methods()) == [1]
    own.commit(intake)
    assert client.methods() == []


def test_a_delivery_is_acked_at_the_queue(own: Own) -> None:
    intake = own.open()
    client = own.consumer()
    client.publish("q", b"1")
    own.core.turn()
    assert [type(method) for method in client.methods()] == [BasicConsumeOk, BasicDeliver]
    assert intake.queue.unacked_count() == 1
    client.say(BasicAck(1))
    assert (intake.queue.unacked_count(), intake.queue.ready_count()) == (0, 0)


def test_an_unacked_delivery_goes_back_with_its_channel(own: Own) -> None:
    intake = own.open()
    client = own.consumer()
    client.publish("q", b"1")
    client.say(ChannelClose(200, "", 0, 0))
    own.core.turn()
    assert (intake.queue.unacked_count(), intake.queue.ready_count(), intake.queue.consumer_count()) == (0, 1, 0)


def test_questions_are_answered(own: Own) -> None:
    intake = own.open()
    client = own.core.client()
    client.publish("q", b"1")
    client.publish("q", b"2")
    for asked, answer in (
        (QueueDeclare("q", passive=True), QueueDeclareOk),
        (BasicGet("q"), BasicGetOk),
        (QueuePurge("q"), QueuePurgeOk),
        (BasicGet("q"), BasicGetEmpty),
    ):
        client.say(asked)
        own.commit(intake)
        assert [type(method) for method in client.methods()] == [answer]
    client.say(BasicNack(1))
    assert intake.queue.ready_count() == 1


def test_the_next_master_gets_what_is_not_committed(own: Own) -> None:
    intake = own.open()
    client = own.publisher()
    for body in (b"1", b"2", b"3"):
        client.publish("q", body)
    intake.places.pop()
    own.commit(intake)
    assert acked(client.methods()) == [2]
    own.rehome("two")
    other = own.open_other(mark=2)
    assert other.counts == [3]
    other.settle()
    own.nodes["two"].turn()
    own.nodes.settle()
    assert acked(client.methods()) == [3]


def test_a_master_whose_term_is_over_reports_nothing(own: Own) -> None:
    intake = own.open()
    client = own.publisher()
    client.publish("q", b"1")
    own.rehome("two")
    own.commit(intake)
    assert client.methods() == []


def test_consumers_go_on_at_the_next_master_and_late_acks_reach_it(own: Own) -> None:
    intake = own.open()
    client = own.consumer()
    client.publish("q", b"1")
    own.core.turn()
    client.methods()
    own.rehome("two")
    intake.queue.close()
    other = own.open_other(mark=1)
    assert other.queue.consumer_count() == 1
    client.say(BasicAck(1))
    own.nodes.settle()
    publisher = own.nodes["two"].client()
    # this one has the position of the delivery that was acked
    publisher.publish("q", b"1")
    publisher.publish("q", b"2")
    own.nodes.settle()
    assert len(deliveries(client)) == 1


def test_this_nodes_lane_counts_what_is_kept(own: Own) -> None:
    intake = own.open()
    client = own.publisher()
    client.publish("q", b"x" * 1000)
    own.core.turn()
    lane = own.core.masters.lane
    assert lane.unsettled_bytes > 1000
    own.commit(intake)
    assert lane.unsettled_bytes == 0
    client.publish("q", b"y" * 1000)
    own.rehome("two")
    assert (lane.unsettled_bytes, own.core.links.admission.unsettled_bytes) == (0, 0)


def test_a_publisher_that_sends_too_much_is_held_until_it_is_committed(own: Own) -> None:
    intake = own.open()
    client = own.publisher()
    for _ in range(int(LINK_BYTES_MAX) // 1_000_000 + 1):
        client.publish("q", bytes(1_000_000))
    client.publish("q", b"last")
    held = len(intake.counts)
    assert held < int(LINK_BYTES_MAX) // 1_000_000 + 2
    own.commit(intake)
    own.core.turn()
    assert len(intake.counts) == held + 1
