"""A seat keeps what its node published and who consumes, and turns to one master after another with it."""

import pytest

from tests.support.core_driver import Client
from tests.unit.remote.linked import LinkedCore, LocalHome, Together
from warren.model.message import Message
from warren.model.mirrored import Intake, MasterWaiter
from warren.model.ports import PENDING, REJECTED
from warren.model.turn import FlushWaiter
from warren.queue.queue import Queue
from warren.remote.links import Links
from warren.remote.seat import PATIENCE_MS, Seat
from warren.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicNack,
    ChannelClose,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)

QUEUE_ID = 7


class Taken(Intake):
    """A master that holds what it takes in its queue at once, and calls it safe when the test says so."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.counts: list[int] = []
        self.waiters: list[FlushWaiter] = []
        self.refuses = False

    def publish(self, count: int, message: Message, counted: bool) -> int:
        if self.refuses:
            return REJECTED
        self.counts.append(count)
        self.queue.publish(message)
        return PENDING

    def await_safe(self, waiter: FlushWaiter) -> None:
        self.waiters.append(waiter)

    def settle(self) -> None:
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter.flushed()


class MirroredHome(LocalHome):
    """Keeps those waiting who want a master."""

    def __init__(self, core: LinkedCore) -> None:
        super().__init__(core)
        self.waiting: list[MasterWaiter] = []

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
            core.links = Links(core.node.turn, self.homes[name])
        for name in ("one", "two"):
            self.nodes.cut_link("here", name)
            self.nodes.link("here", name)
        self.core = self.nodes["here"]
        self.seat = Seat("/", "q", True, False, {}, "one", QUEUE_ID, self.core.links)
        self.core.queues["q"] = self.seat
        self.core.turn()
        self.nodes.settle()

    def open(self, name: str, mark: int = 0, known: bool = True) -> Taken:
        """That node is master, and takes publishes."""
        core = self.nodes[name]
        core.client().declare("q")
        intake = Taken(core.queue("q"))
        self.intakes[name] = intake
        for waiter in self.homes[name].waiting:
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
        self.seat.rehome("two")
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
    seated.core.now_ms += PATIENCE_MS
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


def test_what_was_asked_and_not_answered_is_asked_again(seated: Seated) -> None:
    client = seated.nodes.client("here")
    client.say(QueueDeclare("q", passive=True))
    seated.nodes.settle()
    assert client.methods() == []
    seated.fail_over()
    seated.open("two")
    assert [type(method) for method in client.methods()] == [QueueDeclareOk]
