"""A node as a process: how it starts, what it prints, how it ends."""

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.node.conftest import Connect, Serve
from tests.node.serving import COMMAND, DEADLINE_S
from tests.support.amqp_client import Connection

IDLE_BYTES_MAX = 76 * 1024 * 1024

FAILING_CORE = """
import sys
from warren.broker.model.events import BytesReceived
from warren.node.config.settings import NodeFlags, read_settings
from warren.node.service import serve

class Failing:
    def handle(self, events, now_ms):
        if any(isinstance(event, BytesReceived) for event in events):
            raise RuntimeError("a rule was broken")
        return []

sys.exit(serve(read_settings(NodeFlags(amqp="127.0.0.1:0", http="127.0.0.1:0"), {}), Failing()))
"""


def test_the_ready_line_names_the_node_and_an_address_that_already_answers(serve: Serve) -> None:
    node = serve("--name", "hare@here")
    where = r"127\.0\.0\.1:\d+"
    assert re.fullmatch(rf"ready name=hare@here amqp={where} http={where} peer={where}\n", node.ready_line)
    Connection.opened(node.address()).close()
    assert node.stop() == 0


def test_the_log_says_which_core_and_loop_it_runs(serve: Serve) -> None:
    node = serve()
    [started] = node.events("node.started")
    assert re.search(r" core=(compiled|pure) loop=(uvloop|asyncio) ", started)


def test_a_warning_names_the_default_password_until_it_is_changed(serve: Serve) -> None:
    assert serve().events("credentials.defaulted")
    changed = serve(configuration="default_user = alice\ndefault_pass = secret\n")
    assert not changed.events("credentials.defaulted")
    Connection.opened(changed.address(), user="alice", password="secret").close()


def test_keys_without_effect_are_named_in_one_line(serve: Serve) -> None:
    node = serve(configuration="cluster_name = sales\ncollect_statistics = fine\n")
    [line] = node.events("settings.accepted")
    assert line.endswith('keys=cluster_name,collect_statistics effect="accepted, no effect yet"')


def test_settings_reach_the_broker(serve: Serve, connect: Connect) -> None:
    node = serve(
        configuration="frame_max = 8192\nchannel_max = 7\nheartbeat = 13\n", environment={"WARREN_HEARTBEAT": "17"}
    )
    tune = connect(node).authenticate()
    assert (tune.frame_max, tune.channel_max, tune.heartbeat) == (8192, 7, 17)


def test_an_idle_node_is_small(serve: Serve) -> None:
    node = serve()
    Connection.opened(node.address()).close()
    assert node.resident_bytes() < IDLE_BYTES_MAX


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_says_goodbye_to_every_client_and_exits_zero(
    serve: Serve, connect: Connect, number: signal.Signals
) -> None:
    node = serve()
    clients = [connect(node, opened=True) for _ in range(5)]
    node.signal(number)
    for client in clients:
        client.expect_close(320, "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'")
    assert node.exit_code() == 0


def test_a_stop_closes_the_listeners_first(serve: Serve, connect: Connect) -> None:
    node = serve()
    client = connect(node, opened=True)
    node.signal(signal.SIGTERM)
    client.expect(0, "connection.close")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(node.address())
    client.send(0, "connection.close-ok")
    assert node.exit_code() == 0


def test_clients_that_do_not_answer_are_not_waited_for(serve: Serve, connect: Connect) -> None:
    node = serve()
    connect(node, opened=True)
    connect(node)
    assert node.stop() == 0


def test_a_second_signal_ends_the_node_without_goodbyes(serve: Serve, connect: Connect) -> None:
    node = serve()
    silent = connect(node, opened=True)
    node.signal(signal.SIGTERM)
    silent.expect(0, "connection.close")
    node.signal(signal.SIGTERM)
    assert node.exit_code() == 1


def test_a_port_in_use_is_named_with_a_way_out(serve: Serve, tmp_path: Path) -> None:
    host, port = serve().address()
    refused = _refused("--amqp", f"{host}:{port}", "--data", str(tmp_path / "data"), exit_code=3)
    assert refused == (
        f"warren: port {port} of 127.0.0.1 is in use; choose another with --amqp HOST:PORT (port 0 picks a free one) "
        "or listeners.tcp.default\n"
    )


def test_a_data_directory_is_made_and_a_file_in_its_place_refused(serve: Serve, tmp_path: Path) -> None:
    serve("--data", str(tmp_path / "a" / "data"))
    assert (tmp_path / "a" / "data").is_dir()
    (tmp_path / "file").touch()
    refused = _refused("--amqp", "127.0.0.1:0", "--data", str(tmp_path / "file"))
    assert refused == f"warren: --data {tmp_path / 'file'} is not a directory\n"


def test_a_core_that_fails_ends_the_process_with_its_traceback(serve: Serve, connect: Connect) -> None:
    node = serve(command=[sys.executable, "-c", FAILING_CORE])
    client = connect(node)
    client.send_bytes(b"AMQP\x00\x00\x09\x01")
    assert node.exit_code() == 1
    assert node.events("core.failed")
    assert "RuntimeError: a rule was broken" in node.log()


@pytest.mark.parametrize(
    ("host", "sentence"),
    [("192.0.2.1", "192.0.2.1 is not an address of this machine"), ("nowhere.invalid", "nowhere.invalid:0 is unknown")],
)
def test_a_missing_address_exits_with_a_code_that_systemd_restarts(tmp_path: Path, host: str, sentence: str) -> None:
    """As at boot, before the network is up; the systemd unit restarts the node unless its exit code is 2."""
    for option in ("--amqp", "--http"):
        others = [word for each in ("--amqp", "--http") if each != option for word in (each, "127.0.0.1:0")]
        said = _refused(option, f"{host}:0", *others, "--data", str(tmp_path / "data"), exit_code=3)
        assert sentence in said


def _refused(*options: str, exit_code: int = 2) -> str:
    """The one sentence of a node that must not start."""
    ended = subprocess.run([*COMMAND, "serve", *options], capture_output=True, text=True, timeout=DEADLINE_S)
    assert (ended.returncode, ended.stdout) == (exit_code, "")
    return ended.stderr
