"""The life of an open connection: closing it, its channels, its secret, and what channel 0 is not for."""

import pytest

from tests.support.amqp_client import Connection
from tests.support.amqp_frames import METHOD, frame
from tests.support.amqp_methods import write_method
from tests.wire.conftest import Connect

UNEXPECTED = "CHANNEL_ERROR - unexpected method in connection state running"


def test_a_client_closes_the_connection(connect: Connect) -> None:
    connection = connect()
    connection.send(0, "connection.close", reply_code=200, reply_text="bye")
    connection.expect(0, "connection.close-ok")
    connection.hang_up()


def test_a_client_closes_a_connection_with_open_channels(connect: Connect) -> None:
    connection = connect()
    for _ in range(5):
        connection.channel()
    connection.send(0, "connection.close", reply_code=200)
    connection.expect(0, "connection.close-ok")
    connection.hang_up()


def test_methods_behind_a_close_are_ignored(connect: Connect) -> None:
    connection = connect()
    connection.channel()
    impatient = frame(METHOD, 1, write_method("queue.declare", {"queue": "nothing", "passive": True}))
    connection.send_bytes(frame(METHOD, 0, write_method("connection.close", {"reply_code": 200})) + impatient)
    connection.expect(0, "connection.close-ok")
    connection.hang_up()


def test_after_the_server_closes_only_close_ok_matters(connect: Connect) -> None:
    connection = connect()
    channel = connection.channel()
    channel.send("basic.qos", prefetch_size=1)
    channel.send("queue.declare", queue="nothing", passive=True)
    connection.expect_close(540, "NOT_IMPLEMENTED - prefetch_size!=0 (1)", "basic.qos")


@pytest.mark.parametrize(
    "method",
    [
        "connection.open",
        "connection.start-ok",
        "connection.tune-ok",
        "connection.close-ok",
        "connection.secure-ok",
        "connection.blocked",
        "connection.start",
        "channel.open",
        "queue.declare",
        "basic.publish",
    ],
)
def test_channel_zero_is_for_the_connection_and_each_thing_has_its_time(connection: Connection, method: str) -> None:
    connection.send(0, method)
    connection.expect_close(504, UNEXPECTED, method)


@pytest.mark.parametrize("secret", [b"guest", b"anything"])
def test_a_secret_can_be_updated(connection: Connection, secret: bytes) -> None:
    connection.send(0, "connection.update-secret", new_secret=secret, reason="rotation")
    connection.expect(0, "connection.update-secret-ok")
    connection.channel()


def test_a_channel_number_can_be_used_again(connection: Connection) -> None:
    for _ in range(3):
        connection.channel(7).close()


def test_a_server_closes_a_channel_and_ignores_the_rest_until_close_ok(connection: Connection) -> None:
    channel = connection.channel()
    channel.send("queue.declare", queue="nothing", passive=True)
    channel.send("queue.declare", queue="nothing-more", passive=True)
    channel.send("basic.qos", prefetch_size=1)
    channel.expect_close(404, "NOT_FOUND - no queue 'nothing' in vhost '/'", "queue.declare")
    connection.channel(channel.number).call("basic.qos")


def test_closes_that_cross_on_a_channel_are_both_answered(connection: Connection) -> None:
    channel = connection.channel()
    channel.send("queue.declare", queue="nothing", passive=True)
    channel.send("channel.close", reply_code=200)
    channel.expect("channel.close", reply_code=404)
    channel.expect("channel.close-ok")
    channel.send("channel.close-ok")
    connection.channel(channel.number).call("basic.qos")


@pytest.mark.parametrize("method", ["basic.qos", "channel.close", "channel.close-ok", "queue.declare"])
def test_a_channel_must_be_opened_first(connection: Connection, method: str) -> None:
    connection.send(5, method)
    connection.expect_close(504, "CHANNEL_ERROR - expected 'channel.open'", method)


def test_channel_max_bounds_how_many_are_open_not_their_numbers(connect: Connect) -> None:
    connection = connect(channel_max=2)
    connection.channel(65535)
    connection.channel(9)
    connection.send(2, "channel.open")
    connection.expect_close(
        530, "NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)"
    )


def test_a_closed_channel_makes_room_for_another(connect: Connect) -> None:
    connection = connect(channel_max=1)
    for number in range(1, 4):
        connection.channel(number).close()


def test_a_cut_connection_leaves_others_alone(connect: Connect) -> None:
    witness = connect().channel()
    doomed = connect()
    doomed.channel()
    doomed.send_bytes(frame(METHOD, 1, bytes(100))[:20])
    doomed.cut()
    witness.call("basic.qos")
