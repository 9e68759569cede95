"""A node that stops closes its connections and waits for its clients, but not forever."""

from tests.support.core_driver import Core, without_notes
from warren.broker.model.effects import CloseConnection, StopNode
from warren.broker.model.events import ConnectionOpened, StopRequested
from warren.broker.sessions.connection import CLOSE_OK_WAIT_MS
from warren.wire.methods import ConnectionClose, ConnectionCloseOk

FAREWELL = ConnectionClose(320, "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'")


def test_a_node_without_clients_stops_at_once(core: Core) -> None:
    assert without_notes(core.turn(StopRequested())) == [StopNode()]
    assert core.note_names() == ["node.stopping"]


def test_a_client_gets_connection_close_and_the_node_stops_when_it_disconnected(core: Core) -> None:
    client = core.client()
    assert StopNode() not in core.turn(StopRequested())
    assert client.methods() == [FAREWELL]
    assert CloseConnection(client.number) in client.say(ConnectionCloseOk(), channel=0)
    assert StopNode() in client.lose()


def test_a_client_that_does_not_answer_is_cut_off(core: Core) -> None:
    client = core.client()
    core.turn(StopRequested())
    assert CloseConnection(client.number) in core.pass_ms(int(CLOSE_OK_WAIT_MS))


def test_a_client_that_has_not_opened_yet_is_cut_off_without_a_word(core: Core) -> None:
    client = core.connect()
    assert without_notes(core.turn(StopRequested())) == [CloseConnection(client.number)]
    assert StopNode() in client.lose()


def test_no_connection_is_accepted_any_more(core: Core) -> None:
    core.client()
    core.turn(StopRequested())
    effects = core.turn(ConnectionOpened(99, "127.0.0.1", 1, "127.0.0.1", 5672))
    assert effects == [CloseConnection(99)]
    assert 99 not in core.broker.connections


def test_every_client_must_disconnect_before_the_node_stops(core: Core) -> None:
    one, other = core.client(), core.client()
    core.turn(StopRequested())
    assert StopNode() not in one.lose()
    assert StopNode() in other.lose()
