"""A node on a file system that is really full: it waits, says so, and goes on when there is room again."""

import errno
import os
import signal
from pathlib import Path

import pytest

from tests.node.conftest import Connect, Serve
from tests.node.serving import COMMAND, Serving
from tests.support.amqp_client import Channel
from tests.unit.node.disk.mounts import unshare

CONFIGURATION = "disk_free_limit.absolute = 0\n"
MOUNT_AND_RUN = 'mount -t tmpfs -o size=16m tmpfs "$0" && exec "$@"'
PERSISTENT = {"delivery_mode": 2}


class SmallDisk:
    """A node with its data on a file system of 16 MiB that only the node sees."""

    def __init__(self, serve: Serve, directory: Path) -> None:
        directory.mkdir()
        command = [*unshare(), "sh", "-c", MOUNT_AND_RUN, str(directory), *COMMAND]
        self.node: Serving = serve(
            "--name", "hare@here", "--data", str(directory), command=command, configuration=CONFIGURATION
        )
        self._filler = f"/proc/{self.node.process.pid}/root{directory}/journal/filler"

    def fill(self) -> None:
        """Leave no free block."""
        descriptor = os.open(self._filler, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            for piece in (bytes(65536), bytes(1)):
                while _has_room(descriptor, piece):
                    pass
        finally:
            os.close(descriptor)

    def free(self) -> None:
        os.unlink(self._filler)


def _has_room(descriptor: int, piece: bytes) -> bool:
    try:
        return os.write(descriptor, piece) > 0
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return False


@pytest.fixture
def small_disk(serve: Serve, tmp_path: Path) -> SmallDisk:
    return SmallDisk(serve, tmp_path / "data")


def publishing(channel: Channel) -> None:
    """Fill the last blocks with a message that does not fit into the preallocated space."""
    channel.call("confirm.select")
    channel.publish("", "kept", b"x" * 3_000_000, PERSISTENT)


def test_nothing_is_confirmed_on_a_full_disk_and_everything_when_there_is_room(
    small_disk: SmallDisk, connect: Connect
) -> None:
    node = small_disk.node
    channel = connect(node, opened=True).channel()
    channel.call("queue.declare", queue="kept", durable=True)
    small_disk.fill()
    publishing(channel)
    node.wait_for(lambda: node.events("disk.full"))
    with pytest.raises(TimeoutError):
        channel.next(deadline_s=1.5)
    small_disk.free()
    channel.expect("basic.ack", delivery_tag=1)
    node.wait_for(lambda: node.events("disk.writable"))
    assert len(node.events("disk.full")) == 1
    assert channel.counts("kept") == (1, 0)


def test_a_stop_on_a_full_disk_gives_up_after_a_while_and_says_so(small_disk: SmallDisk, connect: Connect) -> None:
    node = small_disk.node
    client = connect(node, opened=True)
    channel = client.channel()
    channel.call("queue.declare", queue="kept", durable=True)
    small_disk.fill()
    publishing(channel)
    node.wait_for(lambda: node.events("disk.full"))
    node.signal(signal.SIGTERM)
    client.expect(0, "connection.close")
    client.send(0, "connection.close-ok")
    assert node.exit_code() == 1
    [line] = node.events("disk.abandoned")
    assert line.endswith(" waited_s=10.0")
