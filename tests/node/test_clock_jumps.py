"""A real node on a machine whose wall clock jumps, while it runs and between two runs.

Not here: the client's jobs (`tests/client/test_clock_jumps.py`).
"""

import sys
import time
from pathlib import Path

import pytest

from tests.node.conftest import Connect, Serve
from tests.node.serving import Serving
from tests.support.amqp_client import Channel
from tests.support.operator import Operator

YEAR_S = 365 * 24 * 3600
JUMPS_S = (3600, -3600, 10 * YEAR_S, -20 * YEAR_S, 5, 0)
SCRIPT = str(Path(__file__).with_name("serve_at_another_time.py"))
DELAYS = {"x-delayed-type": "direct"}
TTL_MS = 300


@pytest.fixture
def wall(tmp_path: Path) -> Path:
    """The seconds that the wall clock is ahead."""
    path = tmp_path / "ahead"
    path.write_text("0")
    return path


def started(serve: Serve, wall: Path, data: Path) -> Serving:
    return serve("--data", str(data), command=[sys.executable, SCRIPT, str(wall)])


def declare(channel: Channel) -> None:
    arguments = {"x-message-ttl": TTL_MS, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.call("queue.declare", queue="short", durable=True, arguments=arguments)
    for name in ("kept", "dead", "delayed"):
        channel.call("queue.declare", queue=name, durable=True)
    channel.call("exchange.declare", exchange="later", type="x-delayed-message", durable=True, arguments=DELAYS)
    channel.call("queue.bind", queue="delayed", exchange="later", routing_key="delayed")
    channel.confirm()


def publish(channel: Channel) -> None:
    """Four messages: one expires soon, one in an hour, one is delayed, one is kept."""
    channel.publish("", "short", b"x", {"delivery_mode": 2})
    channel.publish("", "kept", b"x", {"delivery_mode": 2, "expiration": "3600000"})
    channel.publish("", "kept", b"x", {"delivery_mode": 2})
    channel.publish("later", "delayed", b"x", {"delivery_mode": 2, "headers": {"x-delay": TTL_MS}})


def test_jumps_while_the_node_runs_change_nothing(serve: Serve, connect: Connect, wall: Path, tmp_path: Path) -> None:
    node = started(serve, wall, tmp_path / "data")
    connection = connect(node, opened=True, heartbeat=2)
    channel = connection.channel()
    declare(channel)
    for number, ahead_s in enumerate(JUMPS_S, 1):
        wall.write_text(str(ahead_s))
        begun = time.monotonic()
        publish(channel)
        channel.confirms(range(4 * number - 3, 4 * number + 1))
        channel.await_counts("dead", number)
        channel.await_counts("delayed", number)
        channel.await_counts("kept", 2 * number)
        # not at once, as a clock that jumps forward would have it
        assert time.monotonic() - begun > TTL_MS / 2000
        assert Operator(node.address("http")).read("whoami")["name"] == "guest"
    assert not node.events("connection.lost")


@pytest.mark.parametrize("ahead_s", [3600, 10 * YEAR_S])
def test_a_node_whose_clock_was_ahead_stalls_nothing_when_it_is_set_back(
    serve: Serve, connect: Connect, wall: Path, tmp_path: Path, ahead_s: int
) -> None:
    """Delays and expiries on disk are times of day: by the right clock they are hours or years away."""
    wall.write_text(str(ahead_s))
    first = started(serve, wall, tmp_path / "data")
    channel = connect(first, opened=True).channel()
    declare(channel)
    publish(channel)
    channel.confirms(range(1, 5))
    first.end()
    wall.write_text("0")
    second = started(serve, wall, tmp_path / "data")
    channel = connect(second, opened=True).channel()
    channel.await_counts("dead", 1)
    channel.await_counts("delayed", 1)
    channel.await_counts("kept", 2)


def test_a_node_whose_clock_is_years_ahead_at_a_restart_keeps_what_does_not_expire(
    serve: Serve, connect: Connect, wall: Path, tmp_path: Path
) -> None:
    first = started(serve, wall, tmp_path / "data")
    channel = connect(first, opened=True).channel()
    declare(channel)
    channel.call("queue.declare", queue="unused", durable=True, arguments={"x-expires": 600_000})
    publish(channel)
    channel.confirms(range(1, 5))
    first.end()
    wall.write_text(str(10 * YEAR_S))
    second = started(serve, wall, tmp_path / "data")
    channel = connect(second, opened=True).channel()
    channel.await_counts("delayed", 1)
    # of the two, one had an expiration of an hour
    channel.await_counts("kept", 1)
    channel.call("queue.declare", queue="unused", passive=True)
