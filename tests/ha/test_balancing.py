"""HAProxy with the rendered configuration: which nodes get new clients, and which keep their clients."""

import os
import signal
from collections.abc import Iterator

import pytest

from tests.ha.front import VIRTUAL, Front, front
from tests.support.deadlines import eventually
from warren.client import blocking


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with front(tmp_path_factory.mktemp("front")) as made:
        yield made


@pytest.fixture
def before_two_nodes(shared: Front) -> Front:
    """With both nodes up, without clients."""
    for node in shared.nodes.values():
        if not node.alive:
            node.start()
    shared.start_haproxy()
    for name in shared.nodes:
        shared.ask(name, f"/api/nodes/warren@{name}/draining", "DELETE")
        shared.await_standing(name, "UP")
        eventually(lambda name=name: not at(shared, name), shared.log_text)  # type: ignore[misc]
    eventually(shared.is_idle, shared.log_text)
    return shared


def connected(made: Front, count: int) -> list[blocking.Connection]:
    return [blocking.connect(made.url, name=f"client {number}") for number in range(count)]


def at(made: Front, node: str) -> list[str]:
    """How a node names the connections of its clients."""
    return [row["name"] for row in made.ask(node, "/api/connections")]


def usable(connection: blocking.Connection) -> bool:
    try:
        connection.channel().close()
    except Exception:
        return False
    return True


def test_clients_are_spread_and_seen_with_their_own_addresses(before_two_nodes: Front) -> None:
    made = before_two_nodes
    clients = connected(made, 6)
    names = {node: at(made, node) for node in made.nodes}
    assert sorted(map(len, names.values())) == [3, 3]
    for told in names["n1"]:
        assert told.endswith(f"-> {VIRTUAL}:{made.deployment.ports['amqp']}"), "not where the client went"
    for client in clients:
        client.close()


def test_a_node_that_drains_keeps_its_clients_and_gets_no_more(before_two_nodes: Front) -> None:
    made = before_two_nodes
    clients = connected(made, 4)
    made.ask("n1", "/api/nodes/warren@n1/draining", "PUT")
    made.await_standing("n1", "NOLB")
    clients += connected(made, 2)
    assert (len(at(made, "n1")), len(at(made, "n2"))) == (2, 4)
    assert all(usable(client) for client in clients)
    made.ask("n1", "/api/nodes/warren@n1/draining", "DELETE")
    made.await_standing("n1", "UP")
    clients += connected(made, 2)
    assert len(at(made, "n1")) == 4, "the least used is preferred"
    for client in clients:
        client.close()


def test_clients_get_in_when_no_node_wants_them(before_two_nodes: Front) -> None:
    """Otherwise consumers could not drain a cluster when all nodes have an alarm."""
    made = before_two_nodes
    for name in made.nodes:
        made.ask(name, f"/api/nodes/warren@{name}/draining", "PUT")
        made.await_standing(name, "NOLB")
    [client] = connected(made, 1)
    assert usable(client)
    client.close()
    assert made.watched("/working")


def test_clients_of_a_lost_node_come_back_to_another(before_two_nodes: Front) -> None:
    made = before_two_nodes
    clients = connected(made, 4)
    made.nodes["n1"].kill()
    again = connected(made, 4)
    assert all(usable(client) for client in again), "the first to come finds the node gone, and is led to the other"
    eventually(lambda: sum(usable(client) for client in clients) == 2, made.log_text)
    made.await_standing("n1", "DOWN")
    for client in (*clients, *again):
        client.close()


def test_a_node_that_hangs_is_left_and_its_clients_are_cut_off(before_two_nodes: Front) -> None:
    """Its sockets stay open and say nothing: only the check can tell."""
    made = before_two_nodes
    clients = connected(made, 2)
    os.kill(made.nodes["n1"].pid, signal.SIGSTOP)
    try:
        made.await_standing("n1", "DOWN")
        eventually(lambda: sum(usable(client) for client in clients) == 1, made.log_text)
    finally:
        os.kill(made.nodes["n1"].pid, signal.SIGCONT)
    for client in clients:
        client.close()


def test_the_api_is_reached_and_says_by_which_balancer(before_two_nodes: Front) -> None:
    answer = before_two_nodes.ask_through("/api/overview")
    assert (answer.status, answer.headers["x-balancer"]) == (200, "lb1")


def test_the_script_distinguishes_a_balancer_without_nodes_from_one_without_haproxy(before_two_nodes: Front) -> None:
    made = before_two_nodes
    assert (made.watched("/alive"), made.watched("/working")) == (True, True)
    for node in made.nodes.values():
        node.kill()
    eventually(lambda: not made.watched("/working"), made.log_text)
    assert made.watched("/alive")
    assert made.ask_through("/api/overview").status == 503
    made.end_haproxy()
    assert not made.watched("/alive")
