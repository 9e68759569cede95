"""`warren cluster`, with real processes: the processes it starts, signals and leaves alone, and its output.

Every cluster here listens on free ports, and is gone when its test is over.
"""

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, read_page
from tests.support.amqp_client import Connection
from tests.support.deadlines import eventually
from tests.support.ports import free_port
from tests.support.processes import processes_with

COMMAND = [sys.executable, "-m", "warren.cli.main", "cluster"]
DEADLINE_S = 120.0
FREE_PORTS = ("--amqp", "0", "--http", "0", "--peer", "0")


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


class Cluster:
    """`warren cluster` for one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __call__(self, *words: str) -> Said:
        done = subprocess.run(
            [*COMMAND, *words, "--data", str(self.directory)], capture_output=True, text=True, timeout=DEADLINE_S
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def done(self, *words: str) -> str:
        said = self(*words)
        assert (said.code, said.err) == (0, ""), said
        return said.out

    def pid(self, name: str) -> int:
        return int((self.directory / f"{name}.pid").read_text())

    def status(self) -> list[dict[str, str]]:
        head, *rows = [line.split("\t") for line in self.done("status").splitlines()]
        return [dict(zip(head, row, strict=True)) for row in rows]

    def states(self) -> list[str]:
        return [row["state"] for row in self.status()]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path / "cluster")
    yield made
    if (made.directory / "cluster.json").exists():
        made.done("down")
    strays = processes_of(made.directory)
    for pid in strays:
        os.kill(pid, signal.SIGKILL)
    assert strays == []


@pytest.fixture
def one(cluster: Cluster) -> Cluster:
    cluster.done("up", "--nodes", "1", *FREE_PORTS)
    return cluster


def processes_of(directory: Path) -> list[int]:
    """The processes that have a path below the directory as an argument."""
    return processes_with(lambda argument: argument.startswith(f"{directory}/"))


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def free_row_of_ports(count: int) -> int:
    """The first of some consecutive ports that are free."""
    return free_port(*range(1, count))


def test_up_returns_when_clients_can_connect_and_the_node_lives_on(one: Cluster) -> None:
    (node,) = one.status()
    assert (node["node"], node["name"], node["kind"]) == ("n1", "n1@localhost", "disc")
    assert (node["state"], node["cluster"]) == ("running", "running")
    assert int(node["pid"]) == one.pid("n1")
    assert os.getsid(one.pid("n1")) == one.pid("n1")
    Connection.opened(("127.0.0.1", int(node["amqp"]))).socket.close()


def test_the_nodes_of_a_cluster_are_laid_out_on_consecutive_ports_and_join_the_first(cluster: Cluster) -> None:
    first = free_row_of_ports(9)
    ports = {"amqp": first, "http": first + 3, "peer": first + 6}
    options = [word for kind, port in ports.items() for word in (f"--{kind}", str(port))]
    with socket.create_server(("127.0.0.1", first)):
        assert cluster("up", "--nodes", "3", "--ram", "1", *options).code == 1
    nodes = json.loads((cluster.directory / "cluster.json").read_text())["nodes"]
    assert [node["name"] for node in nodes] == ["n1", "n2", "n3"]
    assert [node["kind"] for node in nodes] == ["disc", "disc", "ram"]
    assert [[node[kind] for kind in ports] for node in nodes] == [
        [first + index, first + 3 + index, first + 6 + index] for index in range(3)
    ]
    assert [node["arguments"][-3:] for node in nodes[1:]] == [
        [f"127.0.0.1:{first + 7}", "--join", f"127.0.0.1:{first + 6}"],
        ["--ram", "--join", f"127.0.0.1:{first + 6}"],
    ]
    assert "--join" not in nodes[0]["arguments"]


def test_the_last_node_may_be_a_witness(cluster: Cluster) -> None:
    first = free_row_of_ports(1)
    with socket.create_server(("127.0.0.1", first)):
        cluster("up", "--nodes", "3", "--amqp", str(first), "--witness")
    nodes = json.loads((cluster.directory / "cluster.json").read_text())["nodes"]
    assert [node["kind"] for node in nodes] == ["disc", "disc", "witness"]
    assert ["--witness" in node["arguments"] for node in nodes] == [False, False, True]


def test_a_node_that_cannot_start_is_reported_with_its_last_log_lines_and_leaves_no_process(cluster: Cluster) -> None:
    first = free_row_of_ports(3)
    with socket.create_server(("127.0.0.1", first)):
        said = cluster("up", "--nodes", "1", "--amqp", str(first), "--http", str(first + 1), "--peer", str(first + 2))
    assert said.code == 1
    words, reason = said.err.splitlines()
    assert words.startswith(f"n1: warren: port {first} of 127.0.0.1 is in use; ")
    assert reason == (f"warren: n1@localhost ended before it was ready; its log is {cluster.directory / 'n1.log'}")
    assert processes_of(cluster.directory) == []
    assert not (cluster.directory / "n1.pid").exists()


def test_an_interrupted_up_leaves_nothing_running(cluster: Cluster, tmp_path: Path) -> None:
    """The node waits for its configuration, so that it is never ready."""
    os.mkfifo(tmp_path / "nothing.conf")
    words = [*COMMAND, "up", "--nodes", "1", *FREE_PORTS, "--config", str(tmp_path / "nothing.conf")]
    words += ["--data", str(cluster.directory)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as starting:
        eventually((cluster.directory / "n1.pid").exists)
        pid = cluster.pid("n1")
        starting.send_signal(signal.SIGTERM)
        starting.communicate(timeout=DEADLINE_S)
    assert starting.returncode == 130
    assert not running(pid)


def test_a_killed_node_is_started_again_with_its_data(one: Cluster) -> None:
    pid = one.pid("n1")
    before = one.status()[0]
    assert one.done("kill", "n1") == "n1 is killed.\n"
    assert not running(pid)
    assert not (one.directory / "n1.pid").exists()
    assert one.states() == ["stopped"]
    one.done("start", "n1")
    after = one.status()[0]
    assert {**before, "pid": after["pid"]} == after
    assert "incarnation=2" in (one.directory / "n1.log").read_text()


def test_a_stopped_node_ends_in_good_order(one: Cluster) -> None:
    pid = one.pid("n1")
    assert one.done("stop", "n1") == "n1 is stopped.\n"
    assert not running(pid)
    assert "event=node.stopped exit_code=0" in (one.directory / "n1.log").read_text()


def test_a_paused_node_says_nothing_until_it_is_resumed(one: Cluster) -> None:
    address = ("127.0.0.1", int(one.status()[0]["amqp"]))
    one.done("pause", "n1")
    assert one.states() == ["paused"]
    with socket.create_connection(address) as waiting:
        waiting.sendall(b"AMQP\x00\x00\x09\x01")
        waiting.settimeout(0.2)
        with pytest.raises(TimeoutError):
            waiting.recv(1)
        one.done("resume", "n1")
        assert one.states() == ["running"]
        waiting.settimeout(DEADLINE_S)
        assert waiting.recv(1) == b"\x01"


def test_a_paused_node_can_be_taken_down(one: Cluster) -> None:
    pid = one.pid("n1")
    one.done("pause", "n1")
    assert one.done("down") == "Every node is stopped.\n"
    assert not running(pid)
    assert "event=node.stopped exit_code=0" in (one.directory / "n1.log").read_text()


def test_a_cluster_that_was_taken_down_comes_up_as_it_was(one: Cluster) -> None:
    before = one.status()[0]
    one.done("down")
    one.done("up")
    after = one.status()[0]
    assert {**before, "pid": after["pid"]} == after
    one.done("up")
    assert one.status()[0] == after


def test_a_cluster_is_not_changed_by_another_up(one: Cluster) -> None:
    said = one("up", "--nodes", "5")
    assert said.code == 1
    assert f"the cluster in {one.directory} was made with --nodes 1, and stays so" in said.err


def test_a_process_that_has_got_the_number_of_a_node_is_left_alone(one: Cluster) -> None:
    one.done("stop", "n1")
    with subprocess.Popen(["sleep", "600"]) as stranger:
        try:
            (one.directory / "n1.pid").write_text(f"{stranger.pid}\n")
            ticks = Path(f"/proc/{stranger.pid}/stat").read_text().rpartition(")")[2].split()[19]
            boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
            (one.directory / "n1.started").write_text(f"{boot} {ticks}\n")
            assert one("kill", "n1").code == 1
            assert one.states() == ["stopped"]
            one.done("down")
            assert running(stranger.pid)
        finally:
            stranger.kill()


def test_a_process_that_began_at_another_time_is_not_the_node(one: Cluster) -> None:
    pid = one.pid("n1")
    proof = one.directory / "n1.started"
    kept = proof.read_text()
    try:
        proof.write_text(f"{kept.split()[0]} 1\n")
        said = one("kill", "n1")
        assert (said.code, said.err) == (1, "warren: n1 does not run\n")
        assert running(pid)
    finally:
        proof.write_text(kept)


def test_an_etcd_member_outlives_its_node_and_ends_with_the_cluster(one: Cluster) -> None:
    data = one.directory / "n1" / "etcd"
    options = (f"--data-dir={data}", "--listen-client-urls=http://127.0.0.1:0", "--listen-peer-urls=http://127.0.0.1:0")
    advertised = "--advertise-client-urls=http://127.0.0.1:0"
    with subprocess.Popen(["etcd", *options, advertised], stderr=subprocess.DEVNULL) as member:
        try:
            eventually((data / "member").is_dir)
            assert one.status()[0]["etcd"] == str(member.pid)
            one.done("stop", "n1")
            assert running(member.pid)
            assert one.status()[0]["etcd"] == str(member.pid)
            one.done("down")
            assert not running(member.pid)
        finally:
            member.kill()


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["start", "n1"], 1, r"n1 is running already \(pid \d+\)"),
        (["kill", "n2"], 2, r"there is no node n2 in \S+; there are n1"),
        (["kill"], 2, r"Missing argument 'N\.\.\.'"),
    ],
)
def test_an_impossible_order_is_refused_with_a_sentence(one: Cluster, words: list[str], code: int, reason: str) -> None:
    said = one(*words)
    assert (said.code, said.out) == (code, "")
    assert re.match(f"warren: {reason}", said.err), said.err


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["status"], 1, r"there is no cluster in \S+; 'warren cluster up --data \S+' makes one"),
        (["down"], 1, r"there is no cluster in \S+"),
        (["up", "--nodes", "2", "--ram", "2"], 2, r"--ram 2 of 2 nodes leaves none with a disc"),
        (["up", "--nodes", "1", "--witness"], 2, r"--witness makes the last node a witness: it needs another node"),
        (["up", "--amqp", "15700"], 2, r"--http and --amqp both need port 15701, for 3 nodes"),
        (["up", "--amqp", "26702"], 2, r"--amqp and --peer both need port 26702, for 3 nodes"),
        (["up", "--http", "65534"], 2, r"--http 65534 is too high: port 65536 would be needed, too"),
        (["up", "--nodes", "0"], 2, r"Invalid value for '--nodes'"),
    ],
)
def test_wrong_usage_leaves_no_cluster_behind(cluster: Cluster, words: list[str], code: int, reason: str) -> None:
    said = cluster(*words)
    assert (said.code, said.out) == (code, "")
    assert re.match(f"warren: {reason}", said.err), said.err
    assert not (cluster.directory / "cluster.json").exists()


def test_two_commands_do_not_start_nodes_at_once(one: Cluster) -> None:
    one.done("stop", "n1")
    with subprocess.Popen(["flock", str(one.directory / "lock"), "cat"], stdin=subprocess.PIPE) as holder:
        eventually(lambda: one("start", "n9").err.startswith("warren: another 'warren cluster' is starting"))
        assert one("start", "n1").code == 1
        holder.communicate()
    one.done("start", "n1")


def test_a_terminal_gets_a_bar_and_a_drawn_table(cluster: Cluster) -> None:
    options = ["--nodes", "1", *FREE_PORTS, "--data", str(cluster.directory)]
    assert "waiting for n1" in on_a_terminal("up", *options)
    assert "┌" in on_a_terminal("status", "--data", str(cluster.directory))


def on_a_terminal(*words: str) -> str:
    ours, theirs = pty.openpty()
    with subprocess.Popen([*COMMAND, *words], stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        try:
            while chunk := os.read(ours, 65_536):
                shown += chunk
        except OSError:
            # a terminal that no process has open any more
            pass
        assert process.wait(DEADLINE_S) == 0
    os.close(ours)
    return shown.decode()


@pytest.mark.parametrize("command", ["up", "status", "down", "kill", "stop", "start", "pause", "resume"])
def test_every_command_has_help_with_an_example(command: str) -> None:
    done = subprocess.run([*COMMAND, command, "--help"], capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 0
    assert f"Example: warren cluster {command}" in done.stdout


def test_the_example_of_the_manual_does_what_it_shows(tmp_path: Path) -> None:
    """Ports and pids differ; commands whose output is not shown only have to succeed."""
    cluster = Cluster(tmp_path / "var" / "cluster")
    try:
        for command, shown in manual_commands():
            options = FREE_PORTS if command[0] == "up" else ()
            done = subprocess.run(
                [*COMMAND, *command, *options], capture_output=True, text=True, cwd=tmp_path, timeout=DEADLINE_S
            )
            assert (done.returncode, done.stderr) == (0, "")
            assert not shown or numberless(done.stdout) == numberless(shown)
    finally:
        cluster("down")
    assert processes_of(cluster.directory) == []


def manual_commands() -> list[tuple[list[str], str]]:
    """Each command of the page's example, without `warren cluster`, and its output on the page."""
    block = next(block for block in read_page(DOCS / "clustering.md").blocks if "$ warren cluster up" in block.text)
    parts = re.split(r"^\$ warren cluster (.*)\n", block.text, flags=re.MULTILINE)[1:]
    return [(words.split(), shown) for words, shown in zip(parts[::2], parts[1::2], strict=True)]


def numberless(text: str) -> str:
    return re.sub(r"\d{4,}|(?<=pid )\d+", "#", text)
