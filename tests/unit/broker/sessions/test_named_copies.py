"""A queue that copies another, as clients notice it: confirms, returns, transactions, dead letters, delays."""

import pytest

from tests.support.core_driver import Client, Core, published, spoken
from warren.broker.commands.requests import DeclareQueue, PutUser, SetPermission
from warren.errors import ACCESS_REFUSED, PRECONDITION_FAILED, RESOURCE_LOCKED, CommandRefused
from warren.wire.field_tables import Table
from warren.wire.methods import (
    BasicAck,
    BasicGet,
    BasicNack,
    BasicReject,
    ChannelClose,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    TxCommit,
    TxSelect,
)
from warren.wire.properties import Properties

FULL: Table = {"x-max-length": 1, "x-overflow": "reject-publish"}


@pytest.fixture
def client(core: Core) -> Client:
    """Of a node with a queue `orders` and its copy `audit`."""
    client = core.client()
    client.declare("orders")
    client.declare("audit", {"x-copy-from": "orders"})
    return client


def counts(core: Core, *names: str) -> list[int]:
    queues = core.broker.vhosts["/"].topology.queues
    return [queues[name].ready_count() for name in names or ("orders", "audit")]


def arguments_of(core: Core, name: str) -> Table:
    return core.broker.vhosts["/"].topology.queues[name].arguments


def closed(client: Client) -> ChannelClose:
    (method,) = client.methods()
    assert isinstance(method, ChannelClose)
    return method


# -- where copies come from


def test_a_copy_has_its_own_life(core: Core, client: Client) -> None:
    client.publish("orders", b"1", b"2")
    client.say(BasicGet(queue="orders", no_ack=True))
    assert counts(core) == [1, 2]
    client.publish("audit", b"3")
    assert counts(core) == [1, 3]


def test_messages_from_before_the_copy_was_declared_are_not_copied(core: Core, client: Client) -> None:
    client.publish("orders", b"1")
    client.declare("late", {"x-copy-from": "orders"})
    client.publish("orders", b"2")
    assert counts(core, "orders", "audit", "late") == [2, 2, 1]


def test_the_same_frame_is_copied_as_long_as_source_and_copy_are_there(core: Core) -> None:
    client = core.client()
    client.declare("audit", {"x-copy-from": "orders"})
    frame = published("orders", b"again")
    make, drop = QueueDeclare(queue="orders"), QueueDelete(queue="orders")
    client.read(frame + spoken(make) + frame * 2 + spoken(drop) + frame + spoken(make) + frame)
    assert counts(core) == [1, 3]
    client.read(frame + spoken(QueueDelete(queue="audit")) + frame)
    assert counts(core, "orders") == [3]


def test_cc_the_alternate_exchange_and_exchanges_behind_others_lead_to_copies(core: Core, client: Client) -> None:
    client.declare_exchange("last", "fanout")
    client.declare_exchange("first", "direct", {"alternate-exchange": "last"})
    client.bind("orders", "last")
    client.publish("nobody", b"1", exchange="first")
    client.read(published("nobody", b"2", "", Properties(headers={"CC": ["orders"]})))
    assert counts(core) == [2, 2]


def test_headers_decide_each_time(core: Core, client: Client) -> None:
    client.bind("orders", "amq.headers")
    client.read(published("k", b"1", "amq.headers", Properties(headers={"any": 1})))
    assert counts(core) == [1, 1]


def test_a_message_is_one_message_in_both(core: Core, client: Client) -> None:
    client.publish("orders", b"1")
    held = core.held_bytes()
    lone = Core()
    other = lone.client()
    for name in ("orders", "audit"):
        other.declare(name)
        other.bind(name, "amq.fanout")
    other.publish("orders", b"1", exchange="amq.fanout")
    assert held == lone.held_bytes()


def test_a_dead_letter_is_copied(core: Core, client: Client) -> None:
    client.declare("short", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders", "x-message-ttl": 5})
    client.publish("short", b"1")
    core.pass_ms(10)
    assert counts(core) == [1, 1]


def test_a_dead_letter_that_goes_round_is_not_copied(core: Core) -> None:
    client = core.client()
    client.declare("round", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "round", "x-message-ttl": 5})
    client.declare("audit", {"x-copy-from": "round"})
    client.publish("round", b"1")
    core.pass_ms(60)
    assert counts(core, "round", "audit") == [0, 1]


def test_a_dead_letter_that_its_queue_refuses_is_not_copied(core: Core) -> None:
    client = core.client()
    client.declare("full", FULL)
    client.declare("audit", {"x-copy-from": "full"})
    client.declare("short", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "full", "x-message-ttl": 5})
    client.publish("short", b"1", b"2")
    core.pass_ms(10)
    assert counts(core, "full", "audit") == [1, 1]


def test_a_rejected_message_goes_back_to_source_and_copy(core: Core) -> None:
    client = core.client()
    client.declare("orders", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders"})
    client.declare("audit", {"x-copy-from": "orders"})
    client.publish("orders", b"1")
    client.say(BasicGet(queue="orders"), BasicReject(delivery_tag=1, requeue=False))
    assert counts(core) == [1, 2]


def test_delayed_messages_are_copied_when_they_are_due(core: Core, client: Client) -> None:
    client.declare_exchange("late", "x-delayed-message", {"x-delayed-type": "direct"})
    client.bind("orders", "late")
    client.read(published("k", b"1", "late", Properties(headers={"x-delay": 5})))
    assert counts(core) == [0, 0]
    core.pass_ms(10)
    assert counts(core) == [1, 1]


def test_a_trace_may_be_copied(core: Core, client: Client) -> None:
    client.declare("traces")
    client.bind("traces", "amq.rabbitmq.trace", "publish.#")
    client.declare("more-traces", {"x-copy-from": "traces"})
    core.broker.vhosts["/"].set_tracing(True)
    client.publish("orders", b"1")
    assert counts(core, "orders", "audit", "traces", "more-traces") == [1, 1, 1, 1]


# -- confirms and returns


def test_a_copy_alone_is_no_route_for_a_mandatory_message(core: Core) -> None:
    client = core.client()
    client.declare("audit", {"x-copy-from": "orders"})
    client.confirm()
    client.read(published("orders", b"1", mandatory=True))
    assert client.names() == ["basic.return", "basic.ack"]
    assert counts(core, "audit") == [0]


def test_a_publish_refused_by_the_source_is_nacked_and_not_copied(core: Core) -> None:
    client = core.client()
    client.declare("full", FULL)
    client.declare("audit", {"x-copy-from": "full"})
    client.confirm()
    client.publish("full", b"1")
    client.publish("full", b"2")
    assert [type(method) for method in client.methods()] == [BasicAck, BasicNack]
    assert counts(core, "full", "audit") == [1, 1]


def test_a_publish_refused_by_a_copy_is_nacked_and_in_the_source(core: Core, client: Client) -> None:
    client.declare("small", {**FULL, "x-copy-from": "orders"})
    client.confirm()
    client.publish("orders", b"1")
    client.publish("orders", b"2")
    assert [type(method) for method in client.methods()] == [BasicAck, BasicNack]
    assert counts(core, "orders", "audit", "small") == [2, 2, 1]


def test_a_transaction_copies_when_it_is_committed(core: Core, client: Client) -> None:
    client.say(TxSelect())
    client.publish("orders", b"1")
    assert counts(core) == [0, 0]
    client.say(TxCommit())
    assert counts(core) == [1, 1]


def test_a_transaction_copies_nothing_of_a_queue_that_went_meanwhile(core: Core, client: Client) -> None:
    client.say(TxSelect())
    client.publish("orders", b"1")
    core.client().say(QueueDelete(queue="orders"))
    client.heard()
    client.say(TxCommit())
    assert (client.names(), counts(core, "audit")) == (["tx.commit-ok"], [0])


def test_copies_count_as_routed_messages(core: Core, client: Client) -> None:
    client.publish("orders", b"1", b"2")
    vhost = core.broker.vhosts["/"]
    assert (vhost.topology.default.published_in, vhost.topology.default.published_out) == (2, 4)


# -- declaring


def test_a_copy_may_be_exclusive_or_auto_delete(core: Core, client: Client) -> None:
    client.declare("mine", {"x-copy-from": "orders"}, exclusive=True)
    client.declare("passing", {"x-copy-from": "orders"}, auto_delete=True)
    client.publish("orders", b"1")
    assert counts(core, "mine", "passing") == [1, 1]
    client.lose()
    other = core.client()
    other.publish("orders", b"2")
    assert counts(core, "orders", "audit", "passing") == [2, 2, 2]


def test_aliases_are_stored_under_the_official_names(core: Core, client: Client) -> None:
    arguments: Table = {"copy_from": "orders", "routing_key": "eu.#", "mirrored": True}
    client.declare("europe", arguments)
    known: Table = {"x-copy-from": "orders", "x-copy-routing-key": "eu.#", "x-ha-mode": "all"}
    assert arguments_of(core, "europe") == known
    client.say(QueueDeclare(queue="europe", arguments=known), QueueDeclare(queue="europe", arguments=arguments))
    assert [type(method) for method in client.methods()] == [QueueDeclareOk, QueueDeclareOk]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "received none but current is the value 'orders' of type 'longstr'"),
        ({"x-copy-from": "other"}, "received 'other' but current is 'orders'"),
        ({"copy_from": ["orders"]}, "received '[{longstr,<<\"orders\">>}]' but current is 'orders'"),
    ],
)
def test_a_copy_declared_again_must_copy_the_same(client: Client, arguments: Table, text: str) -> None:
    client.say(QueueDeclare(queue="audit", arguments=arguments))
    close = closed(client)
    where = "inequivalent arg 'x-copy-from' for queue 'audit' in vhost '/'"
    assert (close.reply_code, close.reply_text) == (PRECONDITION_FAILED, f"PRECONDITION_FAILED - {where}: {text}")


def test_a_refused_argument_is_named(client: Client) -> None:
    client.say(QueueDeclare(queue="me", arguments={"copy_from": "me"}))
    where = "invalid arg 'x-copy-from' for queue 'me' in vhost '/'"
    assert closed(client).reply_text == f'PRECONDITION_FAILED - {where}: "a queue cannot copy itself"'


def test_a_copy_needs_read_permission_for_its_source(core: Core, client: Client) -> None:
    core.command(PutUser("u", b"", "", []))
    core.command(SetPermission("u", "/", ".*", ".*", "^public"))
    link = core.link("u")
    link.say(QueueDeclare(queue="mine", arguments={"x-copy-from": ["public.one", "orders"]}))
    close = closed(link)
    assert close.reply_code == ACCESS_REFUSED
    assert "access to queue 'orders' in vhost '/' refused for user 'u'" in close.reply_text
    other = core.link("u")
    other.say(QueueDeclare(queue="mine", arguments={"copy_from": "public.one"}))
    assert other.names() == ["queue.declare-ok"]


def test_an_exclusive_queue_of_another_connection_cannot_be_copied(core: Core, client: Client) -> None:
    client.declare("mine", exclusive=True)
    other = core.client()
    other.say(QueueDeclare(queue="theirs", arguments={"x-copy-from": "mine"}))
    assert closed(other).reply_code == RESOURCE_LOCKED


def test_definitions_may_use_the_same_words(core: Core, client: Client) -> None:
    core.command(DeclareQueue("/", "europe", True, False, {"copy_from": "orders"}))
    assert arguments_of(core, "europe") == {"x-copy-from": "orders"}
    client.publish("orders", b"1")
    assert counts(core, "orders", "europe") == [1, 1]
    with pytest.raises(CommandRefused, match="a queue cannot copy itself"):
        core.command(DeclareQueue("/", "me", True, False, {"copy_from": "me"}))
