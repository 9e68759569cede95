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
def core() -> JournalledCore:
    return JournalledCore()


@pytest.fixture
def client(core: JournalledCore) -> Client:
    """With a durable queue and exchange and passing ones; the metadata of the node is being written."""
    client = core.client()
    client.declare("durable", durable=True)
    client.declare("passing")
    client.say(ExchangeDeclare(exchange="durable", type="fanout", durable=True))
    client.say(ExchangeDeclare(exchange="passing", type="fanout"))
    client.heard()
    core.node.pending = True
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
    core: JournalledCore, client: Client, request_: Method
) -> None:
    client.say(request_)
    assert client.names() == []
    core.flush()
    assert client.names() == [f"{request_.name}-ok"]
    core.node.pending = False
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
    core: JournalledCore, client: Client, request_: Method
) -> None:
    client.say(request_)
    assert len(client.names()) == 1
    assert core.batches == []


def test_a_request_that_wants_no_answer_holds_nothing_back(core: JournalledCore, client: Client) -> None:
    client.say(
        QueueDeclare(queue="new", durable=True, nowait=True),
        QueueDelete(queue="new", nowait=True),
        BasicGet(queue="passing"),
    )
    assert client.names() == ["basic.get-empty"]


@pytest.mark.parametrize(("queue", "waits"), [("durable", True), ("passing", False)])
def test_a_purge_of_a_durable_queue_waits_if_it_had_something(
    core: JournalledCore, client: Client, queue: str, waits: bool
) -> None:
    client.say(QueuePurge(queue=queue))
    assert client.names() == ["queue.purge-ok"]
    client.read(persistent(queue, b"x"))
    client.say(QueuePurge(queue=queue))
    assert client.names() == ([] if waits else ["queue.purge-ok"])
    for _ in core.batches:
        core.flush()
        assert client.names() == ["queue.purge-ok"]


def test_without_a_disk_nothing_waits() -> None:
    client = Core().client()
    client.declare("durable", durable=True)
    client.read(persistent("durable", b"x"))
    client.say(QueuePurge(queue="durable"), BasicGet(queue="durable"))
    assert client.names() == ["queue.purge-ok", "basic.get-empty"]


# -- output behind them


def test_what_follows_keeps_its_place_and_leaves_in_one_write(core: JournalledCore, client: Client) -> None:
    client.say(BasicGet(queue="passing"), GATED, BasicGet(queue="passing"))
    client.say(BasicGet(queue="passing"))
    assert client.heard() == []
    effects = core.flush()
    assert client.names() == ["basic.get-empty", "queue.declare-ok", "basic.get-empty", "basic.get-empty"]
    assert len(sent_to(client, effects)) == 1


def test_what_was_written_between_two_gates_leaves_with_the_first(core: JournalledCore, client: Client) -> None:
    client.say(GATED)
    client.say(BasicGet(queue="passing"))
    client.say(GATED)
    client.say(BasicGet(queue="passing"))
    core.flush()
    assert client.names() == ["queue.declare-ok", "basic.get-empty"]
    core.flush()
    assert client.names() == ["queue.declare-ok", "basic.get-empty"]


def test_many_gates_of_one_turn_are_one(core: JournalledCore, client: Client) -> None:
    client.say(*[GATED] * 5)
    assert [len(waiters) for waiters in core.batches] == [1]
    core.flush()
    assert client.names() == ["queue.declare-ok"] * 5


def test_others_do_not_wait(core: JournalledCore, client: Client) -> None:
    client.say(GATED)
    other = core.client()
    other.say(BasicGet(queue="passing"))
    assert other.names() == ["basic.get-empty"]


def test_deliveries_stay_in_their_queue_until_the_gate_opens(core: JournalledCore, client: Client) -> None:
    client.consume("passing")
    client.heard()
    client.say(GATED)
    core.client().publish("passing", b"1", b"2")
    client.say(BasicGet(queue="durable"))
    assert core.timer_at_ms == 0
    assert core.node.only_vhost.topology.queues["passing"].ready_count() == 2
    core.flush()
    core.settle()
    assert client.names() == ["queue.declare-ok", "basic.get-empty", "basic.deliver", "basic.deliver"]


def test_another_consumer_is_served_meanwhile(core: JournalledCore, client: Client) -> None:
    other = core.client()
    client.consume("passing")
    other.consume("passing")
    other.heard()
    client.say(GATED)
    core.client().publish("passing", b"1", b"2")
    assert other.bodies() == [b"1", b"2"]


def test_what_waits_counts_as_held(core: JournalledCore, client: Client) -> None:
    before = core.held_bytes()
    client.say(GATED)
    client.say(BasicGet(queue="passing"))
    held = core.held_bytes() - before
    (sent,) = sent_to(client, core.flush())
    assert held == len(sent)
    assert core.held_bytes() == before


def test_requests_wait_when_too_much_waits_for_the_disk(core: JournalledCore, client: Client) -> None:
    client.publish("passing", *[bytes(300_000)] * 10)
    client.say(GATED)
    for _ in range(10):
        client.say(BasicGet(queue="passing", no_ack=True))
    assert core.unread == {client.number}
    assert core.timer_at_ms == 0
    (sent,) = sent_to(client, core.flush())
    assert OUTPUT_BUDGET_BYTES < len(sent) < OUTPUT_BUDGET_BYTES + 400_000
    core.settle()
    assert client.names() == ["queue.declare-ok"] + ["basic.get-ok"] * 10
    assert core.unread == set()


def test_a_gate_that_opens_for_a_client_that_does_not_read_wakes_it_when_it_reads(
    core: JournalledCore, client: Client
) -> None:
    client.consume("passing")
    client.heard()
    client.say(GATED)
    core.client().publish("passing", b"1")
    core.turn(WritesPaused(client.number))
    core.flush()
    core.settle()
    assert client.names() == ["queue.declare-ok"]
    core.turn(WritesResumed(client.number))
    core.settle()
    assert client.names() == ["basic.deliver"]


def test_heartbeats_pass_a_closed_gate(core: JournalledCore) -> None:
    client = core.client(heartbeat_s=10)
    core.node.pending = True
    client.say(GATED)
    assert core.pass_ms(5_000).count(SendBytes(client.number, HEARTBEAT_FRAME)) == 1
    client.read(HEARTBEAT_FRAME)
    assert core.pass_ms(10_000).count(SendBytes(client.number, HEARTBEAT_FRAME)) == 2
    core.flush()
    assert client.names() == ["queue.declare-ok"]


# -- the end of a connection


def test_a_client_that_leaves_in_order_is_answered_in_order(core: JournalledCore, client: Client) -> None:
    client.say(GATED)
    client.say(ConnectionClose(200, "bye"), channel=0)
    assert client.heard() == []
    core.flush()
    assert client.names() == ["queue.declare-ok", "connection.close-ok"]


def test_a_socket_is_closed_once_and_after_what_waits(core: JournalledCore, client: Client) -> None:
    client.read(spoken(GATED) + b"\x07" + bytes(6) + b"\xce")
    client.say(ConnectionCloseOk(), channel=0)
    core.pass_ms(60_000)
    assert core.closed == []
    effects = core.flush()
    assert [type(effect) for effect in effects] == [SendBytes, CloseConnection]
    assert client.names() == ["queue.declare-ok", "connection.close"]


def test_what_waited_for_a_client_that_is_gone_is_dropped(core: JournalledCore, client: Client) -> None:
    before = core.held_bytes()
    client.say(GATED)
    client.say(GATED)
    client.lose()
    assert core.held_bytes() == before
    assert core.flush() + core.flush() == []


def test_a_client_that_is_gone_in_the_turn_of_its_request_leaves_nothing(core: JournalledCore, client: Client) -> None:
    core.connections[client.number].gate()
    client.lose()
    assert core.flush() == []
    assert core.held_bytes() == 0


def test_unroutable_publishes_are_returned_behind_the_gate(core: JournalledCore, client: Client) -> None:
    client.say(GATED)
    client.read(published("nowhere", mandatory=True))
    assert client.heard() == []
    core.flush()
    assert client.names() == ["queue.declare-ok", "basic.return"]
