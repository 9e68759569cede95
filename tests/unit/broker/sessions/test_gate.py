"""Answers that wait for the disk, and the output that waits behind them."""

import pytest

from tests.support.core_driver import Client, Core, published, sent_to, spoken
from tests.unit.broker.sessions.journalled import JournalledCore, persistent
from warren.broker.model.effects import CloseConnection, SendBytes
from warren.broker.model.events import WritesPaused, WritesResumed
from warren.broker.sessions.connection import OUTPUT_BUDGET_BYTES
from warren.wire.frames import HEARTBEAT_FRAME
from warren.wire.methods import (
    BasicGet,
    ConnectionClose,
    ConnectionCloseOk,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
)

GATED = QueueDeclare(queue="durable", durable=True)


@pytest.fixture
def client(journalled: JournalledCore) -> Client:
    """With a durable queue and exchange and passing ones; the metadata of the node is being written."""
    client = journalled.client()
    client.declare("durable", durable=True)
    client.declare("passing")
    client.say(ExchangeDeclare(exchange="durable", type="fanout", durable=True))
    client.say(ExchangeDeclare(exchange="passing", type="fanout"))
    client.heard()
    journalled.node.pending = True
    return client


# -- which answers wait


@pytest.mark.parametrize(
    "request_",
    [
        GATED,
        QueueDeclare(queue="durable", passive=True),
        QueueDeclare(queue="another", durable=True),
        QueueBind(queue="durable", exchange="durable"),
        QueueUnbind(queue="durable", exchange="durable"),
        QueueDelete(queue="durable"),
        QueueDelete(queue="deleted by another just now"),
        ExchangeDeclare(exchange="durable", type="fanout", durable=True),
        ExchangeDeclare(exchange="durable", passive=True),
        ExchangeDeclare(exchange="another", type="fanout", durable=True),
        ExchangeBind(destination="durable", source="amq.fanout"),
        ExchangeUnbind(destination="durable", source="amq.fanout"),
        ExchangeDelete(exchange="durable"),
    ],
    ids=repr,
)
def test_an_answer_about_something_durable_waits_until_it_is_on_disk(
    journalled: JournalledCore, client: Client, request_: Method
) -> None:
    client.say(request_)
    assert client.names() == []
    journalled.flush()
    assert client.names() == [f"{request_.name}-ok"]
    journalled.node.pending = False
    client.say(QueueDeclare(queue="durable", durable=True))
    assert client.names() == ["queue.declare-ok"]


@pytest.mark.parametrize(
    "request_",
    [
        QueueDeclare(queue="passing"),
        QueueDeclare(queue="mine", durable=True, exclusive=True),
        QueueBind(queue="passing", exchange="durable"),
        ExchangeDeclare(exchange="passing", type="fanout"),
        ExchangeBind(destination="passing", source="durable"),
        BasicGet(queue="durable"),
    ],
    ids=repr,
)
def test_an_answer_about_something_passing_does_not_wait(
    journalled: JournalledCore, client: Client, request_: Method
) -> None:
    client.say(request_)
    assert len(client.names()) == 1
    assert journalled.batches == []


def test_a_request_that_wants_no_answer_holds_nothing_back(journalled: JournalledCore, client: Client) -> None:
    client.say(
        QueueDeclare(queue="new", durable=True, nowait=True),
        QueueDelete(queue="new", nowait=True),
        BasicGet(queue="passing"),
    )
    assert client.names() == ["basic.get-empty"]


@pytest.mark.parametrize(("queue", "waits"), [("durable", True), ("passing", False)])
def test_a_purge_of_a_durable_queue_waits_if_it_had_something(
    journalled: JournalledCore, client: Client, queue: str, waits: bool
) -> None:
    client.say(QueuePurge(queue=queue))
    assert client.names() == ["queue.purge-ok"]
    client.read(persistent(queue, b"x"))
    client.say(QueuePurge(queue=queue))
    assert client.names() == ([] if waits else ["queue.purge-ok"])
    for _ in journalled.batches:
        journalled.flush()
        assert client.names() == ["queue.purge-ok"]


def test_without_a_disk_nothing_waits() -> None:
    client = Core().client()
    client.declare("durable", durable=True)
    client.read(persistent("durable", b"x"))
    client.say(QueuePurge(queue="durable"), BasicGet(queue="durable"))
    assert client.names() == ["queue.purge-ok", "basic.get-empty"]


# -- output behind them


def test_output_behind_a_gate_stays_in_order_and_leaves_in_one_write(
    journalled: JournalledCore, client: Client
) -> None:
    client.say(BasicGet(queue="passing"), GATED, BasicGet(queue="passing"))
    client.say(BasicGet(queue="passing"))
    assert client.heard() == []
    effects = journalled.flush()
    assert client.names() == ["basic.get-empty", "queue.declare-ok", "basic.get-empty", "basic.get-empty"]
    assert len(sent_to(client, effects)) == 1


def test_output_between_two_gates_leaves_with_the_first(journalled: JournalledCore, client: Client) -> None:
    client.say(GATED)
    client.say(BasicGet(queue="passing"))
    client.say(GATED)
    client.say(BasicGet(queue="passing"))
    journalled.flush()
    assert client.names() == ["queue.declare-ok", "basic.get-empty"]
    journalled.flush()
    assert client.names() == ["queue.declare-ok", "basic.get-empty"]


def test_many_gates_of_one_turn_are_one(journalled: JournalledCore, client: Client) -> None:
    client.say(*[GATED] * 5)
    assert [len(waiters) for waiters in journalled.batches] == [1]
    journalled.flush()
    assert client.names() == ["queue.declare-ok"] * 5


def test_others_do_not_wait(journalled: JournalledCore, client: Client) -> None:
    client.say(GATED)
    other = journalled.client()
    other.say(BasicGet(queue="passing"))
    assert other.names() == ["basic.get-empty"]


def test_deliveries_stay_in_their_queue_until_the_gate_opens(journalled: JournalledCore, client: Client) -> None:
    client.consume("passing")
    client.heard()
    client.say(GATED)
    journalled.client().publish("passing", b"1", b"2")
    client.say(BasicGet(queue="durable"))
    assert journalled.timer_at_ms == 0
    assert journalled.node.only_vhost.topology.queues["passing"].ready_count() == 2
    journalled.flush()
    journalled.settle()
    assert client.names() == ["queue.declare-ok", "basic.get-empty", "basic.deliver", "basic.deliver"]


def test_another_consumer_is_served_meanwhile(journalled: JournalledCore, client: Client) -> None:
    other = journalled.client()
    client.consume("passing")
    other.consume("passing")
    other.heard()
    client.say(GATED)
    journalled.client().publish("passing", b"1", b"2")
    assert other.bodies() == [b"1", b"2"]


def test_output_behind_a_gate_counts_as_held(journalled: JournalledCore, client: Client) -> None:
    before = journalled.held_bytes()
    client.say(GATED)
    client.say(BasicGet(queue="passing"))
    held = journalled.held_bytes() - before
    (sent,) = sent_to(client, journalled.flush())
    assert held == len(sent)
    assert journalled.held_bytes() == before


def test_requests_wait_when_too_much_waits_for_the_disk(journalled: JournalledCore, client: Client) -> None:
    client.publish("passing", *[bytes(300_000)] * 10)
    client.say(GATED)
    for _ in range(10):
        client.say(BasicGet(queue="passing", no_ack=True))
    assert journalled.unread == {client.number}
    assert journalled.timer_at_ms == 0
    (sent,) = sent_to(client, journalled.flush())
    assert OUTPUT_BUDGET_BYTES < len(sent) < OUTPUT_BUDGET_BYTES + 400_000
    journalled.settle()
    assert client.names() == ["queue.declare-ok"] + ["basic.get-ok"] * 10
    assert journalled.unread == set()


def test_a_gate_that_opens_for_a_client_that_does_not_read_wakes_it_when_it_reads(
    journalled: JournalledCore, client: Client
) -> None:
    client.consume("passing")
    client.heard()
    client.say(GATED)
    journalled.client().publish("passing", b"1")
    journalled.turn(WritesPaused(client.number))
    journalled.flush()
    journalled.settle()
    assert client.names() == ["queue.declare-ok"]
    journalled.turn(WritesResumed(client.number))
    journalled.settle()
    assert client.names() == ["basic.deliver"]


def test_heartbeats_pass_a_closed_gate(journalled: JournalledCore) -> None:
    client = journalled.client(heartbeat_s=10)
    journalled.node.pending = True
    client.say(GATED)
    assert journalled.pass_ms(5_000).count(SendBytes(client.number, HEARTBEAT_FRAME)) == 1
    client.read(HEARTBEAT_FRAME)
    assert journalled.pass_ms(10_000).count(SendBytes(client.number, HEARTBEAT_FRAME)) == 2
    journalled.flush()
    assert client.names() == ["queue.declare-ok"]


# -- the end of a connection


def test_a_client_that_leaves_in_order_is_answered_in_order(journalled: JournalledCore, client: Client) -> None:
    client.say(GATED)
    client.say(ConnectionClose(200, "bye"), channel=0)
    assert client.heard() == []
    journalled.flush()
    assert client.names() == ["queue.declare-ok", "connection.close-ok"]


def test_a_socket_is_closed_once_and_after_its_gated_output(journalled: JournalledCore, client: Client) -> None:
    client.read(spoken(GATED) + b"\x07" + bytes(6) + b"\xce")
    client.say(ConnectionCloseOk(), channel=0)
    journalled.pass_ms(60_000)
    assert journalled.closed == []
    effects = journalled.flush()
    assert [type(effect) for effect in effects] == [SendBytes, CloseConnection]
    assert client.names() == ["queue.declare-ok", "connection.close"]


def test_gated_output_of_a_lost_client_is_dropped(journalled: JournalledCore, client: Client) -> None:
    before = journalled.held_bytes()
    client.say(GATED)
    client.say(GATED)
    client.lose()
    assert journalled.held_bytes() == before
    assert journalled.flush() + journalled.flush() == []


def test_a_client_that_is_gone_in_the_turn_of_its_request_leaves_nothing(
    journalled: JournalledCore, client: Client
) -> None:
    journalled.connections[client.number].gate()
    client.lose()
    assert journalled.flush() == []
    assert journalled.held_bytes() == 0


def test_unroutable_publishes_are_returned_behind_the_gate(journalled: JournalledCore, client: Client) -> None:
    client.say(GATED)
    client.read(published("nowhere", mandatory=True))
    assert client.heard() == []
    journalled.flush()
    assert client.names() == ["queue.declare-ok", "basic.return"]
