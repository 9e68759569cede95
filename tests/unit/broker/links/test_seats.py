"""A seat keeps what its node published and who consumes, and turns to one master after another with it."""

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


class Taken(MasterIntake):
    """A master that holds what it takes in its queue at once, and calls it safe when the test says so."""

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

    def settle(self) -> None:
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter.flushed()
        if self.places:
            assert self.publisher is not None
            self.publisher.committed(self.places[-1])


class MirroredHome(LocalHome):
    """Keeps those waiting who want a master."""

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


class Seated:
    """Clients at one node; two others, one of which is the master."""

    def __init__(self) -> None:
        self.nodes = Together("here", "one", "two")
        self.homes: dict[str, MirroredHome] = {}
        self.intakes: dict[str, Taken] = {}
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

    def open(self, name: str, mark: int = 0, known: bool = True) -> Taken:
        """That node is master, and takes publishes."""
        core = self.nodes[name]
        core.client().declare("q")
        intake = Taken(core.queue("q"))
        self.intakes[name] = intake
        for waiter in self.homes[name].waiting:
            intake.publisher = waiter
            waiter.opened(intake.queue, intake, mark, known)
        core.turn()
        self.nodes.settle()
        return intake

    def settle(self, name: str) -> None:
        self.intakes[name].settle()
        self.nodes[name].turn()
        self.nodes.settle()

    def fail_over(self) -> None:
        """The first master is lost, and everybody hears that the other is to be the next."""
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
def seated() -> Seated:
    return Seated()


def test_what_is_published_before_there_is_a_master_waits_for_it(seated: Seated) -> None:
    client = seated.publisher()
    client.publish("q", b"first")
    client.publish("q", b"second")
    seated.nodes.settle()
    assert client.methods() == []
    intake = seated.open("one")
    assert intake.counts == [1, 2]
    assert client.methods() == []
    seated.settle("one")
    assert acked(client.methods())[-1] == 2


def test_the_next_master_gets_what_it_lacks_and_nothing_else(seated: Seated) -> None:
    seated.open("one")
    client = seated.publisher()
    for body in (b"1", b"2", b"3", b"4"):
        client.publish("q", body)
    seated.nodes.settle()
    seated.fail_over()
    assert client.methods() == []
    intake = seated.open("two", mark=3)
    assert intake.counts == [4]
    seated.settle("two")
    heard = client.methods()
    assert (acked(heard)[-1], nacked(heard)) == (4, [])


def test_what_was_refused_is_not_sent_again(seated: Seated) -> None:
    intake = seated.open("one")
    client = seated.publisher()
    client.publish("q", b"1")
    seated.nodes.settle()
    intake.refuses = True
    client.publish("q", b"2")
    seated.nodes.settle()
    intake.refuses = False
    client.publish("q", b"3")
    seated.nodes.settle()
    seated.fail_over()
    intake = seated.open("two")
    assert intake.counts == [1, 3]
    seated.settle("two")
    heard = client.methods()
    assert nacked(heard) == [2]
    assert 3 in acked(heard)


def test_nobody_vouches_for_what_was_sent_to_masters_that_are_all_gone(seated: Seated) -> None:
    seated.open("one")
    client = seated.publisher()
    client.publish("q", b"sent")
    seated.nodes.settle()
    seated.fail_over()
    client.publish("q", b"kept")
    seated.nodes.settle()
    intake = seated.open("two", known=False)
    assert intake.counts == [2]
    seated.settle("two")
    heard = client.methods()
    assert (nacked(heard), acked(heard)) == ([1], [2])


def test_without_a_master_for_too_long_the_queue_is_down_and_its_count_goes_on(seated: Seated) -> None:
    seated.open("one")
    client = seated.publisher()
    client.publish("q", b"1")
    seated.nodes.settle()
    seated.fail_over()
    other = seated.nodes.client("here")
    other.say(QueueDeclare("q", passive=True))
    seated.core.now_ms += MASTER_TIMEOUT_MS
    seated.core.turn()
    seated.nodes.settle()
    assert nacked(client.methods()) == [1]
    closed = [method for method in other.methods() if isinstance(method, ChannelClose)]
    assert (
        closed[0].reply_text == "NOT_FOUND - home node 'two' of durable queue 'q' in vhost '/' is down or inaccessible"
    )
    client.publish("q", b"2")
    assert nacked(client.methods()) == [2]
    intake = seated.open("two", mark=1)
    client.publish("q", b"3")
    seated.nodes.settle()
    assert intake.counts == [2]


def test_consumers_go_on_with_the_next_master_unless_they_want_to_know(seated: Seated) -> None:
    seated.open("one")
    quiet, curious = seated.nodes.client("here"), seated.nodes.client("here")
    quiet.say(BasicConsume("q", "quiet"))
    curious.say(BasicConsume("q", "curious", arguments={"x-cancel-on-ha-failover": True}))
    seated.nodes.settle()
    assert any(isinstance(method, BasicConsumeOk) for method in quiet.methods())
    seated.fail_over()
    assert [method.consumer_tag for method in curious.methods() if isinstance(method, BasicCancel)] == ["curious"]
    seated.open("two")
    seated.nodes["two"].client().publish("q", b"hello")
    seated.nodes.settle()
    heard = quiet.methods()
    assert [method.consumer_tag for method in heard if isinstance(method, BasicDeliver)] == ["quiet"]
    assert not any(isinstance(method, BasicCancel) for method in heard)


def test_a_master_that_has_not_heard_of_the_next_one_delivers_nothing_again(seated: Seated) -> None:
    seated.open("one")
    taker = seated.nodes.client("here")
    taker.say(BasicConsume("q", "taker"))
    seated.nodes.settle()
    seated.nodes["one"].client().publish("q", b"held")
    seated.nodes.settle()
    assert any(isinstance(method, BasicDeliver) for method in taker.methods())
    other = seated.nodes["one"].client()
    other.say(BasicConsume("q", "other"))
    seated.proxy.rehome("two")
    seated.core.turn()
    seated.nodes.settle()
    assert not any(isinstance(method, BasicDeliver) for method in other.methods())


def test_what_was_asked_and_not_answered_is_asked_again(seated: Seated) -> None:
    client = seated.nodes.client("here")
    client.say(QueueDeclare("q", passive=True))
    seated.nodes.settle()
    assert client.methods() == []
    seated.fail_over()
    seated.open("two")
    assert [type(method) for method in client.methods()] == [QueueDeclareOk]


def test_whoever_begins_to_consume_as_the_master_steps_down_does_so_at_the_next(seated: Seated) -> None:
    seated.open("one")
    client = seated.nodes.client("here")
    client.say(BasicConsume("q", "c"))
    # the answer is on its way when the queue ends there, and nobody here has heard of another master
    master = seated.nodes["one"]
    asked, seated.core.sent = seated.core.sent, []
    master.turn(*[PeerReceived("here", effect.data) for effect in asked])
    master.queue("q").close()
    master.turn()
    answered, master.sent = master.sent, []
    seated.core.turn(PeerReceived("one", b"".join(effect.data for effect in answered)))
    seated.nodes.settle()
    seated.fail_over()
    seated.open("two")
    seated.nodes["two"].client().publish("q", b"hello")
    seated.nodes.settle()
    assert [type(method) for method in client.methods()] == [BasicConsumeOk, BasicDeliver]


def test_whoever_waited_to_consume_as_the_master_stepped_down_does_so_at_the_next(seated: Seated) -> None:
    queue = seated.open("one").queue
    queue.held_publishes = HeldPublishes(queue, seated.nodes["one"].node.turn, refuses=True)
    client = seated.nodes.client("here")
    client.say(BasicConsume("q", "c"))
    seated.nodes.settle()
    assert client.methods() == []
    queue.close()
    queue.held_publishes.known()
    seated.nodes["one"].turn()
    seated.nodes.settle()
    seated.fail_over()
    seated.open("two")
    assert [type(method) for method in client.methods()] == [BasicConsumeOk]


def test_a_queue_that_was_to_be_deleted_as_the_master_stepped_down_is_checked_by_the_next(seated: Seated) -> None:
    queue = seated.open("one").queue
    client = seated.nodes.client("here")
    client.say(QueueDelete("q", if_unused=True))
    seated.nodes.settle()
    queue.close()
    # the plan was outdated by the ring
    seated.homes["one"].removals.pop().outdated()
    seated.nodes["one"].turn()
    seated.nodes["one"].turn()
    seated.nodes.settle()
    assert client.methods() == []
    seated.fail_over()
    seated.open("two")
    seated.homes["two"].removals.pop().committed()
    seated.nodes["two"].turn()
    seated.nodes.settle()
    assert [type(method) for method in client.methods()] == [QueueDeleteOk]


def test_a_queue_that_is_gone_before_its_deletion_was_checked_is_deleted(seated: Seated) -> None:
    client = seated.nodes.client("here")
    client.say(QueueDelete("q", if_unused=True))
    seated.nodes.settle()
    seated.core.node.only_vhost.topology.remove_queue(seated.proxy)
    seated.proxy.close()
    seated.core.turn()
    seated.nodes.settle()
    assert [type(method) for method in client.methods()] == [QueueDeleteOk]


def test_a_dead_letter_that_nobody_vouches_for_is_sent_again(seated: Seated) -> None:
    seated.open("one")
    client = seated.nodes.client("here")
    client.declare("dying", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"})
    client.publish("dying", b"1")
    client.say(BasicGet("dying"), BasicReject(1, requeue=False))
    seated.nodes.settle()
    assert seated.intakes["one"].counts == [1]
    seated.fail_over()
    intake = seated.open("two", known=False)
    seated.nodes.settle()
    assert intake.counts == [2]
    seated.settle("two")
    assert intake.queue.ready_count() == 1
