"""A turn leaves nothing behind but its effects."""

from tests.support.core_driver import Core, spoken, without_notes
from warren.broker.model.events import BytesReceived, ConnectionDropped
from warren.broker.model.settings import BrokerSettings
from warren.wire.methods import QueueDeclare

WITHOUT_TIMERS = BrokerSettings(consumer_timeout_ms=0)


def test_nothing_is_left_on_the_lists_of_a_finished_turn() -> None:
    core = Core(WITHOUT_TIMERS)
    client = core.client()
    client.declare("q")
    client.confirm()
    client.consume("q")
    client.publish("q", b"1", b"2")
    turn = core.broker.turn
    assert (turn.drains, turn.dead_letters, turn.inputs, turn.outputs) == ([], [], [], [])
    assert core.turn() == []


def test_nothing_is_sent_to_a_connection_that_is_lost_in_the_same_turn() -> None:
    core = Core(WITHOUT_TIMERS)
    client = core.client()
    asked = BytesReceived(client.number, spoken(QueueDeclare(queue="kept")))
    assert without_notes(core.turn(asked, ConnectionDropped(client.number))) == []
    assert "kept" in core.broker.vhosts["/"].topology.queues
