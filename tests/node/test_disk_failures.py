"""A node with a failing or full disk: it stops, or waits, and logs it."""

import signal
import sys

from tests.node.conftest import Connect, Serve

FAILING_FLUSH = """
import errno, os, pathlib, sys

flush = os.fdatasync
fail = pathlib.Path(sys.argv[sys.argv.index("--data") + 1] + ".fail")

def failing(descriptor):
    if fail.exists():
        raise OSError(errno.EIO, "Input/output error")
    flush(descriptor)

os.fdatasync = failing
from warren.cli.main import main
main()
"""


def test_a_failed_flush_ends_the_node_and_confirms_nothing(serve: Serve, connect: Connect, tmp_path: object) -> None:
    data = f"{tmp_path}/data"
    node = serve("--name", "hare@here", "--data", data, command=[sys.executable, "-c", FAILING_FLUSH])
    channel = connect(node, opened=True).channel()
    channel.call("queue.declare", queue="kept", durable=True)
    with open(f"{data}.fail", "w"):
        pass
    channel.call("confirm.select")
    channel.publish("", "kept", b"x", {"delivery_mode": 2})
    assert node.exit_code() == 1
    [line] = node.events("disk.failed")
    assert " level=critical " in line
    assert line.endswith('.seg cannot be flushed: Input/output error"')
    assert not node.events("core.failed")


def test_a_flush_that_fails_in_the_last_moment_is_no_clean_stop(
    serve: Serve, connect: Connect, tmp_path: object
) -> None:
    data = f"{tmp_path}/data"
    node = serve("--name", "hare@here", "--data", data, command=[sys.executable, "-c", FAILING_FLUSH])
    client = connect(node, opened=True)
    client.channel().call("queue.declare", queue="kept", durable=True)
    client.close()
    with open(f"{data}.fail", "w"):
        pass
    node.signal(signal.SIGTERM)
    assert node.exit_code() == 1
    assert node.events("disk.failed")
