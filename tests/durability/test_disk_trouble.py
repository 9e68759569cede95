"""A disk that is nearly full, or full: only publishers wait, and no confirmed message is lost."""

import contextlib
import select
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.durability.visiting import DEADLINE_S, PERSISTENT, bodies, declare, store, visit
from tests.support.amqp_client import Channel, Connection, ServerHungUp
from tests.support.deadlines import eventually
from tests.support.node_process import NodeProcess
from tests.support.small_disk import SmallDisk

DISK_MEGABYTES = 24
LARGE_BYTES = 50_000
LARGE_COUNT = 200
# more than a segment has room for that is there already
AT_ONCE = 30
# a node that looks at its disk finds nothing wrong; it learns that there is no room when it writes
NO_LIMIT = "disk_free_limit.absolute = 0\n"


def numbered(number: int) -> bytes:
    return b"%08d" % number + bytes(LARGE_BYTES)


@contextlib.contextmanager
def publisher(node: NodeProcess) -> Iterator[Channel]:
    """A channel with confirms, on a connection that ends without a word."""
    connection = Connection(node.amqp, DEADLINE_S)
    try:
        connection.shake_hands("/")
        channel = connection.channel()
        channel.confirm()
        yield channel
    finally:
        connection.cut()


def publish_until_blocked(channel: Channel) -> int:
    """How many messages went out before the node said that it reads no more."""
    connection = channel.connection
    for number in range(LARGE_COUNT):
        channel.publish("", "q", numbered(number), PERSISTENT)
        if number < AT_ONCE:
            continue
        while connection.unread or select.select([connection.socket], [], [], 0.05)[0]:
            connection.take_frame()
        if connection.inbox.get(0):
            assert connection.expect(0, "connection.blocked").reason == "low on disk"
            return number + 1
    raise AssertionError(f"{LARGE_COUNT} messages found room on a full disk")


def confirmed_at_last(channel: Channel) -> int:
    """How many messages were confirmed by a node that is dead; all of them in order."""
    with contextlib.suppress(ServerHungUp):
        while True:
            channel.connection.take_frame()
    return max((confirm.delivery_tag for confirm in channel.connection.inbox[channel.number]), default=0)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(tmp_path / "node" / "data", DISK_MEGABYTES)
    yield disk
    disk.unmount()


@pytest.fixture
def cramped(small_disk: SmallDisk, tmp_path: Path) -> Iterator[NodeProcess]:
    """A node on the small disk."""
    command = small_disk.joined([str(Path(sys.executable).with_name("warren"))])
    node = NodeProcess(tmp_path / "node", configuration=NO_LIMIT, command=command)
    try:
        yield node
        assert node.alive, node.log()[-4000:]
    finally:
        node.kill()


def test_publishers_wait_when_less_is_free_than_the_limit_and_consumers_go_on(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path, configuration=NO_LIMIT)
    try:
        declare(node, "q")
        store(node, "q", [b"one", b"two"])
        node.configure("disk_free_limit.absolute = 900000GB\n")
        node.restart()
        with publisher(node) as channel, visit(node) as consumer:
            channel.publish("", "q", b"three", PERSISTENT)
            assert channel.connection.expect(0, "connection.blocked", DEADLINE_S).reason == "low on disk"
            eventually(lambda: "event=alarm.raised" in node.log(), "the node logs that the disk is nearly full")
            consumer.consume("q")
            assert consumer.bodies(2) == [b"one", b"two"]
            consumer.ack(2, multiple=True)
    finally:
        node.kill()


def test_on_a_full_disk_confirms_wait_until_there_is_room(small_disk: SmallDisk, cramped: NodeProcess) -> None:
    declare(cramped, "q")
    store(cramped, "q", [b"before"])
    with publisher(cramped) as channel, visit(cramped) as other:
        name = other.call("queue.declare", exclusive=True).queue
        other.publish("", name, b"transient")
        small_disk.fill()
        count = publish_until_blocked(channel)
        eventually(lambda: "event=disk.full" in cramped.log(), "the node logs that the disk is full")
        assert other.get(name) is not None
        small_disk.make_room()
        channel.confirms(range(1, count + 1))
        eventually(lambda: "event=disk.writable" in cramped.log(), "the node logs that the disk has room")
        channel.connection.expect(0, "connection.unblocked", DEADLINE_S)
    cramped.crash()
    assert bodies(cramped, "q") == [b"before", *(numbered(number) for number in range(count))]


def test_a_node_killed_on_a_full_disk_has_the_messages_it_confirmed(
    small_disk: SmallDisk, cramped: NodeProcess
) -> None:
    declare(cramped, "q")
    with publisher(cramped) as channel:
        small_disk.fill()
        published = publish_until_blocked(channel)
        eventually(lambda: "event=disk.full" in cramped.log(), "the node logs that the disk is full")
        cramped.kill()
        confirmed = confirmed_at_last(channel)
    small_disk.make_room()
    cramped.start()
    found = bodies(cramped, "q")
    assert found == [numbered(number) for number in range(len(found))]
    assert confirmed <= len(found) <= published
    assert found
