"""Methods that wait for a metadata transaction: nothing overtakes them, and each is answered once."""

import pytest

from tests.support.core_driver import Client, published, spoken
from tests.unit.broker.sessions.deferred_core import DeferredCore
from warren.broker.access.limits import MAX_QUEUES
from warren.broker.metadata.topology_definitions import QueueDefinition
from warren.broker.model.events import StopRequested
from warren.errors import PRECONDITION_FAILED, ChannelFault
from warren.wire.methods import (
    BasicConsume,
    BasicGet,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConnectionCloseOk,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueueUnbind,
)


@pytest.fixture
def core() -> DeferredCore:
    return DeferredCore()


@pytest.fixture
def client(core: DeferredCore) -> Client:
    return core.client()


def made(core: DeferredCore, client: Client, *methods: Method) -> None:
    """Send these, and commit all their transactions."""
    for method in methods:
        client.say(method)
        core.grant()
    client.heard()


# -- committed


def test_a_declare_is_answered_once_it_is_committed(core: DeferredCore, client: Client) -> None:
    client.say(QueueDeclare("q"))
    assert (client.heard(), core.backend.keys()) == ([], [["queues/%2F/q"]])
    assert "q" not in core.vhost.topology.queues
    core.grant()
    assert client.methods() == [QueueDeclareOk("q", 0, 0)]


def test_methods_after_a_pending_declare_wait(core: DeferredCore, client: Client) -> None:
    client.read(spoken(QueueDeclare("q")) + published("q", b"one") + spoken(QueueDeclare("r")))
    client.read(published("q", b"two") + spoken(BasicGet("q", no_ack=True)))
    assert client.number in core.unread
    assert len(core.backend.waiting) == 1
    core.grant()
    assert client.names() == ["queue.declare-ok"]
    assert core.vhost.topology.queues["q"].ready_count() == 1
    core.grant()
    assert client.names() == ["queue.declare-ok", "basic.get-ok"]
    assert core.vhost.topology.queues["q"].ready_count() == 1
    assert client.number not in core.unread


def test_others_do_not_wait(core: DeferredCore, client: Client) -> None:
    made(core, client, QueueDeclare("there"))
    client.say(QueueDeclare("q"))
    other = core.client()
    other.say(QueueDeclare("there"))
    assert other.methods() == [QueueDeclareOk("there", 0, 0)]


def test_a_queue_keeps_the_name_it_was_given(core: DeferredCore, client: Client) -> None:
    client.say(QueueDeclare(""))
    core.outdate()
    core.grant()
    (answer,) = client.methods()
    assert isinstance(answer, QueueDeclareOk)
    assert list(core.vhost.topology.queues) == [answer.queue]
    client.say(QueueDeclare(""))
    core.grant()
    assert len(core.vhost.topology.queues) == 2


@pytest.mark.parametrize(
    ("method", "keys"),
    [
        (ExchangeDeclare("new", "direct"), ["exchanges/%2F/new"]),
        (QueueBind("q", "e", "k"), ["bindings/%2F/e/q/q/k/-"]),
        (ExchangeBind("f", "e", "k"), ["bindings/%2F/e/e/f/k/-"]),
        (QueueUnbind("q", "e", "there"), ["bindings/%2F/e/q/q/there/-"]),
        (ExchangeUnbind("f", "e", "there"), ["bindings/%2F/e/e/f/there/-"]),
        (ExchangeDelete("f"), ["bindings/%2F/e/e/f/there/-", "exchanges/%2F/f"]),
        (QueueDelete("q"), ["bindings/%2F/e/q/q/there/-", "queues/%2F/q"]),
    ],
)
def test_every_change_is_committed_and_answered_once(
    core: DeferredCore, client: Client, method: Method, keys: list[str]
) -> None:
    made(core, client, ExchangeDeclare("e", "topic"), ExchangeDeclare("f", "topic"), QueueDeclare("q"))
    made(core, client, QueueBind("q", "e", "there"), ExchangeBind("f", "e", "there"))
    client.say(method)
    assert (client.heard(), core.backend.keys()) == ([], [keys])
    core.grant()
    assert (client.names(), core.backend.waiting) == ([f"{method.name}-ok"], [])


def test_nowait_is_not_answered_and_still_nothing_overtakes_it(core: DeferredCore, client: Client) -> None:
    client.say(QueueDeclare("q", nowait=True), QueueBind("q", "amq.fanout", nowait=True), QueueDeclare("q"))
    core.grant(2)
    assert client.names() == ["queue.declare-ok"]
    assert len(core.vhost.topology.bindings_of(core.vhost.topology.queues["q"])) == 1
    client.say(QueueDelete("q", nowait=True), QueueDeclare("q", passive=True))
    core.grant()
    assert client.names() == ["channel.close"]


def test_a_declare_without_changes_needs_no_commit(core: DeferredCore, client: Client) -> None:
    made(core, client, QueueDeclare("q"), QueueBind("q", "amq.fanout"))
    client.say(QueueDeclare("q"), QueueBind("q", "amq.fanout"), QueueUnbind("q", "amq.direct"), QueueDelete("none"))
    assert client.names() == ["queue.declare-ok", "queue.bind-ok", "queue.unbind-ok", "queue.delete-ok"]
    assert core.backend.waiting == []


def test_delete_ok_has_the_count_of_deleted_messages(core: DeferredCore, client: Client) -> None:
    made(core, client, QueueDeclare("q"))
    client.publish("q", b"one", b"two")
    client.say(QueueDelete("q"))
    core.client().publish("q", b"three")
    core.grant()
    assert client.methods() == [QueueDeleteOk(2)]


def test_the_consumers_of_a_deleted_queue_are_cancelled_once(core: DeferredCore, client: Client) -> None:
    made(core, client, QueueDeclare("q"))
    client.say(BasicConsume("q", consumer_tag="c"))
    client.heard()
    client.say(QueueDelete("q"))
    core.grant()
    assert client.names() == ["basic.cancel", "queue.delete-ok"]


def test_a_queue_that_is_declared_again_at_once_is_not_deleted_again(core: DeferredCore, client: Client) -> None:
    made(core, client, QueueDeclare("q"))
    other = core.client()
    client.say(QueueDelete("q"))
    core.backend.grant()
    other.core.node.only_vhost.declare_queues(
        [QueueDefinition(other.core.node.only_vhost.name, "q", False, False, False, {})]
    )
    core.backend.grant()
    core.turn()
    assert client.names() == ["queue.delete-ok"]
    assert ("q" in core.vhost.topology.queues, core.backend.waiting) == (True, [])


# -- several at once


def test_pipelined_declares_are_committed_together_and_answered_singly(core: DeferredCore, client: Client) -> None:
    client.say(*[QueueDeclare(name, durable=True) for name in "abc"], QueueDeclare("d", exclusive=True))
    assert core.backend.keys() == [[f"queues/%2F/{name}" for name in "abcd"]]
    core.grant()
    assert client.methods() == [QueueDeclareOk(name, 0, 0) for name in "abcd"]
    assert core.vhost.topology.queues["d"].owner_id == client.number
    assert core.backend.waiting == []


@pytest.mark.parametrize(
    ("stranger", "answers"),
    [
        (QueueDeclare("there"), ["declare-ok", "declare-ok"]),
        (QueueDeclare("there", auto_delete=True), []),
        (QueueDeclare("q", auto_delete=True), []),
        (QueueDeclare("none", passive=True), []),
        (QueueDeclare("amq.q"), []),
        (QueueDeclare("x", arguments={"x-expires": -1}), []),
        (QueueBind("q", "amq.fanout"), ["bind-ok", "declare-ok"]),
    ],
    ids=["there", "there but different", "twice", "asked for", "reserved", "invalid", "another method"],
)
def test_a_row_of_declares_ends_before_a_method_with_another_outcome(
    core: DeferredCore, client: Client, stranger: Method, answers: list[str]
) -> None:
    made(core, client, QueueDeclare("there"))
    client.say(QueueDeclare("q"), stranger, QueueDeclare("r"))
    assert core.backend.keys() == [["queues/%2F/q"]]
    while core.backend.waiting:
        core.grant()
    if answers:
        assert client.names() == ["queue.declare-ok", *[f"queue.{answer}" for answer in answers]]
    else:
        assert client.names() == ["queue.declare-ok", "channel.close"]
        assert "r" not in core.vhost.topology.queues


def test_a_row_ends_where_the_client_has_not_finished_speaking(core: DeferredCore, client: Client) -> None:
    third = spoken(QueueDeclare("c"))
    client.read(spoken(QueueDeclare("a"), QueueDeclare("b")) + third[:-1])
    assert core.backend.keys() == [["queues/%2F/a", "queues/%2F/b"]]
    client.read(third[-1:])
    core.grant()
    assert core.backend.keys() == [["queues/%2F/c"]]
    core.grant()
    assert client.methods() == [QueueDeclareOk(name, 0, 0) for name in "abc"]


def test_a_row_is_of_one_channel(core: DeferredCore, client: Client) -> None:
    client.say(ChannelOpen(), channel=2)
    client.heard()
    client.read(spoken(QueueDeclare("a")) + spoken(QueueDeclare("b"), channel=2) + spoken(QueueDeclare("c")))
    assert core.backend.keys() == [["queues/%2F/a"]]
    core.grant(3)
    assert client.names() == ["queue.declare-ok"] * 3


def test_a_row_has_no_more_queues_than_its_virtual_host_may_have(core: DeferredCore, client: Client) -> None:
    core.vhost.limits[MAX_QUEUES] = 2
    client.say(*[QueueDeclare(name) for name in "abc"])
    assert core.backend.keys() == [["queues/%2F/a", "queues/%2F/b"]]
    core.grant()
    assert client.names() == ["queue.declare-ok", "queue.declare-ok", "channel.close"]


def test_an_outdated_row_of_transactions_continues_at_the_outdated_one(core: DeferredCore, client: Client) -> None:
    other = core.client()
    client.say(*[QueueDeclare(name) for name in "abc"])
    other.say(QueueDeclare("b"))
    core.backend.waiting.reverse()
    core.grant()
    core.outdate()
    assert core.backend.keys() == [["queues/%2F/a"]]
    core.grant()
    core.grant()
    assert client.methods() == [QueueDeclareOk(name, 0, 0) for name in "abc"]


# -- outdated


def test_an_outdated_transaction_is_proposed_again(core: DeferredCore, client: Client) -> None:
    client.say(QueueDeclare("q"))
    core.outdate()
    assert (client.heard(), core.backend.keys()) == ([], [["queues/%2F/q"]])
    core.grant()
    assert client.methods() == [QueueDeclareOk("q", 0, 0)]


def test_a_declare_is_checked_against_objects_that_others_made_meanwhile(core: DeferredCore, client: Client) -> None:
    other = core.client()
    client.say(QueueDeclare("q", auto_delete=True))
    other.say(QueueDeclare("q"))
    core.backend.waiting.reverse()
    core.grant()
    core.outdate()
    (answer,) = client.methods()
    assert isinstance(answer, ChannelClose)
    assert (answer.reply_code, "inequivalent arg 'auto_delete'" in answer.reply_text) == (PRECONDITION_FAILED, True)


def test_conditions_are_looked_at_again(core: DeferredCore, client: Client) -> None:
    made(core, client, QueueDeclare("q"))
    client.say(QueueDelete("q", if_empty=True))
    core.client().publish("q", b"late")
    core.outdate()
    (answer,) = client.methods()
    assert isinstance(answer, ChannelClose)
    assert answer.reply_text.endswith("queue 'q' in vhost '/' not empty")


# -- failed


def test_a_failed_transaction_closes_the_channel(core: DeferredCore, client: Client) -> None:
    client.say(QueueDeclare("q"), QueueDeclare("never looked at"))
    core.fail("the store cannot be reached")
    (answer,) = client.methods()
    assert isinstance(answer, ChannelClose)
    assert (answer.reply_code, answer.blamed_class_id, answer.blamed_method_id) == (PRECONDITION_FAILED, 50, 10)
    assert answer.reply_text.endswith("could not agree: the store cannot be reached")
    client.say(ChannelCloseOk(), ChannelOpen(), QueueDeclare("q"))
    core.grant()
    assert client.names() == ["channel.open-ok", "queue.declare-ok"]


# -- connections that ended


def test_a_disconnected_client_is_not_answered(core: DeferredCore, client: Client) -> None:
    client.say(QueueDeclare("q"), QueueDelete("q"))
    client.lose()
    core.backend.grant()
    assert core.node.turn.inputs == []
    core.turn()
    assert (list(core.vhost.topology.queues), core.backend.waiting) == (["q"], [])


@pytest.mark.parametrize("outcome", ["agreed", "outdated", "failed"])
def test_a_connection_that_ends_meanwhile_reads_on_without_it(core: DeferredCore, client: Client, outcome: str) -> None:
    client.say(QueueDeclare("q"))
    core.turn(StopRequested())
    assert client.names() == ["connection.close"]
    {"agreed": core.grant, "outdated": core.outdate, "failed": core.fail}[outcome]()
    assert (client.names(), core.backend.waiting) == ([], [])
    client.say(ConnectionCloseOk(), channel=0)
    assert core.closed == [client.number]


def test_an_exclusive_queue_of_an_ended_connection_is_deleted_as_soon_as_it_is_made(
    core: DeferredCore, client: Client
) -> None:
    client.say(QueueDeclare("q", exclusive=True))
    client.lose()
    core.grant()
    assert core.vhost.queue("q") is None
    core.grant()
    assert core.vhost.topology.queues == {}


@pytest.mark.parametrize("leaves", ["lost", "closing"])
def test_a_late_exclusive_queue_is_deleted_if_its_owner_has_ended(
    core: DeferredCore, client: Client, leaves: str
) -> None:
    client.say(QueueDeclare("q", exclusive=True))
    late = core.backend.waiting[0][0]
    core.fail("no answer")
    if leaves == "lost":
        client.lose()
    else:
        core.turn(StopRequested())
    core.backend.submit(late, None)
    core.grant()
    assert core.vhost.queue("q") is None
    core.grant()
    assert core.vhost.topology.queues == {}


def test_a_late_exclusive_queue_belongs_to_its_owner(core: DeferredCore, client: Client) -> None:
    client.say(QueueDeclare("q", exclusive=True))
    late = core.backend.waiting[0][0]
    core.fail("no answer")
    core.backend.submit(late, None)
    core.grant()
    assert core.vhost.queue("q") is not None
    client.lose()
    core.grant()
    assert core.vhost.topology.queues == {}


def test_a_channel_that_was_closed_meanwhile_lets_its_connection_go_on(core: DeferredCore, client: Client) -> None:
    client.say(ChannelOpen(), channel=2)
    client.heard()
    client.read(spoken(QueueDeclare("q")) + spoken(QueueDeclare("r"), channel=2))
    channel = core.connections[client.number].channels[1]
    channel.fail(ChannelFault(PRECONDITION_FAILED, "too slow"), 0, 0)
    core.outdate()
    assert core.backend.keys() == [["queues/%2F/r"]]
    core.grant()
    assert client.names() == ["channel.close", "queue.declare-ok"]


# -- queues with a pending delete


def test_a_declare_of_a_queue_with_a_pending_delete_waits_for_the_delete(core: DeferredCore, client: Client) -> None:
    made(core, client, QueueDeclare("q", exclusive=True))
    client.lose()
    other = core.client()
    other.say(QueueDeclare("q", auto_delete=True))
    assert (other.heard(), len(core.backend.waiting)) == ([], 1)
    core.grant(2)
    assert other.methods() == [QueueDeclareOk("q", 0, 0)]
    assert core.vhost.topology.queues["q"].auto_delete


def test_a_declare_that_waits_for_a_delete_fails_if_the_delete_does(core: DeferredCore, client: Client) -> None:
    made(core, client, QueueDeclare("q", exclusive=True))
    client.lose()
    other = core.client()
    other.say(QueueDeclare("q"))
    core.fail("no majority")
    (answer,) = other.methods()
    assert isinstance(answer, ChannelClose)
    assert answer.reply_text.endswith("no majority")
    core.pass_ms(1000)
    core.grant()
    assert (core.vhost.topology.queues, other.heard()) == ({}, [])
