"""A basic.get whose message is on disk: it waits for the read, and further input waits behind it."""

import pytest

from tests.support.core_driver import Client, spoken
from tests.unit.broker.sessions.journalled import JournalledCore, Log, paged
from warren.broker.model.effects import PauseReading, ResumeReading
from warren.broker.model.events import StopRequested
from warren.errors import NOT_FOUND
from warren.wire.methods import (
    BasicGet,
    BasicGetEmpty,
    ChannelClose,
    ConnectionClose,
    ConnectionCloseOk,
    QueueDeclare,
    QueueDelete,
)

GET = BasicGet(queue="q", no_ack=True)


@pytest.fixture
def core() -> JournalledCore:
    return JournalledCore()


@pytest.fixture
def client(core: JournalledCore) -> Client:
    client = core.client()
    client.declare("q", durable=True)
    return client


@pytest.fixture
def log(core: JournalledCore, client: Client) -> Log:
    """The log of `q`, which has two messages on disk only."""
    return paged(client, core, "q", b"1", b"2")


def test_a_get_is_answered_when_its_message_was_read(core: JournalledCore, client: Client, log: Log) -> None:
    assert PauseReading(client.number) in client.say(GET)
    assert client.heard() == []
    log.read()
    assert ResumeReading(client.number) in core.turn()
    assert client.bodies() == [b"1"]


def test_nothing_is_tried_again_meanwhile(core: JournalledCore, client: Client, log: Log) -> None:
    client.say(GET)
    assert core.timer_at_ms == 0
    assert core.turn() == []
    assert core.node.turn.inputs == []


def test_what_follows_a_waiting_get_is_answered_after_it(core: JournalledCore, client: Client, log: Log) -> None:
    client.say(GET, GET, GET, QueueDeclare(queue="other"))
    log.read()
    core.settle()
    core.turn()
    assert client.names() == ["basic.get-ok", "basic.get-ok", "basic.get-empty", "queue.declare-ok"]
    assert core.unread == set()


def test_what_is_read_in_pieces_meanwhile_comes_after_it(core: JournalledCore, client: Client, log: Log) -> None:
    late = spoken(QueueDeclare(queue="late"))
    client.say(GET)
    client.read(late[:5])
    client.read(late[5:])
    assert client.heard() == []
    log.read()
    core.turn()
    assert client.names() == ["basic.get-ok", "queue.declare-ok"]


def test_others_are_answered_meanwhile(core: JournalledCore, client: Client, log: Log) -> None:
    other = core.client()
    client.say(GET)
    other.declare("other")
    other.say(BasicGet(queue="other"))
    assert other.methods() == [BasicGetEmpty()]


def test_replies_after_a_get_that_waited_leave_in_slices(core: JournalledCore, client: Client) -> None:
    log = paged(client, core, "q", *[bytes(300_000)] * 10)
    client.say(*[GET] * 10)
    log.read()
    core.turn()
    assert 0 < len(client.heard()) < 10
    core.settle()
    core.turn()
    assert core.unread == set()
    client.say(GET)
    assert client.names()[-1] == "basic.get-empty"


def test_two_clients_that_wait_get_a_message_each(core: JournalledCore, client: Client, log: Log) -> None:
    other = core.client()
    client.say(GET)
    other.say(GET)
    log.read()
    core.turn()
    assert (client.bodies(), other.bodies()) == ([b"1"], [b"2"])


def test_a_get_whose_queue_is_deleted_meanwhile_fails(core: JournalledCore, client: Client, log: Log) -> None:
    other = core.client()
    client.say(GET)
    other.say(QueueDelete(queue="q"))
    core.settle()
    core.turn()
    (fault,) = client.methods()
    assert isinstance(fault, ChannelClose)
    assert (fault.reply_code, fault.reply_text) == (NOT_FOUND, "NOT_FOUND - no queue 'q' in vhost '/'")
    assert core.unread == set()


def test_a_get_whose_queue_turns_out_to_be_damaged_fails(core: JournalledCore, client: Client, log: Log) -> None:
    client.say(GET)
    log.damage()
    core.turn()
    (fault,) = client.methods()
    assert isinstance(fault, ChannelClose)
    assert fault.reply_code == NOT_FOUND
    assert "segment 1 is damaged" in fault.reply_text


def test_a_client_that_leaves_while_its_get_waits_takes_nothing(core: JournalledCore, client: Client, log: Log) -> None:
    other = core.client()
    client.say(GET)
    client.lose()
    log.read()
    assert core.turn() == []
    other.say(GET)
    assert other.bodies() == [b"1"]


def test_a_client_that_is_dismissed_while_its_get_waits_may_answer(
    core: JournalledCore, client: Client, log: Log
) -> None:
    client.say(GET)
    core.turn(StopRequested())
    assert core.unread == set()
    client.say(ConnectionCloseOk(), channel=0)
    assert core.closed == [client.number]
    log.read()
    assert core.turn() == []
    (farewell,) = client.methods()
    assert isinstance(farewell, ConnectionClose)
