"""Connections that an operator closes."""

from tests.support.core_driver import Core
from tests.unit.broker.refusals import refusal
from warren.broker.commands.requests import ForceCloseConnection
from warren.wire.methods import ConnectionClose, ConnectionCloseOk


def test_a_client_gets_the_reason_why_its_connection_is_closed() -> None:
    core = Core()
    client = core.client()
    client.declare("mine", exclusive=True)
    core.command(ForceCloseConnection(client.number, "Closed via management plugin"))
    (close,) = client.methods()
    assert isinstance(close, ConnectionClose)
    assert (close.reply_code, close.reply_text) == (320, "CONNECTION_FORCED - Closed via management plugin")
    assert "mine" not in core.broker.vhosts["/"].topology.queues
    # a second command changes nothing
    core.command(ForceCloseConnection(client.number, "again"))
    assert client.methods() == []
    client.say(ConnectionCloseOk(), channel=0)
    assert core.closed == [client.number]


def test_a_connection_before_its_handshake_is_dropped() -> None:
    core = Core()
    client = core.connect()
    core.command(ForceCloseConnection(client.number, "because"))
    assert client.methods() == []
    assert core.closed == [client.number]


def test_an_unknown_connection_is_not_found() -> None:
    assert refusal(Core(), ForceCloseConnection(7, "because")) == ("not_found", "Not Found")
