"""Timeouts of a connection: the handshake, silence, and the close."""

import pytest

from tests.support.core_driver import Core, published, spoken
from warren.broker.model.effects import CloseConnection, SendBytes
from warren.broker.model.events import MemoryMeasured
from warren.broker.model.settings import BrokerSettings
from warren.broker.sessions.connection import CLOSE_OK_WAIT_MS, SILENT_CLOSE_MS
from warren.wire.frames import HEARTBEAT_FRAME, PROTOCOL_HEADER
from warren.wire.methods import (
    BasicGet,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionStartOk,
    ConnectionTuneOk,
    QueueDeclare,
)

HEARTBEAT_S = 10
HEARTBEAT_MS = HEARTBEAT_S * 1000


@pytest.fixture
def core() -> Core:
    return Core(BrokerSettings(consumer_timeout_ms=0, handshake_timeout_ms=5_000))


def start_ok(password: bytes = b"guest", **capabilities: bool) -> bytes:
    properties: dict[str, object] = {"capabilities": dict(capabilities)}
    method = ConnectionStartOk(client_properties=properties, mechanism="PLAIN", response=b"\0guest\0" + password)
    return spoken(method, channel=0)


def test_a_client_that_says_nothing_is_cut_off_when_the_handshake_takes_too_long(core: Core) -> None:
    client = core.connect()
    assert core.pass_ms(4_999) == []
    assert CloseConnection(client.number) in core.pass_ms(1)
    assert core.note_names() == ["handshake.timed_out"]


def test_a_handshake_that_stops_half_way_times_out_all_the_same(core: Core) -> None:
    client = core.connect()
    core.pass_ms(3_000)
    client.read(PROTOCOL_HEADER + start_ok())
    client.read(spoken(ConnectionTuneOk(channel_max=1, frame_max=4096, heartbeat=0), channel=0))
    core.pass_ms(2_000)
    assert core.closed == [client.number]


def test_a_client_that_shook_hands_is_not_timed_out(core: Core) -> None:
    client = core.connect()
    core.pass_ms(4_999)
    client.shake_hands()
    core.pass_ms(3_600_000)
    assert core.closed == []


def test_a_distrusted_client_waits_three_seconds_for_the_end(core: Core) -> None:
    client = core.connect()
    client.read(PROTOCOL_HEADER)
    client.read(start_ok(password=b"wrong"))
    client.heard()
    core.pass_ms(int(SILENT_CLOSE_MS) - 1)
    assert (client.heard(), core.closed) == ([], [])
    core.pass_ms(1)
    assert core.closed == [client.number]


def test_a_heartbeat_is_sent_whenever_half_of_one_passed_in_silence(core: Core) -> None:
    client = core.client(heartbeat_s=HEARTBEAT_S)
    beat = SendBytes(client.number, HEARTBEAT_FRAME)
    beats = 0
    for _ in range(8):
        client.read(HEARTBEAT_FRAME)
        beats += core.pass_ms(HEARTBEAT_MS // 2).count(beat)
    assert beats == 8


def test_a_client_that_is_sent_something_needs_no_heartbeat(core: Core) -> None:
    client = core.client(heartbeat_s=HEARTBEAT_S)
    for _ in range(20):
        client.declare("q")
        assert SendBytes(client.number, HEARTBEAT_FRAME) not in core.pass_ms(HEARTBEAT_MS // 10)


def test_no_client_waits_a_whole_heartbeat_for_a_sign_of_life(core: Core) -> None:
    client = core.client(heartbeat_s=HEARTBEAT_S)
    core.pass_ms(HEARTBEAT_MS // 2 + 1)
    client.declare("just after a beat")
    said_at_ms = core.now_ms
    while SendBytes(client.number, HEARTBEAT_FRAME) not in core.pass_ms(1):
        pass
    assert core.now_ms - said_at_ms < HEARTBEAT_MS


def test_a_client_silent_for_two_heartbeats_is_cut_off_and_its_deliveries_return(core: Core) -> None:
    other = core.client()
    other.declare("q")
    client = core.client(heartbeat_s=HEARTBEAT_S)
    client.consume("q")
    other.publish("q", b"x")
    core.pass_ms(2 * HEARTBEAT_MS)
    assert core.closed == []
    core.pass_ms(HEARTBEAT_MS // 2)
    assert core.closed == [client.number]
    assert core.note_names()[-1] == "connection.silent"
    other.say(BasicGet(queue="q"))
    assert other.bodies() == [b"x"]


@pytest.mark.parametrize("sign", [HEARTBEAT_FRAME, spoken(QueueDeclare(queue="q")), b"\x01"])
def test_any_octet_is_a_sign_of_life(core: Core, sign: bytes) -> None:
    client = core.client(heartbeat_s=HEARTBEAT_S)
    core.pass_ms(2 * HEARTBEAT_MS - 1)
    client.read(sign)
    core.pass_ms(2 * HEARTBEAT_MS - 1)
    assert core.closed == []
    core.pass_ms(HEARTBEAT_MS // 2 + 1)
    assert core.closed == [client.number]


def test_a_client_that_wants_no_heartbeats_may_be_silent_for_ever(core: Core) -> None:
    core.client(heartbeat_s=0)
    assert core.pass_ms(10**9) == []
    assert core.closed == []


def test_a_blocked_publisher_is_not_silent_by_its_own_will(core: Core) -> None:
    client = core.client(heartbeat_s=HEARTBEAT_S)
    client.declare("q")
    core.turn(MemoryMeasured(2_000, 1_000))
    client.publish("q", bytes(1000))
    client.publish("q", b"blocked")
    assert core.unread == {client.number}
    core.pass_ms(10 * HEARTBEAT_MS)
    assert core.closed == []
    core.turn(MemoryMeasured(10, 10_000))
    core.settle()
    assert core.unread == set()
    core.pass_ms(2 * HEARTBEAT_MS)
    assert core.closed == []
    core.pass_ms(HEARTBEAT_MS)
    assert core.closed == [client.number]


def test_a_client_that_never_answers_connection_close_is_cut_off(core: Core) -> None:
    client = core.client()
    client.read(b"\x07" + bytes(6) + b"\xce")
    assert client.names() == ["connection.close"]
    core.pass_ms(int(CLOSE_OK_WAIT_MS) - 1)
    assert core.closed == []
    core.pass_ms(1)
    assert core.closed == [client.number]


def test_a_client_that_answers_connection_close_is_let_go_at_once(core: Core) -> None:
    client = core.client()
    client.read(b"\x07" + bytes(6) + b"\xce")
    client.say(ConnectionCloseOk(), channel=0)
    assert core.closed == [client.number]


def test_a_client_that_closes_is_answered_and_may_hang_up_first(core: Core) -> None:
    client = core.client()
    client.say(ConnectionClose(200, "bye"), channel=0)
    assert client.methods() == [ConnectionCloseOk()]
    client.read(published("q"))
    assert core.closed == []
    core.pass_ms(int(SILENT_CLOSE_MS))
    assert core.closed == [client.number]


def test_a_client_that_hung_up_after_closing_is_not_closed_again(core: Core) -> None:
    client = core.client()
    client.say(ConnectionClose(200, "bye"), channel=0)
    client.lose()
    core.pass_ms(60_000)
    assert core.closed == []
    assert core.timer_at_ms == 0
