"""Deleting another node's queue if it is empty, or unused: the home looks after that until all nodes agree."""

import pytest

from tests.support.core_driver import Client
from tests.support.slow_agreement import SlowAgreement
from tests.unit.broker.links.linked import LinkedCore, Together
from tests.unit.broker.sessions.journalled import persistent
from warren.broker.appliers import TopologyApplier
from warren.broker.metadata.backend import MetadataAppliers
from warren.broker.vhost import Vhost
from warren.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicNack,
    ChannelClose,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)

DELETE = QueueDelete("q", if_unused=True, if_empty=True)
NACKED = [BasicNack(1, requeue=True), BasicNack(2, requeue=True)]


def agreeing_slowly(core: LinkedCore) -> SlowAgreement:
    """Let others have a say in what this node wants."""
    appliers = MetadataAppliers()
    backend = SlowAgreement(appliers)
    vhost = Vhost("/", core.node.turn, backend, core.logs)
    appliers.add(TopologyApplier({"/": vhost}, core.node.turn.stats))
    core.node.only_vhost = vhost
    return backend


class World:
    """A queue there, and its stand-in here."""

    def __init__(self) -> None:
        self.nodes = Together("here", "there")
        self.backend = agreeing_slowly(self.nodes["there"])
        self.nodes["there"].client().declare("q", durable=True)
        self.backend.grant()
        self.nodes["there"].turn()
        self.queue = self.nodes["there"].queue("q")
        self.nodes.stand_in("here", self.queue, "there")

    def settle(self) -> None:
        for core in self.nodes.cores.values():
            core.turn()
        self.nodes.settle()

    def client(self, node: str = "here") -> Client:
        return self.nodes.client(node)

    def publisher(self, node: str) -> Client:
        """Has two publishes on their way that nobody has answered."""
        publisher = self.client(node)
        publisher.confirm()
        publisher.read(persistent("q", b"1", b"2"))
        self.settle()
        assert publisher.methods() == []
        return publisher

    def come_about(self) -> None:
        """The removal, on all nodes."""
        self.backend.grant()
        self.settle()


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def client(world: World) -> Client:
    client = world.client()
    client.say(DELETE)
    world.settle()
    assert world.backend.keys() == [["queues/%2F/q"]]
    return client


@pytest.mark.parametrize("node", ["here", "there"])
def test_what_comes_before_it_is_decided_is_refused_if_the_queue_goes(world: World, client: Client, node: str) -> None:
    publisher = world.publisher(node)
    world.come_about()
    assert (client.methods(), publisher.methods()) == ([QueueDeleteOk(0)], NACKED)
    assert world.nodes["here"].links.admission.unsettled_bytes == 0


@pytest.mark.parametrize("node", ["here", "there"])
def test_what_comes_before_it_is_decided_is_there_if_the_queue_stays(world: World, client: Client, node: str) -> None:
    publisher = world.publisher(node)
    world.backend.outdate()
    world.settle()
    (closed,) = client.methods()
    assert isinstance(closed, ChannelClose)
    assert closed.reply_text == "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty"
    assert publisher.methods() == [BasicAck(2, multiple=True)]
    assert world.queue.ready_count() == 2
    publisher.read(persistent("q", b"3"))
    world.settle()
    assert publisher.methods() == [BasicAck(3)]


def test_a_node_that_hears_of_the_removal_first_waits_for_what_the_home_says(world: World, client: Client) -> None:
    publisher = world.publisher("here")
    world.nodes["here"].unmake("q")
    world.settle()
    assert publisher.methods() == []
    world.come_about()
    assert (client.methods(), publisher.methods()) == ([QueueDeleteOk(0)], NACKED)
    assert world.nodes["here"].links.admission.unsettled_bytes == 0


def test_a_home_that_is_lost_tells_nothing_of_a_queue_that_is_deleted(world: World, client: Client) -> None:
    publisher = world.publisher("here")
    world.nodes["here"].unmake("q")
    world.nodes.cut_link("here", "there")
    world.settle()
    assert publisher.methods() == NACKED
    assert world.nodes["here"].links.admission.unsettled_bytes == 0


def test_a_removal_that_could_not_be_agreed_upon_is_told(world: World, client: Client) -> None:
    world.backend.fail("no majority")
    world.settle()
    (closed,) = client.methods()
    assert isinstance(closed, ChannelClose)
    assert closed.reply_text == "PRECONDITION_FAILED - the nodes of the cluster could not agree: no majority"


def test_a_removal_goes_on_though_whoever_wants_it_is_not_heard_of(world: World, client: Client) -> None:
    world.nodes.cut_link("here", "there")
    world.settle()
    (closed,) = client.methods()
    assert isinstance(closed, ChannelClose)
    world.come_about()
    assert world.queue.deleted


def test_a_queue_that_is_not_as_it_should_be_is_not_deleted(world: World) -> None:
    world.client("there").publish("q", b"1")
    client = world.client()
    client.say(DELETE)
    world.settle()
    (closed,) = client.methods()
    assert isinstance(closed, ChannelClose)
    assert closed.reply_text == "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty"
    assert world.backend.waiting == []


def test_two_who_want_it_are_both_told(world: World, client: Client) -> None:
    other = world.client()
    other.say(DELETE)
    world.settle()
    assert len(world.backend.waiting) == 1
    world.come_about()
    assert (client.methods(), other.methods()) == ([QueueDeleteOk(0)], [QueueDeleteOk(0)])


@pytest.mark.parametrize("stays", [True, False])
def test_whoever_wants_to_consume_waits(world: World, client: Client, stays: bool) -> None:
    consumer = world.client()
    consumer.say(BasicConsume("q", "c"))
    world.settle()
    assert consumer.methods() == []
    if stays:
        world.backend.outdate()
    else:
        world.backend.grant()
    world.settle()
    (answer,) = consumer.methods()
    assert isinstance(answer, BasicConsumeOk if stays else ChannelClose)


def test_whoever_wanted_to_consume_and_left_is_not_there(world: World, client: Client) -> None:
    consumer = world.client()
    consumer.say(BasicConsume("q", "c"))
    world.settle()
    consumer.lose()
    world.settle()
    world.backend.outdate()
    world.settle()
    # the client that deletes looked again, and found nobody
    assert world.backend.keys() == [["queues/%2F/q"]]
    assert (client.methods(), world.queue.consumer_count()) == ([], 0)


def test_a_queue_whose_node_expires_it_refuses_what_comes_from_others(world: World) -> None:
    world.nodes["there"].node.only_vhost.delete_unused(world.queue, refuses=True)
    publisher = world.publisher("here")
    world.come_about()
    assert publisher.methods() == NACKED


def test_whoever_declares_a_queue_that_departs_waits_and_makes_another(world: World) -> None:
    world.nodes["there"].node.only_vhost.delete_unused(world.queue, refuses=True)
    client = world.client()
    client.say(QueueDeclare("q", durable=True))
    world.settle()
    assert client.methods() == []
    # all nodes know of it when the home says so
    world.nodes["here"].unmake("q")
    world.come_about()
    assert client.methods() == [QueueDeclareOk("q", 0, 0)]


def test_consumers_elsewhere_are_cancelled_when_their_queue_departs(world: World) -> None:
    consumer = world.client()
    consumer.consume("q")
    world.settle()
    consumer.heard()
    world.nodes["there"].node.only_vhost.delete_unused(world.queue)
    world.settle()
    assert consumer.methods() == [BasicCancel("c", nowait=True)]
