"""The handshake, from the protocol header to connection.open-ok, and every way in which it fails."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.amqp_client import CAPABILITIES, Connection
from tests.support.amqp_frames import HEARTBEAT, METHOD, PROTOCOL_HEADER, amqplain, frame, plain
from tests.support.amqp_methods import write_method
from tests.support.amqp_values import write_table
from tests.wire.conftest import Connect

Dial = Callable[[], Connection]
REFUSED_LOGIN = (
    "ACCESS_REFUSED - Login was refused using authentication mechanism {}. For details see the broker logfile."
)


@pytest.mark.parametrize(
    "header",
    [
        b"AMQP\x00\x01\x00\x00",
        b"AMQP\x03\x01\x00\x00",
        b"AMQP\x00\x00\x08\x00",
        b"AMQP\x00\x00\x0a\x00",
        b"AMQPwhat",
        b"XMQP\x00\x00\x09\x01",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        bytes(8),
    ],
)
def test_a_wrong_protocol_header_is_answered_with_the_right_one_and_a_hang_up(dial: Dial, header: bytes) -> None:
    connection = dial()
    connection.send_bytes(header)
    assert connection.raw_reply(8) == PROTOCOL_HEADER
    connection.expect_hang_up()


@pytest.mark.parametrize("header", [PROTOCOL_HEADER, b"AMQP\x01\x01\x00\x09"])
def test_both_spellings_of_the_protocol_header_are_understood(dial: Dial, header: bytes) -> None:
    connection = dial()
    connection.send_bytes(header)
    start = connection.expect(0, "connection.start")
    assert (start.major, start.minor, start.locales) == (0, 9, b"en_US")


def test_a_protocol_header_may_come_one_octet_at_a_time(dial: Dial) -> None:
    connection = dial()
    for octet in PROTOCOL_HEADER:
        connection.send_bytes(bytes((octet,)))
    connection.expect(0, "connection.start")


def test_the_server_introduces_itself(dial: Dial) -> None:
    start = dial().start()
    assert {b"PLAIN", b"AMQPLAIN"} <= set(start.mechanisms.split())
    properties = start.server_properties
    assert {"capabilities", "cluster_name", "copyright", "information", "platform", "product", "version"} <= set(
        properties
    )
    assert properties["capabilities"] == {
        "publisher_confirms": True,
        "exchange_exchange_bindings": True,
        "basic.nack": True,
        "consumer_cancel_notify": True,
        "connection.blocked": True,
        "consumer_priorities": True,
        "authentication_failure_close": True,
        "per_consumer_qos": True,
        "direct_reply_to": True,
    }
    assert properties["version"].startswith("3.")


@pytest.mark.parametrize(("mechanism", "response"), [("PLAIN", plain()), ("AMQPLAIN", amqplain())])
@pytest.mark.parametrize("capabilities", [CAPABILITIES, None], ids=["capable", "plain client"])
def test_a_known_user_gets_to_tune(dial: Dial, mechanism: str, response: bytes, capabilities: Any) -> None:
    connection = dial()
    connection.start()
    connection.start_ok(mechanism, response, capabilities)
    connection.expect(0, "connection.tune", channel_max=2047, frame_max=131072, heartbeat=60)


def test_an_unknown_locale_and_odd_client_properties_are_no_obstacle(dial: Dial) -> None:
    connection = dial()
    connection.start()
    properties = {"capabilities": 1, "nested": {"a": [1, None, {"b": True}]}}
    connection.send(
        0,
        "connection.start-ok",
        client_properties=properties,
        mechanism="PLAIN",
        response=plain(),
        locale="tlh_KX",
    )
    connection.expect(0, "connection.tune")


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        ("PLAIN", plain("guest", "wrong")),
        ("PLAIN", plain("nobody", "guest")),
        ("PLAIN", plain("guest", "")),
        ("AMQPLAIN", amqplain("guest", "wrong")),
        ("AMQPLAIN", amqplain("nobody", "guest")),
    ],
)
def test_a_refused_login_is_answered_if_the_client_has_the_capability(
    dial: Dial, mechanism: str, response: bytes
) -> None:
    connection = dial()
    connection.start()
    connection.start_ok(mechanism, response, CAPABILITIES)
    connection.expect_close(403, REFUSED_LOGIN.format(mechanism))


@pytest.mark.parametrize(
    ("mechanism", "response", "capabilities"),
    [
        ("PLAIN", plain("guest", "wrong"), None),
        ("PLAIN", plain("guest", "wrong"), {"authentication_failure_close": False}),
        ("AMQPLAIN", amqplain("guest", "wrong"), None),
        ("PLAIN", b"no separators", CAPABILITIES),
        ("PLAIN", b"", CAPABILITIES),
        ("PLAIN", b"\0guest", CAPABILITIES),
        ("PLAIN", b"other\0guest\0guest", CAPABILITIES),
        ("AMQPLAIN", b"\x05table", CAPABILITIES),
        ("AMQPLAIN", write_table({"LOGIN": "guest", "PASSWORD": "guest"}), CAPABILITIES),
        ("AMQPLAIN", write_table({"PASSWORD": "guest"})[4:], CAPABILITIES),
        ("AMQPLAIN", write_table({"LOGIN": 1, "PASSWORD": "guest"})[4:], CAPABILITIES),
        ("NONSENSE", b"", CAPABILITIES),
        ("", plain(), CAPABILITIES),
        ("plain", plain(), CAPABILITIES),
    ],
)
def test_any_other_failure_to_log_in_ends_without_a_word(
    dial: Dial, mechanism: str, response: bytes, capabilities: Any
) -> None:
    connection = dial()
    connection.start()
    connection.start_ok(mechanism, response, capabilities)
    connection.expect_hang_up()


@pytest.mark.parametrize(
    "tuning",
    [
        {"channel_max": 2048},
        {"channel_max": 65535},
        {"channel_max": 0},
        {"frame_max": 131073},
        {"frame_max": 0},
        {"frame_max": 4095},
        {"frame_max": 1},
    ],
    ids=str,
)
def test_tuning_out_of_the_offered_range_ends_without_a_word(dial: Dial, tuning: dict[str, int]) -> None:
    connection = dial()
    connection.authenticate()
    connection.send(0, "connection.tune-ok", **{"channel_max": 2047, "frame_max": 131072} | tuning)
    connection.expect_hang_up()


@pytest.mark.parametrize(
    "tuning", [{"channel_max": 1}, {"frame_max": 4096}, {"heartbeat": 0}, {"heartbeat": 3600}, {"frame_max": 131072}]
)
def test_tuning_down_is_accepted(connect: Connect, tuning: dict[str, int]) -> None:
    connect(**tuning).channel()


@pytest.mark.parametrize(
    ("virtual_host", "complaint"),
    [
        ("nowhere", "NOT_ALLOWED - vhost nowhere not found"),
        ("", "NOT_ALLOWED - vhost  not found"),
        ("v" * 255, f"NOT_ALLOWED - vhost {'v' * 232}..."),
    ],
)
def test_an_unknown_virtual_host_is_refused(dial: Dial, virtual_host: str, complaint: str) -> None:
    connection = dial()
    connection.tune_ok(connection.authenticate())
    connection.send(0, "connection.open", virtual_host=virtual_host)
    connection.expect_close(530, complaint, "connection.open")


def test_a_virtual_host_must_be_utf8(dial: Dial) -> None:
    connection = dial()
    connection.tune_ok(connection.authenticate())
    connection.send(0, "connection.open", virtual_host=b"\xff")
    connection.expect_close(501, "FRAME_ERROR - Malformed UTF-8 in shortstr", "connection.open")


START_OK = frame(METHOD, 0, write_method("connection.start-ok", {"mechanism": "PLAIN", "response": plain()}))
TUNE_OK = frame(METHOD, 0, write_method("connection.tune-ok", {"channel_max": 2047, "frame_max": 131072}))
OPEN = frame(METHOD, 0, write_method("connection.open", {"virtual_host": "/"}))
CLOSE = frame(METHOD, 0, write_method("connection.close", {"reply_code": 200}))
CHANNEL_OPEN = frame(METHOD, 1, write_method("channel.open", {}))


@pytest.mark.parametrize(
    "impatience",
    [TUNE_OK, OPEN, CLOSE, CHANNEL_OPEN, frame(METHOD, 0, b"\0\x63\0\x01"), frame(METHOD, 0, b"odd", b"\0")],
    ids=["tune-ok", "open", "close", "channel open", "unknown method", "bad frame end"],
)
def test_before_the_login_anything_else_ends_without_a_word(dial: Dial, impatience: bytes) -> None:
    connection = dial()
    connection.start()
    connection.send_bytes(impatience)
    connection.expect_hang_up()


@pytest.mark.parametrize(
    "impatience", [START_OK, OPEN, CLOSE, CHANNEL_OPEN], ids=["start-ok", "open", "close", "channel open"]
)
def test_before_tuning_anything_else_ends_without_a_word(dial: Dial, impatience: bytes) -> None:
    connection = dial()
    connection.authenticate()
    connection.send_bytes(impatience)
    connection.expect_hang_up()


@pytest.mark.parametrize(
    ("impatience", "code", "text", "method"),
    [
        (CHANNEL_OPEN, 505, "UNEXPECTED_FRAME - type 1, all octets = <<0,20,0,10,0>>", ""),
        (CLOSE, 504, "CHANNEL_ERROR - unexpected method in connection state opening", "connection.close"),
        (TUNE_OK, 504, "CHANNEL_ERROR - unexpected method in connection state opening", "connection.tune-ok"),
    ],
    ids=["channel open", "close", "tune-ok"],
)
def test_before_the_virtual_host_anything_else_is_an_error(
    dial: Dial, impatience: bytes, code: int, text: str, method: str
) -> None:
    connection = dial()
    connection.tune_ok(connection.authenticate())
    connection.send_bytes(impatience)
    connection.expect_close(code, text, method)


def test_a_frame_announced_beyond_the_smallest_frame_max_ends_the_handshake(dial: Dial) -> None:
    connection = dial()
    connection.start()
    connection.send_bytes(frame(METHOD, 0, bytes(100_000))[:4200])
    connection.expect_hang_up()


def test_the_whole_handshake_may_be_sent_at_once(dial: Dial) -> None:
    connection = dial()
    connection.send_bytes(PROTOCOL_HEADER + START_OK + TUNE_OK + OPEN + CHANNEL_OPEN)
    for method in ("connection.start", "connection.tune", "connection.open-ok"):
        connection.expect(0, method)
    connection.expect(1, "channel.open-ok")


def test_a_slow_handshake_is_cut_off_wherever_it_stopped(dial: Dial) -> None:
    mute, greeted, known = dial(), dial(), dial()
    greeted.start()
    known.authenticate()
    for connection in (mute, greeted, known):
        connection.expect_hang_up(deadline_s=30)


def test_a_silent_client_is_dropped_after_two_missed_heartbeats(connect: Connect) -> None:
    connection = connect(heartbeat=1)
    connection.expect_hang_up()


def test_the_server_beats_and_a_beating_client_stays(connect: Connect) -> None:
    # a client that a busy machine leaves waiting for less than twice as long stays, too
    connection = connect(heartbeat=2)
    while connection.heartbeats_seen < 8:
        received = connection.next_frame()
        assert (received.kind, received.channel, received.payload) == (HEARTBEAT, 0, b"")
        connection.heartbeats_seen += 1
        connection.send_frame(HEARTBEAT, 0, b"")
    connection.channel()


def test_without_a_heartbeat_the_server_is_silent(connect: Connect) -> None:
    connection = connect(heartbeat=0)
    connection.channel().close()
    assert connection.heartbeats_seen == 0
