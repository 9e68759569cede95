"""Adding and deleting virtual hosts, and their limit of connections."""

import pytest

from tests.support.core_driver import Client, Core, published
from warren.broker.commands.requests import (
    ClearVhostLimits,
    DeleteVhost,
    PutVhost,
    SetPermission,
    SetTopicPermission,
    SetVhostLimits,
)
from warren.broker.model.events import BytesReceived, CommandReceived
from warren.errors import CommandRefused
from warren.wire.methods import ConnectionClose, ExchangeBind, ExchangeDeclare, QueueDeclare
from warren.wire.properties import Properties


@pytest.fixture
def core() -> Core:
    core = Core()
    assert core.command(PutVhost("v", "the second", ["a", "b"], None)) is True
    core.command(SetPermission("guest", "v", ".*", ".*", ".*"))
    return core


def closed_with(client: Client) -> tuple[int, str]:
    [close] = [method for method in client.methods() if isinstance(method, ConnectionClose)]
    return close.reply_code, close.reply_text


def open_in(core: Core, vhost: str) -> str:
    """The outcome of opening a connection."""
    last = core.connect().shake_hands(vhost=vhost)[-1].method
    return last.reply_text if isinstance(last, ConnectionClose) else last.name


def test_a_virtual_host_is_described_and_described_anew(core: Core) -> None:
    vhost = core.broker.vhosts["v"]
    assert (vhost.description, vhost.tags, vhost.tracing) == ("the second", ["a", "b"], False)
    assert core.command(PutVhost("v", "", [], True)) is False
    assert (vhost.description, vhost.tags, vhost.tracing) == ("", [], True)
    core.command(PutVhost("v", "third", [], None))
    assert vhost.tracing is True
    with pytest.raises(CommandRefused):
        core.command(PutVhost("", "", [], None))


def test_turning_tracing_on_or_off_makes_publishers_look_again(core: Core) -> None:
    topology = core.broker.vhosts["v"].topology
    before = topology.version
    core.command(PutVhost("v", "", [], True))
    assert topology.version == before + 1
    core.command(PutVhost("v", "other", [], True))
    assert topology.version == before + 1


def test_objects_of_one_virtual_host_are_not_in_another(core: Core) -> None:
    here, there = core.client(), core.client(vhost="v")
    here.declare("q")
    there.declare("q")
    there.publish("q", b"there")
    assert core.broker.vhosts["/"].topology.queues["q"].ready_count() == 0
    assert core.broker.vhosts["v"].topology.queues["q"].ready_count() == 1


def test_deleting_a_virtual_host_closes_its_connections_and_deletes_its_contents(core: Core) -> None:
    core.command(SetTopicPermission("guest", "v", "amq.topic", "", ""))
    other, client = core.client(), core.client(vhost="v")
    client.declare("q")
    client.declare("mine", exclusive=True)
    client.declare_exchange("e")
    client.bind("q", "e")
    core.command(DeleteVhost("v"))
    assert closed_with(client) == (320, "CONNECTION_FORCED - vhost 'v' is deleted")
    assert other.names() == []
    assert list(core.broker.vhosts) == ["/"]
    assert list(core.broker.access.permissions) == [("guest", "/")]
    assert core.broker.access.topic_permissions == {}
    assert open_in(core, "v") == "NOT_ALLOWED - vhost v not found"
    with pytest.raises(CommandRefused) as refused:
        core.command(DeleteVhost("v"))
    assert refused.value.kind == "not_found"


def test_a_consumer_in_a_deleted_virtual_host_gets_only_the_close(core: Core) -> None:
    client = core.client(vhost="v")
    client.declare("q")
    client.declare("passing", auto_delete=True)
    client.consume("q", "a")
    client.consume("passing", "b")
    client.heard()
    core.command(DeleteVhost("v"))
    assert client.names() == ["connection.close"]


def test_a_virtual_host_of_the_same_name_begins_empty(core: Core) -> None:
    client = core.client(vhost="v")
    client.declare("dead")
    client.declare("q", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-message-ttl": 10})
    client.publish("q", b"x")
    core.command(DeleteVhost("v"))
    core.command(PutVhost("v", "", [], None))
    core.command(SetPermission("guest", "v", ".*", ".*", ".*"))
    again = core.client(vhost="v")
    again.declare("dead")
    core.pass_ms(1_000)
    vhost = core.broker.vhosts["v"]
    assert list(vhost.topology.queues) == ["dead"]
    assert vhost.topology.queues["dead"].ready_count() == 0
    assert core.held_bytes() == 0


def test_dead_letters_on_their_way_go_with_their_virtual_host(core: Core) -> None:
    client = core.client(vhost="v")
    client.declare("q", {"x-max-length": 0, "x-dead-letter-exchange": "amq.fanout"})
    # in one turn: the dead letters of the publish are sent at its end, when their virtual host is deleted
    core.turn(BytesReceived(client.number, published("q", b"x")), CommandReceived(99, DeleteVhost("v")))
    assert core.answers[99].refusal == ""
    assert core.held_bytes() == 0


def test_delayed_messages_go_with_their_virtual_host(core: Core) -> None:
    client = core.client(vhost="v")
    client.say(ExchangeDeclare("late", "x-delayed-message", arguments={"x-delayed-type": "fanout"}))
    client.read(published("k", b"x", "late", Properties(headers={"x-delay": 5_000})))
    assert core.held_bytes() > 0
    core.command(DeleteVhost("v"))
    assert core.held_bytes() == 0
    core.pass_ms(10_000)


def test_bindings_between_default_exchanges_are_deleted_too(core: Core) -> None:
    client = core.client(vhost="v")
    client.say(ExchangeBind(destination="amq.fanout", source="amq.topic", routing_key="#"))
    topology = core.broker.vhosts["v"].topology
    core.command(DeleteVhost("v"))
    assert topology.bindings_from(topology.exchanges["amq.topic"]) == []


def test_a_virtual_host_takes_only_so_many_connections(core: Core) -> None:
    core.command(SetVhostLimits("v", {"max-connections": 1, "max-queues": 10}))
    first = core.client(vhost="v")
    full = "NOT_ALLOWED - access to vhost 'v' refused for user 'guest': connection limit (1) is reached"
    assert open_in(core, "v") == full
    assert open_in(core, "/") == "connection.open-ok"
    first.lose()
    assert open_in(core, "v") == "connection.open-ok"
    core.command(ClearVhostLimits("v", ["max-connections"]))
    assert core.broker.vhosts["v"].limits == {"max-queues": 10}
    assert open_in(core, "v") == "connection.open-ok"
    core.command(SetVhostLimits("v", {"max-connections": 0}))
    assert open_in(core, "v").endswith("connection limit (0) is reached")
    core.command(ClearVhostLimits("v", None))
    assert core.broker.vhosts["v"].limits == {}


def test_the_limit_is_looked_at_before_the_permission(core: Core) -> None:
    core.command(PutVhost("w", "", [], None))
    core.command(SetVhostLimits("w", {"max-connections": 0}))
    assert open_in(core, "w").endswith("connection limit (0) is reached")
    core.command(ClearVhostLimits("w", None))
    assert open_in(core, "w") == "NOT_ALLOWED - access to vhost 'w' refused for user 'guest'"


def test_limits_are_of_virtual_hosts_that_exist(core: Core) -> None:
    for command in (SetVhostLimits("absent", {"max-queues": 1}), ClearVhostLimits("absent", None)):
        with pytest.raises(CommandRefused) as refused:
            core.command(command)
        assert (refused.value.kind, refused.value.reason) == ("not_found", "vhost_not_found")


def test_a_connection_that_was_dismissed_makes_room_at_once(core: Core) -> None:
    core.command(SetVhostLimits("v", {"max-connections": 1}))
    client = core.client(vhost="v")
    client.say(QueueDeclare(queue="q"), channel=9)
    assert closed_with(client)[0] == 504
    assert open_in(core, "v") == "connection.open-ok"
