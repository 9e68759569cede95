"""The fixtures as a user's test suite has them: a plugin that it enables, in a pytest of its own."""

import subprocess
import sys
from pathlib import Path

SUITE = """
import asyncio
import socket

from warren.client import Message
from warren.client.transport import Layout, Outgoing, QueueLayout

LEFT = {}


def test_a_message_arrives(memory_broker, transport):
    async def scenario():
        await transport.declare(Layout(queues=(QueueLayout("orders"),)))
        assert await transport.publish([Outgoing(Message(b"tea"), routing_key="orders")]) == [None]
        assert await transport.get("orders") is not None

    asyncio.run(scenario())
    assert [message.body for message in memory_broker.unacked("orders")] == [b"tea"]
    LEFT["broker"] = memory_broker


def test_each_test_has_a_broker_of_its_own_and_transports_are_closed(memory_broker):
    assert not memory_broker.has_queue("orders")
    assert [message.body for message in LEFT["broker"].ready("orders")] == [b"tea"]


def test_a_proxy_listens(fault_proxy):
    with socket.create_server(("127.0.0.1", 0)) as server:
        LEFT["proxy"] = fault_proxy(f"amqp://127.0.0.1:{server.getsockname()[1]}")
        with socket.create_connection(LEFT["proxy"].address, 10) as program:
            program.sendall(b"hello")
            broker, _ = server.accept()
            with broker:
                assert broker.recv(5, socket.MSG_WAITALL) == b"hello"


def test_the_proxy_was_closed():
    try:
        socket.create_connection(LEFT["proxy"].address, 10)
    except ConnectionRefusedError:
        return
    raise AssertionError("it still listens")
"""


def test_a_suite_that_enables_the_plugin_has_its_fixtures(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["warren.client.testing.fixtures"]\n')
    (tmp_path / "test_suite.py").write_text(SUITE)
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-W",
            "error",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "4 passed" in ended.stdout


def test_pytest_is_needed_only_for_the_fixtures() -> None:
    program = "import sys; import warren.client.testing; sys.exit('pytest' in sys.modules or '_pytest' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
