"""`warren ha check` of real nodes behind a real HAProxy, well and broken.

There is one HAProxy on the loopback, lb1, which also answers at lb2's address; that much is always wrong here. And
the node wants a header from 127.0.0.1, too, as which we call, and which is no balancer's address.
"""

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.ha.front import Front, front, warren
from tests.support.ports import free_port
from warren.cli.ha.deployment_file import deployment_text

NOT_LB2 = "wrong    127.0.0.12 should be lb2 and says that it is lb1: it has the haproxy.cfg of another machine"

WANTS_HEADER = (
    "warning  node warren@n1 requires a PROXY header also from this machine, which is not a balancer, so any client "
    "can claim any address: name the balancers in proxy_protocol.from.*"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with front(tmp_path_factory.mktemp("front"), "n1", more_lines="proxy_protocol.from.2 = 127.0.0.1\n") as one:
        yield one


def checked(file: Path, *words: str) -> tuple[int, list[str]]:
    done = warren("ha", "check", str(file), *words)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def lines_of(level: str, lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith(f"{level:8} ")]


def test_listeners_nodes_and_the_cluster_are_reported(made: Front) -> None:
    code, lines = checked(made.file, "--user", "guest", "--password", "guest")
    amqp = made.deployment.ports["amqp"]
    assert f"good     the virtual address forwards AMQP clients at 127.0.0.10:{amqp} to Warren 3.10.8" in lines
    assert "good     the virtual address is on lb1" in lines
    assert "good     nodes see clients with their own addresses: ours is 127.0.0.1" in lines
    assert "warning  there is one node: if it is lost, everything is lost" in lines
    [only] = lines_of("wrong", lines)
    assert only.startswith(NOT_LB2)
    assert (code, lines[-1]) == (1, "1 wrong")


def test_without_a_user_the_cluster_is_not_asked(made: Front) -> None:
    _, lines = checked(made.file)
    assert "remark   without --user members, versions, mirrors and the clients' addresses were not checked" in lines
    assert lines_of("warning", lines) == [WANTS_HEADER]


def test_a_wrong_password_is_reported(made: Front) -> None:
    _, lines = checked(made.file, "--user", "guest", "--password", "wrong")
    [_, refused] = lines_of("wrong", lines)
    assert "the cluster cannot be asked about its members and queues" in refused
    assert "does not accept this user name and password" in refused


def test_a_node_that_drains_is_reported_with_the_reason(made: Front) -> None:
    made.ask("n1", "/api/nodes/warren@n1/draining", "PUT")
    try:
        _, lines = checked(made.file)
    finally:
        made.ask("n1", "/api/nodes/warren@n1/draining", "DELETE")
    [wanting, only] = lines_of("warning", lines)
    assert wanting == WANTS_HEADER
    assert "node warren@n1 accepts no new clients while other nodes do: An operator drains it" in only


def test_a_node_that_waits_for_headers_that_are_not_sent_is_reported(made: Front, tmp_path: Path) -> None:
    file = tmp_path / "plain.toml"
    file.write_text(deployment_text(replace(made.deployment, proxy_protocol=False)))
    _, lines = checked(file)
    assert any("requires a PROXY header, and the balancers of this deployment send none" in line for line in lines)


def test_proxy_headers_that_nodes_do_not_expect_are_reported(tmp_path: Path) -> None:
    """HAProxy asks with a header, too, so it finds no node fit, and closes what comes."""
    with front(tmp_path, "n1") as one:
        one.nodes["n1"].stop()
        one.nodes["n1"].configure("proxy_protocol = false\n")
        one.nodes["n1"].start()
        one.await_standing("n1", "DOWN")
        code, lines = checked(one.file)
    assert code == 1
    silent = [line for line in lines_of("wrong", lines) if "closes them without an answer" in line]
    assert len(silent) == 3, lines
    assert all("compare send-proxy-v2 in haproxy.cfg with proxy_protocol" in line for line in silent)
    assert "good     node warren@n1 is fit" in lines


def test_a_fit_node_that_does_not_answer_clients_is_reported(made: Front, tmp_path: Path) -> None:
    """A port that takes connections and says nothing, and one that is not there."""
    file = tmp_path / "deaf.toml"
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        for where, sentence in ((port, "(no answer within 4 s)"), (free_port(), "(connection refused)")):
            nodes = tuple(replace(node, ports={**node.ports, "amqp": where}) for node in made.deployment.nodes)
            file.write_text(deployment_text(replace(made.deployment, nodes=nodes)))
            code, lines = checked(file)
            told = f"reports that it serves, but does not answer AMQP clients at 127.0.0.1:{where} {sentence}"
            assert code == 1
            assert any(told in line for line in lines_of("wrong", lines)), lines


def test_a_deployment_that_does_not_answer_is_reported_within_seconds(tmp_path: Path, made: Front) -> None:
    file = tmp_path / "nowhere.toml"
    nodes = tuple(replace(node, ports={"amqp": 9, "http": 11}) for node in made.deployment.nodes)
    file.write_text(deployment_text(replace(made.deployment, ports={"amqp": 9, "http": 10}, nodes=nodes)))
    code, lines = checked(file, "--user", "guest", "--password", "guest")
    assert code == 1
    assert any(
        "the virtual address does not answer AMQP clients at 127.0.0.10:9 (connection refused)" in line
        for line in lines
    )
    assert any("node warren@n1 does not answer health checks" in line for line in lines)
    assert lines[-1] == "8 wrong"


def test_a_bad_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("virtual_address = 5")
    done = warren("ha", "check", str(tmp_path / "bad.toml"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "virtual_address must be a string, not 5" in done.stderr
