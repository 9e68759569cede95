"""Users, permissions and virtual hosts survive a restart; each change is atomic."""

import pytest

from tests.unit.broker.journal.journal_world import DurableCore, persistent
from tests.unit.broker.journal.plain_disk import PlainDisk
from warren.broker.access.passwords import SHA512, hash_password
from warren.broker.commands.requests import (
    Authenticate,
    ClearPermission,
    DeleteUser,
    DeleteVhost,
    PutUser,
    PutVhost,
    SetPermission,
    SetPolicy,
    SetTopicPermission,
    SetUserLimits,
    SetVhostLimits,
)
from warren.broker.model.effects import AppendRecords
from warren.broker.model.events import BytesReceived, CommandReceived
from warren.broker.policies.policies import Policy
from warren.errors import CommandRefused
from warren.wire.field_tables import Table
from warren.wire.methods import ExchangeBind, ExchangeDeclare, QueueBind, QueueDeclare

FIRST_KEYS = ["permissions/guest/%2F", "users/guest", "vhosts/%2F"]


def access_keys(disk: PlainDisk) -> list[str]:
    """The recorded keys of users, virtual hosts and their contents."""
    return sorted(key for key in disk.values if not key.startswith("global_parameters/"))


def test_a_first_start_records_the_default_user_and_virtual_host() -> None:
    disk = PlainDisk()
    DurableCore(disk)
    assert access_keys(disk) == FIRST_KEYS
    revision = disk.revision
    DurableCore(disk)
    assert disk.revision == revision


def test_everything_about_users_comes_back() -> None:
    disk = PlainDisk()
    core = DurableCore(disk)
    password_hash = hash_password(SHA512, "pw", b"salt")
    core.command(PutUser("ülrich/%", password_hash, SHA512, ["monitoring", "b"]))
    core.command(SetUserLimits("ülrich/%", {"max-connections": 3, "max-channels": -1}))
    core.command(SetPermission("ülrich/%", "/", "^a", "", "^c"))
    core.command(SetTopicPermission("ülrich/%", "/", "amq.topic", "^{username}", ""))
    again = DurableCore(disk)
    access = again.broker.access
    user = access.users["ülrich/%"]
    assert (user.password_hash, user.hashing_algorithm) == (password_hash, SHA512)
    assert (user.tags, user.limits) == (["monitoring", "b"], {"max-connections": 3, "max-channels": -1})
    permission = access.permissions["ülrich/%", "/"]
    assert (permission.configure, permission.write, permission.read) == ("^a", "", "^c")
    topic = access.topic_permissions["ülrich/%", "/", "amq.topic"]
    assert (topic.write, topic.read) == ("^{username}", "")
    assert topic.writes.matches("ülrich/%.x")
    again.command(Authenticate("ülrich/%", "pw", "10.0.0.1"))


def test_a_deleted_user_stays_deleted_even_the_default_one() -> None:
    disk = PlainDisk()
    core = DurableCore(disk)
    core.command(DeleteUser("guest"))
    assert access_keys(disk) == ["vhosts/%2F"]
    again = DurableCore(disk)
    assert again.broker.access.users == {}
    with pytest.raises(CommandRefused):
        again.command(Authenticate("guest", "guest", "127.0.0.1"))


def test_a_cleared_permission_stays_cleared() -> None:
    disk = PlainDisk()
    DurableCore(disk).command(ClearPermission("guest", "/"))
    assert DurableCore(disk).broker.access.permissions == {}


def test_an_empty_virtual_host_comes_back_with_all_but_its_tracing() -> None:
    disk = PlainDisk()
    core = DurableCore(disk)
    core.command(PutVhost("v", "text", ["x"], True))
    core.command(SetVhostLimits("v", {"max-queues": 7}))
    vhost = DurableCore(disk).broker.vhosts["v"]
    assert (vhost.description, vhost.tags, vhost.limits) == ("text", ["x"], {"max-queues": 7})
    assert vhost.tracing is False


def test_nothing_of_a_deleted_virtual_host_is_left_on_disk() -> None:
    disk = PlainDisk()
    core = DurableCore(disk)
    core.command(PutVhost("v", "", [], None))
    core.command(SetPermission("guest", "v", ".*", ".*", ".*"))
    client = core.client(vhost="v")
    client.say(
        QueueDeclare(queue="q", durable=True),
        ExchangeDeclare("e", "topic", durable=True),
        ExchangeDeclare("late", "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"}),
        QueueBind(queue="q", exchange="e", routing_key="k"),
        ExchangeBind(destination="amq.fanout", source="amq.topic", routing_key="#"),
        ExchangeBind(destination="e", source="amq.topic", routing_key="#"),
    )
    client.read(persistent("q", b"x") + persistent("k", b"y", "late", headers={"x-delay": 60_000}))
    assert len(access_keys(disk)) > len(FIRST_KEYS) + 5
    core.command(DeleteVhost("v"))
    assert access_keys(disk) == FIRST_KEYS
    again = DurableCore(disk)
    assert list(again.broker.vhosts) == ["/"]
    assert again.held_bytes() == 0


def test_a_virtual_host_is_deleted_on_disk_as_a_whole() -> None:
    core = DurableCore(PlainDisk())
    core.command(PutVhost("v", "", [], None))
    core.command(SetPermission("guest", "v", ".*", ".*", ".*"))
    core.command(SetPolicy(Policy("v", "p", "", "all", {"max-length": 9}), False))
    client = core.client(vhost="v")
    arguments: Table = {"x-max-length": 0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    client.declare("q", arguments, durable=True)
    client.declare("dead", durable=True)
    before = len(core.orders)
    # a dead letter is sent when its queue is deleted, so there is a write in the middle of the change
    core.turn(BytesReceived(client.number, persistent("q", b"x")), CommandReceived(9, DeleteVhost("v")))
    stores = [order for order in core.orders[before:] if isinstance(order, AppendRecords)]
    [whole] = [store for store in stores if "vhosts/v" in [change.key for change in store.changes]]
    assert [change.value for change in whole.changes] == [None] * 5
    deleted = [change.key for change in whole.changes]
    assert deleted == ["vhosts/v", "permissions/guest/v", "policies/v/p", "queues/v/q", "queues/v/dead"]


def test_a_deleted_default_virtual_host_is_not_made_again() -> None:
    disk = PlainDisk()
    DurableCore(disk).command(DeleteVhost("/"))
    assert list(DurableCore(disk).broker.vhosts) == []


def test_a_directory_without_users_gets_the_default_user_and_keeps_its_definitions() -> None:
    disk = PlainDisk()
    core = DurableCore(disk)
    core.command(PutVhost("v", "", [], None))
    core.command(SetPermission("guest", "v", ".*", ".*", ".*"))
    core.client(vhost="v").say(QueueDeclare(queue="q", durable=True))
    disk.values = {key: value for key, value in disk.values.items() if key.startswith("queues/")}
    again = DurableCore(disk)
    assert list(again.broker.vhosts) == ["v", "/"]
    assert access_keys(disk) == sorted([*FIRST_KEYS, "vhosts/v", "permissions/guest/v", "queues/v/q"])
    again.client(vhost="v").declare("q", durable=True)


def test_a_command_is_answered_when_the_disk_has_it() -> None:
    core = DurableCore(PlainDisk())
    core.command(PutVhost("v", "", [], None))
    assert "vhosts/v" in core.disk.values
