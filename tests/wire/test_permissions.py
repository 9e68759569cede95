"""The permissions that each method needs, and the texts of refusals."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.amqp_client import Channel, Connection
from tests.support.operator import Operator
from tests.wire.conftest import Connect, Unique
from tests.wire.faults import Step, say

NONE, ALL = "^$", ".*"
Named = Callable[..., Channel]

pytestmark = pytest.mark.usefixtures("things")


@pytest.fixture(scope="module")
def user(operator: Operator) -> Iterator[str]:
    """A user; each test sets its permissions; its password is its name."""
    name = f"wire-user-{uuid.uuid4().hex[:10]}"
    operator.user(name)
    yield name
    operator.delete_user(name)


@pytest.fixture
def things(channel: Channel) -> Iterator[None]:
    """What the tests are about."""
    channel.call("queue.declare", queue="wire-q")
    channel.call("exchange.declare", exchange="wire-e", type="direct")
    channel.call("exchange.declare", exchange="wire-t", type="topic")
    yield
    channel.call("queue.delete", queue="wire-q")
    for exchange in ("wire-e", "wire-t"):
        channel.call("exchange.delete", exchange=exchange)


@pytest.fixture
def permitted(operator: Operator, user: str, connect: Connect) -> Named:
    """A channel of the user with these permissions."""

    def channel_with(configure: str = ALL, write: str = ALL, read: str = ALL) -> Channel:
        operator.permit(user, configure, write, read)
        return connect(user=user, password=user).channel()

    return channel_with


def refused(user: str, what: str) -> str:
    return f"ACCESS_REFUSED - access to {what} in vhost '/' refused for user '{user}'"


def refuses(channel: Channel, step: Step, text: str) -> None:
    method, fields = step
    if method == "basic.publish":
        channel.publish(**fields)
    else:
        channel.send(method, **fields)
    channel.expect_close(403, text, method)
    channel.call("channel.open")


QUEUE_Q, EXCHANGE_E, EXCHANGE_T = "queue 'wire-q'", "exchange 'wire-e'", "exchange 'wire-t'"
NOTHING_ALLOWED: list[tuple[Step, str]] = [
    (say("queue.declare", queue="wire-q"), QUEUE_Q),
    (say("queue.declare", queue="wire-absent"), "queue 'wire-absent'"),
    (say("exchange.declare", exchange="wire-absent", type="direct"), "exchange 'wire-absent'"),
    (say("exchange.declare", exchange="amq.direct", type="direct", durable=True), "exchange 'amq.direct'"),
    (say("exchange.declare", exchange="amq.absent", type="direct"), "exchange 'amq.absent'"),
    (say("queue.delete", queue="wire-q"), QUEUE_Q),
    (say("queue.delete", queue="wire-absent"), "queue 'wire-absent'"),
    (say("exchange.delete", exchange="wire-e"), EXCHANGE_E),
    (say("exchange.delete", exchange="wire-absent"), "exchange 'wire-absent'"),
    (say("queue.bind", queue="wire-q", exchange="wire-e"), QUEUE_Q),
    (say("queue.bind", queue="wire-absent", exchange="wire-absent"), "queue 'wire-absent'"),
    (say("queue.bind", queue="wire-q", exchange=""), QUEUE_Q),
    (say("queue.unbind", queue="wire-q", exchange="wire-e"), QUEUE_Q),
    (say("exchange.bind", destination="wire-e", source="wire-t"), EXCHANGE_E),
    (say("exchange.bind", destination="", source="wire-t"), "exchange 'amq.default'"),
    (say("exchange.bind", destination="wire-e", source=""), EXCHANGE_E),
    (say("exchange.unbind", destination="wire-e", source="wire-t"), EXCHANGE_E),
    (say("queue.purge", queue="wire-q"), QUEUE_Q),
    (say("queue.purge", queue="wire-absent"), "queue 'wire-absent'"),
    (say("basic.consume", queue="wire-q"), QUEUE_Q),
    (say("basic.get", queue="wire-q"), QUEUE_Q),
    (say("basic.get", queue="wire-absent"), "queue 'wire-absent'"),
    (say("basic.publish", exchange="wire-e", routing_key="k"), EXCHANGE_E),
    (say("basic.publish", exchange="wire-absent", routing_key="k"), "exchange 'wire-absent'"),
    (say("basic.publish", exchange="", routing_key="wire-q"), "exchange 'amq.default'"),
    (say("basic.publish", exchange="amq.rabbitmq.trace", routing_key="k"), "exchange 'amq.rabbitmq.trace'"),
]


@pytest.mark.parametrize("nothing", [NONE, ""])
def test_a_user_without_permissions_is_refused_everything_in_these_words(
    permitted: Named, user: str, nothing: str
) -> None:
    channel = permitted(nothing, nothing, nothing)
    for step, what in NOTHING_ALLOWED:
        refuses(channel, step, refused(user, what))


def test_a_user_without_permissions_may_declare_passively_and_use_direct_reply_to(permitted: Named) -> None:
    channel = permitted(NONE, NONE, NONE)
    channel.call("queue.declare", queue="wire-q", passive=True)
    channel.call("exchange.declare", exchange="wire-e", passive=True)
    channel.call("queue.declare", queue="amq.rabbitmq.reply-to", passive=True)
    channel.consume("amq.rabbitmq.reply-to", no_ack=True)


def test_actions_that_no_user_may_do_are_refused_before_missing_permissions(permitted: Named) -> None:
    channel = permitted(NONE, NONE, NONE)
    reserved = "ACCESS_REFUSED - queue name 'amq.x' contains reserved prefix 'amq.*'"
    refuses(channel, say("queue.declare", queue="amq.x"), reserved)
    system = "ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed"
    refuses(channel, say("exchange.delete", exchange="amq.direct"), system)
    default = "ACCESS_REFUSED - operation not permitted on the default exchange"
    refuses(channel, say("exchange.declare", exchange="", type="direct"), default)


BINDINGS: list[tuple[Step, str, str]] = [
    (say("queue.bind", queue="wire-q", exchange="wire-e"), QUEUE_Q, EXCHANGE_E),
    (say("queue.unbind", queue="wire-q", exchange="wire-e"), QUEUE_Q, EXCHANGE_E),
    (say("exchange.bind", destination="wire-e", source="wire-t"), EXCHANGE_E, EXCHANGE_T),
    (say("exchange.unbind", destination="wire-e", source="wire-t"), EXCHANGE_E, EXCHANGE_T),
]


def test_binding_writes_to_one_end_and_reads_from_the_other(permitted: Named, user: str) -> None:
    without_write = permitted(write=NONE)
    for step, written, _read in BINDINGS:
        refuses(without_write, step, refused(user, written))
    without_read = permitted(read=NONE)
    for step, _written, read in BINDINGS:
        refuses(without_read, step, refused(user, read))
    with_both = permitted(NONE, "^wire-[qe]$", "^wire-[et]$")
    for (method, fields), _written, _read in BINDINGS:
        with_both.call(method, **fields)


@pytest.mark.parametrize(
    ("method", "fields", "own", "other"),
    [
        ("queue.declare", {"arguments": {"x-dead-letter-exchange": "wire-dlx"}}, "queue", "exchange 'wire-dlx'"),
        ("queue.declare", {"arguments": {"x-dead-letter-exchange": ""}}, "queue", "exchange 'amq.default'"),
        (
            "exchange.declare",
            {"type": "direct", "arguments": {"alternate-exchange": "wire-ae"}},
            "exchange",
            "exchange 'wire-ae'",
        ),
    ],
)
def test_where_messages_go_on_to_must_be_writable(
    permitted: Named, user: str, unique: Unique, method: str, fields: dict[str, Any], own: str, other: str
) -> None:
    name = unique("own")
    step = say(method, **fields, **{own: name})
    refuses(permitted(write=NONE), step, refused(user, other))
    refuses(permitted(read=NONE), step, refused(user, f"{own} '{name}'"))
    permitted(f"^{name}$", "^wire-(dlx|ae)$|^amq\\.default$", f"^{name}$").call(method, **step[1])


def test_a_generated_name_is_judged_like_any_other(permitted: Named) -> None:
    name = permitted("^amq\\.gen").call("queue.declare", queue="", exclusive=True).queue
    assert name.startswith("amq.gen-")
    channel = permitted(NONE)
    channel.send("queue.declare", queue="")
    close = channel.expect("channel.close")
    assert (close.reply_code, "access to queue 'amq.gen-" in close.reply_text) == (403, True)


def test_an_expression_is_searched_anywhere_in_the_name(permitted: Named, user: str) -> None:
    channel = permitted(read="ire-q")
    assert channel.get("wire-q") is None
    refuses(channel, say("basic.get", queue="wire-x"), refused(user, "queue 'wire-x'"))


def test_topic_permissions_judge_routing_keys(permitted: Named, user: str, operator: Operator) -> None:
    operator.permit_topics(user, "wire-t", "^{username}-{vhost}-", "^r")
    channel = permitted()

    def topic_refused(key: str) -> str:
        return f"ACCESS_REFUSED - access to topic '{key}' in exchange 'wire-t' in vhost '/' refused for user '{user}'"

    channel.publish("wire-t", f"{user}-/-x")
    channel.publish("amq.topic", "x")
    channel.publish("wire-e", "x")
    # CC is not checked
    channel.publish("wire-t", f"{user}-/-x", properties={"headers": {"CC": ["x"]}})
    channel.call("queue.bind", queue="wire-q", exchange="wire-t", routing_key="r.x")
    refuses(channel, say("basic.publish", exchange="wire-t", routing_key="x"), topic_refused("x"))
    for step in (
        say("queue.bind", queue="wire-q", exchange="wire-t", routing_key="x"),
        say("queue.unbind", queue="wire-q", exchange="wire-t", routing_key="x"),
        say("exchange.bind", destination="wire-e", source="wire-t", routing_key="x"),
    ):
        refuses(channel, step, topic_refused("x"))
    operator.permit_topics(user, "wire-t", "^{client_id}$", "")
    other = permitted()
    other.publish("wire-t", "{client_id}")
    other.call("queue.bind", queue="wire-q", exchange="wire-t", routing_key="")
    refuses(other, say("basic.publish", exchange="wire-t", routing_key="y"), topic_refused("y"))


def test_a_permission_that_is_taken_away_counts_for_new_channels(
    permitted: Named, user: str, operator: Operator
) -> None:
    connection = permitted().connection
    operator.permit(user, ALL, NONE, ALL)
    step = say("basic.publish", exchange="wire-e", routing_key="k")
    refuses(connection.channel(), step, refused(user, EXCHANGE_E))
    operator.forbid(user)
    refuses(connection.channel(), step, refused(user, EXCHANGE_E))


def test_only_an_impersonator_may_speak_for_others(operator: Operator, connect: Connect, unique: Unique) -> None:
    name = unique("impersonator")
    operator.user(name, "impersonator")
    operator.permit(name)
    channel = connect(user=name, password=name).channel()
    channel.confirm()
    channel.publish("wire-e", "k", properties={"user_id": "somebody"})
    channel.confirms([1])
    operator.user(name, "")
    channel = connect(user=name, password=name).channel()
    channel.publish("wire-e", "k", properties={"user_id": "somebody"})
    text = f"PRECONDITION_FAILED - user_id property set to 'somebody' but authenticated user was '{name}'"
    channel.expect_close(406, text, "basic.publish")
    operator.delete_user(name)


def test_a_connection_is_closed_when_its_user_is_deleted(operator: Operator, connect: Connect, unique: Unique) -> None:
    name = unique("leaver")
    operator.user(name)
    operator.permit(name)
    connection: Connection = connect(user=name, password=name)
    operator.delete_user(name)
    connection.expect_close(320, f"CONNECTION_FORCED - user '{name}' is deleted")
