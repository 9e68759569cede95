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
def client(journalled: JournalledCore) -> Client:
    client = journalled.client()
    client.declare("q", durable=True)
    return client


@pytest.fixture
def log(journalled: JournalledCore, client: Client) -> Log:
    """The log of `q`, which has two messages on disk only."""
    return paged(client, journalled, "q", b"1", b"2")


def test_a_get_is_answered_when_its_message_was_read(journalled: JournalledCore, client: Client, log: Log) -> None:
    assert PauseReading(client.number) in client.say(GET)
    assert client.heard() == []
    log.read()
    assert ResumeReading(client.number) in journalled.turn()
    assert client.bodies() == [b"1"]


def test_nothing_is_tried_again_meanwhile(journalled: JournalledCore, client: Client, log: Log) -> None:
    client.say(GET)
    assert journalled.timer_at_ms == 0
    assert journalled.turn() == []
    assert journalled.node.turn.inputs == []


def test_methods_after_a_waiting_get_are_answered_after_it(
    journalled: JournalledCore, client: Client, log: Log
) -> None:
    client.say(GET, GET, GET, QueueDeclare(queue="other"))
    log.read()
    journalled.settle()
    journalled.turn()
    assert client.names() == ["basic.get-ok", "basic.get-ok", "basic.get-empty", "queue.declare-ok"]
    assert journalled.unread == set()


def test_input_read_in_pieces_during_a_waiting_get_is_handled_after_it(
    journalled: JournalledCore, client: Client, log: Log
) -> None:
    late = spoken(QueueDeclare(queue="late"))
    client.say(GET)
    client.read(late[:5])
    client.read(late[5:])
    assert client.heard() == []
    log.read()
    journalled.turn()
    assert client.names() == ["basic.get-ok", "queue.declare-ok"]


def test_others_are_answered_meanwhile(journalled: JournalledCore, client: Client, log: Log) -> None:
    other = journalled.client()
    client.say(GET)
    other.declare("other")
    other.say(BasicGet(queue="other"))
    assert other.methods() == [BasicGetEmpty()]


def test_replies_after_a_get_that_waited_leave_in_slices(journalled: JournalledCore, client: Client) -> None:
    log = paged(client, journalled, "q", *[bytes(300_000)] * 10)
    client.say(*[GET] * 10)
    log.read()
    journalled.turn()
    assert 0 < len(client.heard()) < 10
    journalled.settle()
    journalled.turn()
    assert journalled.unread == set()
    client.say(GET)
    assert client.names()[-1] == "basic.get-empty"


def test_two_clients_that_wait_get_a_message_each(journalled: JournalledCore, client: Client, log: Log) -> None:
    other = journalled.client()
    client.say(GET)
    other.say(GET)
    log.read()
    journalled.turn()
    assert (client.bodies(), other.bodies()) == ([b"1"], [b"2"])


def test_a_get_whose_queue_is_deleted_meanwhile_fails(journalled: JournalledCore, client: Client, log: Log) -> None:
    other = journalled.client()
    client.say(GET)
    other.say(QueueDelete(queue="q"))
    journalled.settle()
    journalled.turn()
    (fault,) = client.methods()
    assert isinstance(fault, ChannelClose)
    assert (fault.reply_code, fault.reply_text) == (NOT_FOUND, "NOT_FOUND - no queue 'q' in vhost '/'")
    assert journalled.unread == set()


def test_a_get_whose_queue_turns_out_to_be_damaged_fails(journalled: JournalledCore, client: Client, log: Log) -> None:
    client.say(GET)
    log.damage()
    journalled.turn()
    (fault,) = client.methods()
    assert isinstance(fault, ChannelClose)
    assert fault.reply_code == NOT_FOUND
    assert "segment 1 is damaged" in fault.reply_text


def test_a_client_that_leaves_while_its_get_waits_takes_nothing(
    journalled: JournalledCore, client: Client, log: Log
) -> None:
    other = journalled.client()
    client.say(GET)
    client.lose()
    log.read()
    assert journalled.turn() == []
    other.say(GET)
    assert other.bodies() == [b"1"]


def test_a_client_that_is_dismissed_while_its_get_waits_may_answer(
    journalled: JournalledCore, client: Client, log: Log
) -> None:
    client.say(GET)
    journalled.turn(StopRequested())
    assert journalled.unread == set()
    client.say(ConnectionCloseOk(), channel=0)
    assert journalled.closed == [client.number]
    log.read()
    assert journalled.turn() == []
    (farewell,) = client.methods()
    assert isinstance(farewell, ConnectionClose)
