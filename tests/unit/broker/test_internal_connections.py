"""Internal connections: they have their user's permissions, and are neither counted nor logged."""

import pytest

from tests.support.core_driver import CAPABLE, FRAME_MAX, Client, Core
from warren.broker.access.passwords import SHA256
from warren.broker.commands.requests import DeleteUser, PutUser, SetPermission, SetUserLimits, SetVhostLimits
from warren.broker.model.events import ConnectionOpened
from warren.wire.frames import PROTOCOL_HEADER
from warren.wire.methods import (
    BasicGet,
    ChannelClose,
    ChannelOpen,
    ConnectionClose,
    ConnectionOpen,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTuneOk,
)


@pytest.fixture
def core() -> Core:
    core = Core()
    # without a password: only the node can log in as this user
    core.command(PutUser("u", b"", SHA256, []))
    core.command(SetPermission("u", "/", ".*", ".*", "^a"))
    return core


def link(core: Core, user: str = "u") -> Client:
    client = Client(core, 1000 + len(core._clients))
    core._clients[client.number] = client
    core.turn(ConnectionOpened(client.number, "10.0.0.1", 1, "", 0, internal=True, trusted_user=user))
    client.read(PROTOCOL_HEADER)
    [start] = client.methods()
    assert isinstance(start, ConnectionStart)
    assert start.mechanisms == b"EXTERNAL"
    properties: dict[str, object] = {"capabilities": dict(CAPABLE)}
    client.say(ConnectionStartOk(client_properties=properties, mechanism="EXTERNAL", response=b""), channel=0)
    client.say(ConnectionTuneOk(channel_max=2047, frame_max=FRAME_MAX, heartbeat=0), channel=0)
    client.say(ConnectionOpen(virtual_host="/"), channel=0)
    client.say(ChannelOpen())
    return client


def test_an_internal_connection_has_the_permissions_of_its_user(core: Core) -> None:
    client = link(core)
    assert client.names() == ["connection.tune", "connection.open-ok", "channel.open-ok"]
    client.say(BasicGet(queue="b"))
    [close] = client.methods()
    assert isinstance(close, ChannelClose)
    assert close.reply_text == "ACCESS_REFUSED - access to queue 'b' in vhost '/' refused for user 'u'"


def test_an_internal_connection_of_an_unknown_user_is_refused(core: Core) -> None:
    closes = [method for method in link(core, "absent").methods() if isinstance(method, ConnectionClose)]
    assert [close.reply_code for close in closes] == [403]


def test_limits_do_not_hold_for_links(core: Core) -> None:
    core.command(SetUserLimits("u", {"max-connections": 0, "max-channels": 0}))
    core.command(SetVhostLimits("/", {"max-connections": 1}))
    assert link(core).names()[-1] == "channel.open-ok"
    assert core.connect().shake_hands()[-1].method.name == "connection.open-ok"


def test_a_link_ends_with_its_user(core: Core) -> None:
    client = link(core)
    core.command(DeleteUser("u"))
    assert client.names()[-1] == "connection.close"


def test_an_internal_connection_is_not_logged(core: Core) -> None:
    client = link(core)
    client.say(BasicGet(queue="b"))
    client.lose()
    link(core, "absent")
    assert core.notes == []
