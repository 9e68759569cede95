"""The permissions that each method needs, and RabbitMQ's words for a refusal."""

from collections.abc import Iterable

import pytest

from tests.support.core_driver import Client, Core, published
from warren.broker.access.passwords import SHA256, hash_password
from warren.broker.commands.requests import ClearPermission, PutUser, SetPermission, SetTopicPermission, SetVhostLimits
from warren.wire.methods import (
    BasicConsume,
    BasicGet,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
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
from warren.wire.properties import Properties

NONE, ALL = "^$", ".*"
NOTHING = (NONE, NONE, NONE)


class PermissionNode:
    """A node with queues and exchanges, and a user `u` with permissions set by the test."""

    def __init__(self, configure: str = ALL, write: str = ALL, read: str = ALL, tags: Iterable[str] = ()) -> None:
        self.core = Core()
        guest = self.core.client()
        guest.declare("q")
        guest.declare_exchange("e")
        guest.declare_exchange("t", "topic")
        self.core.command(PutUser("u", hash_password(SHA256, "u", b"salt"), SHA256, list(tags)))
        self.permit(configure, write, read)
        self.client: Client = self.core.client(user="u")

    def permit(self, configure: str, write: str, read: str) -> None:
        self.core.command(SetPermission("u", "/", configure, write, read))

    def refusal(self, method: Method) -> str:
        """The refusal of the method; empty if there is none."""
        self.client.say(method)
        return self._channel_close()

    def refusal_of_publish(self, exchange: str, key: str, properties: Properties | None = None) -> str:
        self.client.read(published(key, exchange=exchange, properties=properties))
        return self._channel_close()

    def _channel_close(self) -> str:
        close = [method for method in self.client.methods() if isinstance(method, ChannelClose)]
        if not close:
            return ""
        self.client.say(ChannelCloseOk(), ChannelOpen())
        assert self.client.names() == ["channel.open-ok"]
        return close[0].reply_text


def refused(kind: str, name: str) -> str:
    return f"ACCESS_REFUSED - access to {kind} '{name}' in vhost '/' refused for user 'u'"


def topic_refused(key: str) -> str:
    return f"ACCESS_REFUSED - access to topic '{key}' in exchange 't' in vhost '/' refused for user 'u'"


@pytest.mark.parametrize("permissions", [NOTHING, ("", "", "")])
@pytest.mark.parametrize(
    ("method", "kind", "name"),
    [
        (QueueDeclare(queue="q"), "queue", "q"),
        (QueueDeclare(queue="new"), "queue", "new"),
        (ExchangeDeclare(exchange="new", type="direct"), "exchange", "new"),
        (ExchangeDeclare(exchange="amq.direct", type="direct", durable=True), "exchange", "amq.direct"),
        (ExchangeDeclare(exchange="amq.new", type="direct"), "exchange", "amq.new"),
        (QueueDelete(queue="q"), "queue", "q"),
        (QueueDelete(queue="absent"), "queue", "absent"),
        (ExchangeDelete(exchange="e"), "exchange", "e"),
        (ExchangeDelete(exchange="absent"), "exchange", "absent"),
        (QueueBind(queue="q", exchange="e", routing_key="k"), "queue", "q"),
        (QueueBind(queue="absent", exchange="absent"), "queue", "absent"),
        (QueueBind(queue="q", exchange=""), "queue", "q"),
        (QueueUnbind(queue="q", exchange="e"), "queue", "q"),
        (ExchangeBind(destination="e", source="t"), "exchange", "e"),
        (ExchangeBind(destination="", source="t"), "exchange", "amq.default"),
        (ExchangeBind(destination="e", source=""), "exchange", "e"),
        (ExchangeUnbind(destination="e", source="t"), "exchange", "e"),
        (QueuePurge(queue="q"), "queue", "q"),
        (QueuePurge(queue="absent"), "queue", "absent"),
        (BasicConsume(queue="q"), "queue", "q"),
        (BasicGet(queue="q"), "queue", "q"),
        (BasicGet(queue="absent"), "queue", "absent"),
    ],
)
def test_a_user_without_permissions_is_refused(
    permissions: tuple[str, str, str], method: Method, kind: str, name: str
) -> None:
    assert PermissionNode(*permissions).refusal(method) == refused(kind, name)


@pytest.mark.parametrize("exchange", ["e", "absent", "amq.rabbitmq.trace"])
def test_a_user_without_permissions_may_not_publish(exchange: str) -> None:
    assert PermissionNode(*NOTHING).refusal_of_publish(exchange, "k") == refused("exchange", exchange)


def test_the_default_exchange_has_a_name_for_permissions() -> None:
    assert PermissionNode(*NOTHING).refusal_of_publish("", "q") == refused("exchange", "amq.default")
    assert PermissionNode(write="^amq\\.default$").refusal_of_publish("", "q") == ""


def test_a_generated_name_is_judged_like_any_other() -> None:
    assert "access to queue 'amq.gen-" in PermissionNode(*NOTHING).refusal(QueueDeclare(queue=""))
    assert PermissionNode(configure="^amq\\.gen").refusal(QueueDeclare(queue="")) == ""


@pytest.mark.parametrize(
    "method",
    [
        QueueDeclare(queue="q", passive=True),
        ExchangeDeclare(exchange="e", passive=True),
        BasicConsume(queue="amq.rabbitmq.reply-to", no_ack=True),
        QueueDeclare(queue="amq.rabbitmq.reply-to"),
    ],
)
def test_some_methods_need_no_permission(method: Method) -> None:
    assert PermissionNode(*NOTHING).refusal(method) == ""


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (QueueDeclare(queue="amq.x"), "ACCESS_REFUSED - queue name 'amq.x' contains reserved prefix 'amq.*'"),
        (
            ExchangeDelete(exchange="amq.direct"),
            "ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed",
        ),
        (
            ExchangeDeclare(exchange="", type="direct"),
            "ACCESS_REFUSED - operation not permitted on the default exchange",
        ),
    ],
)
def test_forbidden_methods_are_refused_before_missing_permissions(method: Method, text: str) -> None:
    assert PermissionNode(*NOTHING).refusal(method) == text


@pytest.mark.parametrize(
    "method",
    [
        QueueBind(queue="q", exchange="e"),
        QueueUnbind(queue="q", exchange="e"),
    ],
)
def test_binding_a_queue_writes_to_it_and_reads_from_the_exchange(method: Method) -> None:
    assert PermissionNode(write=NONE).refusal(method) == refused("queue", "q")
    assert PermissionNode(read=NONE).refusal(method) == refused("exchange", "e")
    assert PermissionNode(NONE, "^q$", "^e$").refusal(method) == ""


@pytest.mark.parametrize("method", [ExchangeBind(destination="e", source="t"), ExchangeUnbind("e", "t")])
def test_binding_an_exchange_writes_to_it_and_reads_from_the_other(method: Method) -> None:
    assert PermissionNode(write=NONE).refusal(method) == refused("exchange", "e")
    assert PermissionNode(read=NONE).refusal(method) == refused("exchange", "t")
    assert PermissionNode(NONE, "^e$", "^t$").refusal(method) == ""


def test_a_dead_letter_exchange_needs_more_than_the_queue() -> None:
    declare = QueueDeclare(queue="new", arguments={"x-dead-letter-exchange": "dlx"})
    assert PermissionNode(write=NONE).refusal(declare) == refused("exchange", "dlx")
    assert PermissionNode(read=NONE).refusal(declare) == refused("queue", "new")
    assert PermissionNode("^new$", "^dlx$", "^new$").refusal(declare) == ""
    to_default = QueueDeclare(queue="new", arguments={"x-dead-letter-exchange": ""})
    assert PermissionNode(write=NONE).refusal(to_default) == refused("exchange", "amq.default")


def test_an_alternate_exchange_needs_more_than_the_exchange() -> None:
    declare = ExchangeDeclare(exchange="new", type="direct", arguments={"alternate-exchange": "ae"})
    assert PermissionNode(write=NONE).refusal(declare) == refused("exchange", "ae")
    assert PermissionNode(read=NONE).refusal(declare) == refused("exchange", "new")
    assert PermissionNode("^new$", "^ae$", "^new$").refusal(declare) == ""


def test_an_expression_is_searched_anywhere_in_the_name() -> None:
    node = PermissionNode(configure="rder")
    assert node.refusal(QueueDeclare(queue="orders")) == ""
    assert node.refusal(QueueDeclare(queue="ordinary")) == refused("queue", "ordinary")


def test_a_publisher_is_judged_anew_when_its_permission_changes() -> None:
    node = PermissionNode()
    assert node.refusal_of_publish("e", "k") == ""
    node.permit(ALL, NONE, ALL)
    assert node.refusal_of_publish("e", "k") == refused("exchange", "e")
    node.permit(ALL, ALL, ALL)
    assert node.refusal_of_publish("e", "k") == ""
    node.core.command(ClearPermission("u", "/"))
    assert node.refusal_of_publish("e", "k") == refused("exchange", "e")


def test_topic_permissions_judge_routing_keys_on_their_exchange_alone() -> None:
    node = PermissionNode()
    node.core.command(SetTopicPermission("u", "/", "t", "^{username}-{vhost}-", "^r"))
    assert node.refusal_of_publish("t", "u-/-x") == ""
    assert node.refusal_of_publish("t", "k") == topic_refused("k")
    assert node.refusal_of_publish("amq.topic", "k") == ""
    assert node.refusal_of_publish("e", "k") == ""
    assert node.refusal(QueueBind(queue="q", exchange="t", routing_key="r.x")) == ""
    assert node.refusal(QueueBind(queue="q", exchange="t", routing_key="x")) == topic_refused("x")
    assert node.refusal(QueueUnbind(queue="q", exchange="t", routing_key="x")) == topic_refused("x")
    assert node.refusal(ExchangeBind(destination="e", source="t", routing_key="x")) == topic_refused("x")


def test_an_empty_topic_permission_allows_the_empty_key() -> None:
    node = PermissionNode()
    node.core.command(SetTopicPermission("u", "/", "t", "^{client_id}$", ""))
    assert node.refusal(QueueBind(queue="q", exchange="t", routing_key="")) == ""
    assert node.refusal(QueueBind(queue="q", exchange="t", routing_key="x")) == topic_refused("x")
    # AMQP clients have no client id, so the word stays
    assert node.refusal_of_publish("t", "{client_id}") == ""


def test_a_name_within_a_topic_permission_is_no_expression() -> None:
    core = Core()
    core.command(PutUser(".*", hash_password(SHA256, ".*", b"salt"), SHA256, []))
    core.command(SetPermission(".*", "/", ALL, ALL, ALL))
    core.command(SetTopicPermission(".*", "/", "amq.topic", "^{username}$", ALL))
    client = core.client(user=".*")
    client.read(published("somebody", exchange="amq.topic"))
    assert "access to topic 'somebody'" in str([method.reply_text for method in client.methods()])


def test_only_an_impersonator_may_speak_for_others() -> None:
    as_other = Properties(user_id="other")
    text = "PRECONDITION_FAILED - user_id property set to 'other' but authenticated user was 'u'"
    assert PermissionNode().refusal_of_publish("e", "k", as_other) == text
    assert PermissionNode(tags=["impersonator"]).refusal_of_publish("e", "k", as_other) == ""


def test_a_virtual_host_takes_only_so_many_queues() -> None:
    node = PermissionNode()
    node.core.command(SetVhostLimits("/", {"max-queues": 2}))
    assert node.refusal(QueueDeclare(queue="two")) == ""
    full = "PRECONDITION_FAILED - cannot declare queue 'three': queue limit in vhost '/' (2) is reached"
    assert node.refusal(QueueDeclare(queue="three", arguments={"x-expires": "never"})) == full
    assert node.refusal(QueueDeclare(queue="two")) == ""
    node.core.command(SetVhostLimits("/", {"max-queues": -5}))
    assert node.refusal(QueueDeclare(queue="three")) == ""
