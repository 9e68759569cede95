"""A proxy of a mirrored queue keeps the unconfirmed publishes and the consumers of its node when the master changes."""

import pytest

from tests.support.core_driver import Client
from tests.unit.broker.links.linked import LinkedCore, LocalHome, Together
from warren.broker.links.link import NodeLinks
from warren.broker.links.mirrored_queue_proxy import MASTER_TIMEOUT_MS, MirroredQueueProxy
from warren.broker.metadata.transaction import TransactionWaiter
from warren.broker.model.events import PeerReceived
from warren.broker.model.master_port import MasterIntake, MasterWaiter
from warren.broker.model.message import Message
from warren.broker.model.ports import PENDING, REJECTED, QueuePort
from warren.broker.model.turn import FlushWaiter
from warren.broker.queues.held_publishes import HeldPublishes
from warren.broker.queues.queue import Queue
from warren.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicNack,
    BasicReject,
    ChannelClose,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)

QUEUE_ID = 7


class RecordedIntake(MasterIntake):
    """A master that enqueues publishes at once, and commits them when the test says so."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.publisher: MasterWaiter | None = None
        self.counts: list[int] = []
        self.places: list[int] = []
        self.waiters: list[FlushWaiter] = []
        self.refuses = False
        self.desertions = 0

    def publish(self, count: int, place: int, message: Message, counted: bool) -> int:
        self.places.append(place)
        if self.refuses:
            return REJECTED
        self.counts.append(count)
        self.queue.publish(message)
        return PENDING

    def fence(self, place: int) -> None:
        self.places.append(place)

    def await_commit(self, waiter: FlushWaiter) -> None:
        self.waiters.append(waiter)

    def acked_late(self, positions: list[int]) -> None:
        self.queue.acked_late(positions)

    def deserted(self) -> None:
        self.desertions += 1

    def commit(self) -> None:
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter.flushed()
        if self.places:
            assert self.publisher is not None
            self.publisher.committed(self.places[-1])


class MirroredHome(LocalHome):
    """Keeps proxies waiting for a master."""

    def __init__(self, core: LinkedCore) -> None:
        super().__init__(core)
        self.waiting: list[MasterWaiter] = []
        self.removals: list[TransactionWaiter] = []

    def remove_queue(self, queue: QueuePort, waiter: TransactionWaiter) -> None:
        self.removals.append(waiter)

    def await_master(self, queue_id: int, node: str, waiter: MasterWaiter) -> None:
        assert queue_id == QUEUE_ID
        self.waiting.append(waiter)

    def forget_master(self, queue_id: int, waiter: MasterWaiter) -> None:
        self.waiting = [one for one in self.waiting if one is not waiter]


class ProxyWorld:
    """Clients at one node; two others, one of which is the master."""

    def __init__(self) -> None:
        self.nodes = Together("here", "one", "two")
        self.homes: dict[str, MirroredHome] = {}
        self.intakes: dict[str, RecordedIntake] = {}
        for name in ("one", "two"):
            core = self.nodes[name]
            self.homes[name] = MirroredHome(core)
            core.links = NodeLinks(core.node.turn, self.homes[name])
        for name in ("one", "two"):
            self.nodes.cut_link("here", name)
            self.nodes.link("here", name)
        self.core = self.nodes["here"]
        self.proxy = MirroredQueueProxy("/", "q", True, False, {}, "one", QUEUE_ID, self.core.links)
        self.core.queues["q"] = self.proxy
        self.core.turn()
        self.nodes.settle()

    def open(self, name: str, mark: int = 0, known: bool = True) -> RecordedIntake:
        """Make that node the master, which accepts publishes."""
        core = self.nodes[name]
        core.client().declare("q")
        intake = RecordedIntake(core.queue("q"))
        self.intakes[name] = intake
        for waiter in self.homes[name].waiting:
            intake.publisher = waiter
            waiter.opened(intake.queue, intake, mark, known)
        core.turn()
        self.nodes.settle()
        return intake

    def commit(self, name: str) -> None:
        self.intakes[name].commit()
        self.nodes[name].turn()
        self.nodes.settle()

    def fail_over(self) -> None:
        """Lose the first master; the other node is to be the next."""
        self.nodes.cut_link("here", "one")
        self.proxy.rehome("two")
        self.core.turn()
        self.nodes.settle()

    def publisher(self) -> Client:
        client = self.nodes.client("here")
        client.confirm()
        return client


def acked(heard: list[Method]) -> list[int]:
    return [method.delivery_tag for method in heard if isinstance(method, BasicAck)]


def nacked(heard: list[Method]) -> list[int]:
    return [method.delivery_tag for method in heard if isinstance(method, BasicNack)]


@pytest.fixture
def world() -> ProxyWorld:
    return ProxyWorld()


def test_publishes_wait_until_there_is_a_master(world: ProxyWorld) -> None:
    client = world.publisher()
    client.publish("q", b"first")
    client.publish("q", b"second")
    world.nodes.settle()
    assert client.methods() == []
    intake = world.open("one")
    assert intake.counts == [1, 2]
    assert client.methods() == []
    world.commit("one")
    assert acked(client.methods())[-1] == 2


def test_the_next_master_gets_the_publishes_it_lacks_and_no_others(world: ProxyWorld) -> None:
    world.open("one")
    client = world.publisher()
    for body in (b"1", b"2", b"3", b"4"):
        client.publish("q", body)
    world.nodes.settle()
    world.fail_over()
    assert client.methods() == []
    intake = world.open("two", mark=3)
    assert intake.counts == [4]
    world.commit("two")
    heard = client.methods()
    assert (acked(heard)[-1], nacked(heard)) == (4, [])


def test_a_refused_publish_is_not_sent_again(world: ProxyWorld) -> None:
    intake = world.open("one")
    client = world.publisher()
    client.publish("q", b"1")
    world.nodes.settle()
    intake.refuses = True
    client.publish("q", b"2")
    world.nodes.settle()
    intake.refuses = False
    client.publish("q", b"3")
    world.nodes.settle()
    world.fail_over()
    intake = world.open("two")
    assert intake.counts == [1, 3]
    world.commit("two")
    heard = client.methods()
    assert nacked(heard) == [2]
    assert 3 in acked(heard)


def test_a_publish_whose_outcome_the_next_master_does_not_know_is_nacked(world: ProxyWorld) -> None:
    world.open("one")
    client = world.publisher()
    client.publish("q", b"sent")
    world.nodes.settle()
    world.fail_over()
    client.publish("q", b"kept")
    world.nodes.settle()
    intake = world.open("two", known=False)
    assert intake.counts == [2]
    world.commit("two")
    heard = client.methods()
    assert (nacked(heard), acked(heard)) == ([1], [2])


def test_without_a_master_for_too_long_the_queue_is_down_and_its_count_goes_on(world: ProxyWorld) -> None:
    world.open("one")
    client = world.publisher()
    client.publish("q", b"1")
    world.nodes.settle()
    world.fail_over()
    other = world.nodes.client("here")
    other.say(QueueDeclare("q", passive=True))
    world.core.now_ms += MASTER_TIMEOUT_MS
    world.core.turn()
    world.nodes.settle()
    assert nacked(client.methods()) == [1]
    closed = [method for method in other.methods() if isinstance(method, ChannelClose)]
    assert (
        closed[0].reply_text == "NOT_FOUND - home node 'two' of durable queue 'q' in vhost '/' is down or inaccessible"
    )
    client.publish("q", b"2")
    assert nacked(client.methods()) == [2]
    intake = world.open("two", mark=1)
    client.publish("q", b"3")
    world.nodes.settle()
    assert intake.counts == [2]


def test_consumers_continue_at_the_next_master_unless_they_ask_to_be_cancelled(world: ProxyWorld) -> None:
    world.open("one")
    quiet, curious = world.nodes.client("here"), world.nodes.client("here")
    quiet.say(BasicConsume("q", "quiet"))
    curious.say(BasicConsume("q", "curious", arguments={"x-cancel-on-ha-failover": True}))
    world.nodes.settle()
    assert any(isinstance(method, BasicConsumeOk) for method in quiet.methods())
    world.fail_over()
    assert [method.consumer_tag for method in curious.methods() if isinstance(method, BasicCancel)] == ["curious"]
    world.open("two")
    world.nodes["two"].client().publish("q", b"hello")
    world.nodes.settle()
    heard = quiet.methods()
    assert [method.consumer_tag for method in heard if isinstance(method, BasicDeliver)] == ["quiet"]
    assert not any(isinstance(method, BasicCancel) for method in heard)


def test_a_master_that_does_not_know_its_successor_redelivers_nothing(world: ProxyWorld) -> None:
    world.open("one")
    taker = world.nodes.client("here")
    taker.say(BasicConsume("q", "taker"))
    world.nodes.settle()
    world.nodes["one"].client().publish("q", b"held")
    world.nodes.settle()
    assert any(isinstance(method, BasicDeliver) for method in taker.methods())
    other = world.nodes["one"].client()
    other.say(BasicConsume("q", "other"))
    world.proxy.rehome("two")
    world.core.turn()
    world.nodes.settle()
    assert not any(isinstance(method, BasicDeliver) for method in other.methods())


def test_an_unanswered_request_is_sent_to_the_next_master(world: ProxyWorld) -> None:
    client = world.nodes.client("here")
    client.say(QueueDeclare("q", passive=True))
    world.nodes.settle()
    assert client.methods() == []
    world.fail_over()
    world.open("two")
    assert [type(method) for method in client.methods()] == [QueueDeclareOk]


def test_a_consumer_attached_as_the_master_steps_down_continues_at_the_next(world: ProxyWorld) -> None:
    world.open("one")
    client = world.nodes.client("here")
    client.say(BasicConsume("q", "c"))
    # the answer is in transit when the master's queue is closed; this node knows no other master yet
    master = world.nodes["one"]
    asked, world.core.sent = world.core.sent, []
    master.turn(*[PeerReceived("here", effect.data) for effect in asked])
    master.queue("q").close()
    master.turn()
    answered, master.sent = master.sent, []
    world.core.turn(PeerReceived("one", b"".join(effect.data for effect in answered)))
    world.nodes.settle()
    world.fail_over()
    world.open("two")
    world.nodes["two"].client().publish("q", b"hello")
    world.nodes.settle()
    assert [type(method) for method in client.methods()] == [BasicConsumeOk, BasicDeliver]


def test_a_consumer_that_waits_as_the_master_steps_down_is_attached_to_the_next(world: ProxyWorld) -> None:
    queue = world.open("one").queue
    queue.held_publishes = HeldPublishes(queue, world.nodes["one"].node.turn, refuses=True)
    client = world.nodes.client("here")
    client.say(BasicConsume("q", "c"))
    world.nodes.settle()
    assert client.methods() == []
    queue.close()
    queue.held_publishes.applied_everywhere()
    world.nodes["one"].turn()
    world.nodes.settle()
    world.fail_over()
    world.open("two")
    assert [type(method) for method in client.methods()] == [BasicConsumeOk]


def test_a_conditional_delete_is_checked_by_the_next_master(world: ProxyWorld) -> None:
    queue = world.open("one").queue
    client = world.nodes.client("here")
    client.say(QueueDelete("q", if_unused=True))
    world.nodes.settle()
    queue.close()
    # a change of the replica set outdated the transaction
    world.homes["one"].removals.pop().outdated()
    world.nodes["one"].turn()
    world.nodes["one"].turn()
    world.nodes.settle()
    assert client.methods() == []
    world.fail_over()
    world.open("two")
    world.homes["two"].removals.pop().committed()
    world.nodes["two"].turn()
    world.nodes.settle()
    assert [type(method) for method in client.methods()] == [QueueDeleteOk]


def test_a_conditional_delete_of_a_queue_that_is_gone_succeeds(world: ProxyWorld) -> None:
    client = world.nodes.client("here")
    client.say(QueueDelete("q", if_unused=True))
    world.nodes.settle()
    world.core.node.only_vhost.topology.remove_queue(world.proxy)
    world.proxy.close()
    world.core.turn()
    world.nodes.settle()
    assert [type(method) for method in client.methods()] == [QueueDeleteOk]


def test_a_dead_letter_whose_outcome_the_next_master_does_not_know_is_sent_again(world: ProxyWorld) -> None:
    world.open("one")
    client = world.nodes.client("here")
    client.declare("dying", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"})
    client.publish("dying", b"1")
    client.say(BasicGet("dying"), BasicReject(1, requeue=False))
    world.nodes.settle()
    assert world.intakes["one"].counts == [1]
    world.fail_over()
    intake = world.open("two", known=False)
    world.nodes.settle()
    assert intake.counts == [2]
    world.commit("two")
    assert intake.queue.ready_count() == 1
