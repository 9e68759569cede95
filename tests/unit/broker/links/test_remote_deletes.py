"""Conditional deletes of another node's queue: the home holds publishes until the transaction is decided."""

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


def use_slow_backend(core: LinkedCore) -> SlowAgreement:
    """Use a metadata backend whose transactions the test decides."""
    appliers = MetadataAppliers()
    backend = SlowAgreement(appliers)
    vhost = Vhost("/", core.node.turn, backend, core.logs)
    appliers.add(TopologyApplier({"/": vhost}, core.node.turn.stats))
    core.node.only_vhost = vhost
    return backend


class World:
    """A queue there, and its proxy here."""

    def __init__(self) -> None:
        self.nodes = Together("here", "there")
        self.backend = use_slow_backend(self.nodes["there"])
        self.nodes["there"].client().declare("q", durable=True)
        self.backend.grant()
        self.nodes["there"].turn()
        self.queue = self.nodes["there"].queue("q")
        self.nodes.add_proxy("here", self.queue, "there")

    def settle(self) -> None:
        for core in self.nodes.cores.values():
            core.turn()
        self.nodes.settle()

    def client(self, node: str = "here") -> Client:
        return self.nodes.client(node)

    def publisher(self, node: str) -> Client:
        """A client with two unanswered publishes."""
        publisher = self.client(node)
        publisher.confirm()
        publisher.read(persistent("q", b"1", b"2"))
        self.settle()
        assert publisher.methods() == []
        return publisher

    def commit_delete(self) -> None:
        """Remove the queue on all nodes."""
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
def test_publishes_during_an_undecided_delete_are_nacked_if_the_queue_is_deleted(
    world: World, client: Client, node: str
) -> None:
    publisher = world.publisher(node)
    world.commit_delete()
    assert (client.methods(), publisher.methods()) == ([QueueDeleteOk(0)], NACKED)
    assert world.nodes["here"].links.admission.unsettled_bytes == 0


@pytest.mark.parametrize("node", ["here", "there"])
def test_publishes_during_an_undecided_delete_are_enqueued_if_the_queue_stays(
    world: World, client: Client, node: str
) -> None:
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


def test_a_node_that_learns_of_the_delete_first_waits_for_the_home(world: World, client: Client) -> None:
    publisher = world.publisher("here")
    world.nodes["here"].remove_proxy("q")
    world.settle()
    assert publisher.methods() == []
    world.commit_delete()
    assert (client.methods(), publisher.methods()) == ([QueueDeleteOk(0)], NACKED)
    assert world.nodes["here"].links.admission.unsettled_bytes == 0


def test_publishes_to_a_deleted_queue_are_nacked_when_its_home_is_lost(world: World, client: Client) -> None:
    publisher = world.publisher("here")
    world.nodes["here"].remove_proxy("q")
    world.nodes.cut_link("here", "there")
    world.settle()
    assert publisher.methods() == NACKED
    assert world.nodes["here"].links.admission.unsettled_bytes == 0


def test_a_failed_delete_is_reported_to_its_client(world: World, client: Client) -> None:
    world.backend.fail("no majority")
    world.settle()
    (closed,) = client.methods()
    assert isinstance(closed, ChannelClose)
    assert closed.reply_text == "PRECONDITION_FAILED - the nodes of the cluster could not agree: no majority"


def test_a_delete_continues_though_the_node_of_its_client_is_lost(world: World, client: Client) -> None:
    world.nodes.cut_link("here", "there")
    world.settle()
    (closed,) = client.methods()
    assert isinstance(closed, ChannelClose)
    world.commit_delete()
    assert world.queue.deleted


def test_a_queue_that_does_not_meet_the_conditions_is_not_deleted(world: World) -> None:
    world.client("there").publish("q", b"1")
    client = world.client()
    client.say(DELETE)
    world.settle()
    (closed,) = client.methods()
    assert isinstance(closed, ChannelClose)
    assert closed.reply_text == "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty"
    assert world.backend.waiting == []


def test_two_clients_that_delete_one_queue_are_both_answered(world: World, client: Client) -> None:
    other = world.client()
    other.say(DELETE)
    world.settle()
    assert len(world.backend.waiting) == 1
    world.commit_delete()
    assert (client.methods(), other.methods()) == ([QueueDeleteOk(0)], [QueueDeleteOk(0)])


@pytest.mark.parametrize("stays", [True, False])
def test_a_consume_waits_for_the_decision(world: World, client: Client, stays: bool) -> None:
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


def test_a_consumer_that_left_while_it_waited_is_not_attached(world: World, client: Client) -> None:
    consumer = world.client()
    consumer.say(BasicConsume("q", "c"))
    world.settle()
    consumer.lose()
    world.settle()
    world.backend.outdate()
    world.settle()
    # the delete was checked again, and found no consumer
    assert world.backend.keys() == [["queues/%2F/q"]]
    assert (client.methods(), world.queue.consumer_count()) == ([], 0)


def test_an_expiring_queue_refuses_publishes_from_other_nodes(world: World) -> None:
    world.nodes["there"].node.only_vhost.delete_unused(world.queue, expired=True)
    publisher = world.publisher("here")
    world.commit_delete()
    assert publisher.methods() == NACKED


def test_a_declare_of_a_queue_being_deleted_waits_and_makes_a_new_one(world: World) -> None:
    world.nodes["there"].node.only_vhost.delete_unused(world.queue, expired=True)
    client = world.client()
    client.say(QueueDeclare("q", durable=True))
    world.settle()
    assert client.methods() == []
    # all nodes know of it when the home says so
    world.nodes["here"].remove_proxy("q")
    world.commit_delete()
    assert client.methods() == [QueueDeclareOk("q", 0, 0)]


def test_consumers_on_other_nodes_are_cancelled_when_their_queue_is_deleted(world: World) -> None:
    consumer = world.client()
    consumer.consume("q")
    world.settle()
    consumer.heard()
    world.nodes["there"].node.only_vhost.delete_unused(world.queue)
    world.settle()
    assert consumer.methods() == [BasicCancel("c", nowait=True)]
