"""The client's side of the handshake, of tuning, of heartbeats, and of the end."""

import pytest

from tests.unit.client.machine.scripted import FRAME_MAX, Scripted
from warren.client.machine.connection import GREETING, LOGIN, OPEN, OPENING, ConnectionMachine
from warren.client.machine.events import (
    BY_BROKER,
    BY_CLIENT,
    HEARTBEAT_MISSED,
    LOGIN_REFUSED,
    LOST,
    PROTOCOL_ERROR,
    Blocked,
    ClientEvent,
    Closed,
    HandshakeCompleted,
    Unblocked,
)
from warren.client.machine.settings import EXTERNAL, ClientSettings
from warren.wire.frames import HEARTBEAT_FRAME, PROTOCOL_HEADER
from warren.wire.methods import (
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUnblocked,
    QueueDeclareOk,
)

START = ConnectionStart(mechanisms=b"PLAIN AMQPLAIN", server_properties={"product": "Some"})


def only(events: list[ClientEvent]) -> ClientEvent:
    assert len(events) == 1
    return events[0]


def ending(events: list[ClientEvent]) -> tuple[str, str, int]:
    event = only(events)
    assert isinstance(event, Closed)
    return event.cause, event.stage, event.code


def test_a_client_begins_with_the_header_and_ends_up_open() -> None:
    scripted = Scripted(ClientSettings("anna", "pass", "v", client_properties={"connection_name": "n"}))
    assert scripted.octets() == PROTOCOL_HEADER
    assert scripted.say(START, channel=0) == []
    [start_ok] = scripted.methods()
    assert isinstance(start_ok, ConnectionStartOk)
    assert (start_ok.mechanism, start_ok.response) == ("PLAIN", b"\0anna\0pass")
    assert start_ok.client_properties["connection_name"] == "n"
    capabilities = start_ok.client_properties["capabilities"]
    assert isinstance(capabilities, dict)
    assert capabilities["authentication_failure_close"] is True
    assert scripted.say(ConnectionTune(7, FRAME_MAX, 60), channel=0) == []
    assert scripted.methods() == [ConnectionTuneOk(7, FRAME_MAX, 60), ConnectionOpen("v")]
    opened = only(scripted.say(ConnectionOpenOk(), channel=0))
    assert isinstance(opened, HandshakeCompleted)
    assert (opened.server_properties, opened.channel_max) == ({"product": "Some"}, 7)


@pytest.mark.parametrize(
    ("wanted", "offered", "agreed"),
    [
        ((0, 0, -1), (0, 0, 0), (0, 0, 0)),
        ((5, 4096, 10), (0, 0, 0), (5, 4096, 10)),
        ((0, 0, -1), (9, 8192, 60), (9, 8192, 60)),
        ((5, 16_384, 10), (9, 8192, 60), (5, 8192, 10)),
        ((0, 0, 100), (9, 8192, 60), (9, 8192, 60)),
        ((0, 0, 0), (9, 8192, 60), (9, 8192, 0)),
    ],
)
def test_of_two_limits_the_smaller_counts(
    wanted: tuple[int, int, int], offered: tuple[int, int, int], agreed: tuple[int, int, int]
) -> None:
    channel_max, frame_max, heartbeat_s = wanted
    scripted = Scripted(ClientSettings(heartbeat_s=heartbeat_s, channel_max=channel_max, frame_max=frame_max))
    scripted.say(START, channel=0)
    scripted.heard()
    scripted.say(ConnectionTune(*offered), channel=0)
    assert scripted.methods()[0] == ConnectionTuneOk(*agreed)


def test_a_certificate_answers_with_nothing() -> None:
    scripted = Scripted(ClientSettings(mechanism=EXTERNAL))
    scripted.say(ConnectionStart(mechanisms=b"PLAIN EXTERNAL"), channel=0)
    [start_ok] = scripted.methods()
    assert isinstance(start_ok, ConnectionStartOk)
    assert (start_ok.mechanism, start_ok.response) == ("EXTERNAL", b"")


def test_a_mechanism_that_is_not_offered_ends_the_login() -> None:
    scripted = Scripted(ClientSettings(mechanism=EXTERNAL))
    event = only(scripted.say(START, channel=0))
    assert isinstance(event, Closed)
    assert (event.cause, event.stage) == (PROTOCOL_ERROR, LOGIN)
    assert event.text == "the broker offers PLAIN, AMQPLAIN and not EXTERNAL"


def test_a_broker_of_another_version_says_so() -> None:
    event = only(Scripted().send(b"AMQP\x00\x01\x00\x00"))
    assert isinstance(event, Closed)
    assert (event.stage, event.text) == (GREETING, "the broker speaks AMQP 1.0.0, not 0.9.1")


def test_an_end_says_how_far_the_handshake_had_come() -> None:
    scripted = Scripted()
    assert ending(scripted.machine.lose("gone")) == (LOST, GREETING, 0)
    scripted = Scripted()
    scripted.say(START, channel=0)
    assert ending(scripted.say(ConnectionClose(403, "ACCESS_REFUSED"), channel=0)) == (BY_BROKER, LOGIN, 403)
    scripted = Scripted()
    scripted.say(START, channel=0)
    scripted.say(ConnectionTune(), channel=0)
    assert ending(scripted.say(ConnectionClose(530, "NOT_ALLOWED"), channel=0)) == (BY_BROKER, OPENING, 530)
    assert scripted.methods()[-1] == ConnectionCloseOk()
    assert ending(Scripted.opened().machine.lose("gone")) == (LOST, OPEN, 0)


@pytest.mark.parametrize(
    ("capabilities", "cause"), [({"authentication_failure_close": True}, LOST), ({}, LOGIN_REFUSED)]
)
def test_a_hang_up_during_the_login_is_a_refusal_if_the_broker_does_not_report_refusals(
    capabilities: dict[str, object], cause: str
) -> None:
    scripted = Scripted()
    properties: dict[str, object] = {"capabilities": capabilities}
    scripted.say(ConnectionStart(mechanisms=b"PLAIN", server_properties=properties), channel=0)
    assert ending(scripted.machine.lose("gone")) == (cause, LOGIN, 0)


def test_an_end_is_reported_once() -> None:
    scripted = Scripted.opened()
    scripted.say(ConnectionClose(320, "CONNECTION_FORCED"), channel=0)
    assert scripted.machine.lose("gone") == []
    assert scripted.say(ConnectionBlocked("why"), channel=0) == []


def test_a_method_out_of_turn_is_not_understood() -> None:
    assert ending(Scripted().say(ConnectionTune(), channel=0))[0] == PROTOCOL_ERROR
    scripted = Scripted.opened()
    assert ending(scripted.say(START, channel=0)) == (PROTOCOL_ERROR, OPEN, 503)
    [close] = scripted.methods()
    assert isinstance(close, ConnectionClose)
    assert close.reply_code == 503


def test_a_client_that_closes_waits_for_the_answer() -> None:
    scripted = Scripted.opened()
    scripted.machine.close()
    assert scripted.methods() == [ConnectionClose(200, "Goodbye")]
    assert scripted.say(QueueDeclareOk("late"), channel=0) == []
    assert ending(scripted.say(ConnectionCloseOk(), channel=0)) == (BY_CLIENT, OPEN, 200)
    with pytest.raises(ValueError, match="not open"):
        scripted.machine.open_channel()


def test_a_broker_blocks_and_unblocks() -> None:
    events = Scripted.opened().say(ConnectionBlocked("memory"), ConnectionUnblocked(), channel=0)
    assert isinstance(events[0], Blocked)
    assert events[0].reason == "memory"
    assert isinstance(events[1], Unblocked)


def test_a_heartbeat_goes_out_when_nothing_else_does() -> None:
    scripted = Scripted.opened(heartbeat=10)
    assert tick(scripted, 4000) == []
    assert scripted.octets() == b""
    assert tick(scripted, 2000) == []
    assert scripted.octets() == HEARTBEAT_FRAME
    tick(scripted, 2500)
    scripted.machine.open_channel()
    scripted.octets()
    tick(scripted, 2500)
    assert scripted.octets() == b""


def test_a_broker_that_is_silent_for_two_heartbeats_is_gone() -> None:
    scripted = Scripted.opened(heartbeat=10)
    for _ in range(8):
        assert tick(scripted, 2500) == []
    assert ending(tick(scripted, 2500)) == (HEARTBEAT_MISSED, OPEN, 0)


def test_any_received_bytes_postpone_the_heartbeat_timeout() -> None:
    scripted = Scripted.opened(heartbeat=10)
    for _ in range(8):
        assert tick(scripted, 2500) == []
    assert scripted.send(HEARTBEAT_FRAME) == []
    assert tick(scripted, 2500) == []


def test_a_program_that_slept_does_not_blame_the_broker() -> None:
    scripted = Scripted.opened(heartbeat=10)
    assert tick(scripted, 60_000) == []
    assert scripted.machine.heartbeat_s == 10


def test_without_heartbeats_silence_means_nothing() -> None:
    scripted = Scripted.opened(heartbeat=0)
    for _ in range(100):
        assert tick(scripted, 60_000) == []
    assert scripted.octets() == b""


def test_a_password_is_not_shown() -> None:
    machine = ConnectionMachine(ClientSettings("u", "secret"), 0)
    assert "secret" not in repr(machine.settings)


def tick(scripted: Scripted, milliseconds: int) -> list[ClientEvent]:
    scripted.now_ms += milliseconds
    return scripted.machine.tick(scripted.now_ms)
