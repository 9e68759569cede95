"""Membership as rabbitmqctl knows it: real nodes with real members of etcd, stopped, joined, changed, renamed, removed.

Most tests share two nodes that are one cluster, and leave them as they found them.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.member_nodes import (
    MemberNodes,
    Said,
    channel_to,
    declare,
    ended,
    etcd_pid,
    joining,
    peer_of,
    queues_of,
    ready_in,
)
from tests.support.deadlines import eventually
from tests.support.node_process import NodeProcess

BOTH = {"ant@localhost": ("disc", True), "bee@localhost": ("disc", True)}
NEEDS_STOPPED = (
    "Error: this command requires the 'rabbit' app to be stopped on the target node. "
    "Stop it with 'warren ctl stop_app'.\n"
)
ONLY_DISC = (
    "Error:\n{:resetting_only_disc_node, 'You cannot reset a node when it is the only disc node in a cluster. "
    "Please convert another node of the cluster to a disc node first.'}\n"
)
NOT_A_MEMBER = "Error:\n{:not_a_cluster_node, 'The node selected is not in the cluster.'}\n"


class Pair:
    """Two disc nodes, ant and bee; `kept` is a durable queue of bee's, with two messages."""

    def __init__(self, directory: Path) -> None:
        self.nodes = MemberNodes(directory)
        self.ant = self.nodes.start("ant")
        self.bee = self.nodes.start("bee")
        self.nodes.join(self.bee, self.ant)
        declare(self.bee, "kept", b"one", b"two")

    def ctl(self, node: NodeProcess, *words: str) -> Said:
        return self.nodes.ctl(node, *words)

    def done(self, node: NodeProcess, *words: str) -> str:
        return self.nodes.done(node, *words)

    def whole(self) -> bool:
        return self.nodes.members(self.ant) == self.nodes.members(self.bee) == BOTH and ready_in(self.ant, "kept") == 2

    def make_whole(self) -> None:
        """After bee was alone."""
        self.nodes.join(self.bee, self.ant)
        declare(self.bee, "kept", b"one", b"two")


@pytest.fixture(scope="module")
def shared_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    pair = Pair(tmp_path_factory.mktemp("pair"))
    yield pair
    pair.nodes.destroy()


@pytest.fixture
def pair(shared_pair: Pair) -> Iterator[Pair]:
    yield shared_pair
    eventually(shared_pair.whole)


# -- stopped and started


@pytest.mark.parametrize(
    "words",
    [
        ["reset"],
        ["force_reset"],
        ["join_cluster", "ant@localhost"],
        ["change_cluster_node_type", "ram"],
        ["update_cluster_nodes", "ant@localhost"],
    ],
)
def test_a_node_that_runs_keeps_its_membership(pair: Pair, words: list[str]) -> None:
    said = pair.ctl(pair.bee, *words)
    assert (said.code, said.out) == (64, "")
    assert said.err.startswith(f"{NEEDS_STOPPED}Arguments given:\n\t{' '.join(words)}\n\nUsage\n\nwarren ctl ")


@pytest.mark.parametrize(
    "words", [["rename_cluster_node", "bee@localhost", "cat@localhost"], ["forget_cluster_node", "x@y", "--offline"]]
)
def test_commands_for_stopped_nodes_are_refused_by_a_running_one(pair: Pair, words: list[str]) -> None:
    said = pair.ctl(pair.bee, *words)
    assert (said.code, said.out) == (64, "")
    assert said.err.startswith("Error: this command requires the target node to be stopped.\n")


def test_a_node_is_stopped_and_started_in_its_process(pair: Pair) -> None:
    pid = pair.bee.pid
    with channel_to(pair.bee) as client:
        assert pair.done(pair.bee, "stop_app") == "Stopping rabbit application on node bee@localhost ...\n"
        client.connection.expect_close(
            320, "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
        )
    eventually(lambda: pair.nodes.members(pair.ant) == {**BOTH, "bee@localhost": ("disc", False)})
    eventually(lambda: ready_in(pair.ant, "kept") == -1)
    said = pair.ctl(pair.bee, "-q", "list_queues")
    assert (said.code, said.out) == (64, "")
    assert said.err.startswith(
        "Error: this command requires the 'rabbit' app to be running on the target node. "
        "Start it with 'warren ctl start_app'.\n"
    )
    assert pair.done(pair.bee, "-q", "ping") == "Ping succeeded\n"
    pair.done(pair.bee, "stop_app")
    assert etcd_pid(pair.bee)
    assert pair.done(pair.bee, "start_app") == "Starting node bee@localhost ...\n"
    assert pair.bee.pid == pid
    pair.done(pair.bee, "start_app")


def test_a_stopped_node_obeys_commands_with_the_cookie(pair: Pair, tmp_path: Path) -> None:
    pair.done(pair.bee, "stop_app")
    said = pair.ctl(pair.bee, "start_app", "--cookie-file", str(tmp_path / "cookie"))
    assert (said.code, said.out) == (65, "Starting node bee@localhost ...\n")
    assert said.err.startswith(
        "Error:\nbee@localhost is stopped, so it has no users and accepts orders only with the cookie of its cluster. "
        f"There is none at {tmp_path}/cookie: name the file with --cookie-file or in "
        "WARREN_CLUSTER__COOKIE_FILE"
    )
    other = tmp_path / "cookie"
    other.write_text("a cookie of another cluster")
    other.chmod(0o400)
    said = pair.ctl(pair.bee, "start_app", "--cookie-file", str(other))
    assert (said.code, said.err) == (69, "Error:\nthe cookie is not the one of this node\n")
    pair.done(pair.bee, "start_app")


def test_a_stopped_node_ends_with_its_process(nodes: MemberNodes) -> None:
    node = nodes.start("cat")
    nodes.done(node, "stop_app")
    assert nodes.done(node, "stop") == "Stopping and halting node cat@localhost ...\n"
    assert ended(node) == 0
    node.start()
    nodes.done(node, "stop_app")
    node.stop()


# -- joining


def test_joining_twice_or_itself_or_a_missing_node_is_refused(pair: Pair) -> None:
    bee = pair.bee
    pair.done(bee, "stop_app")
    banner = f"Clustering node bee@localhost with {peer_of(pair.ant)}\n"
    said = pair.done(bee, "join_cluster", peer_of(pair.ant))
    assert said == f"{banner}The node is already a member of this cluster\n"
    said_of_itself = pair.ctl(bee, "join_cluster", "bee@localhost")
    assert said_of_itself.code == 70
    assert said_of_itself.err == "Error:\nError: cannot cluster node with itself: bee@localhost\n"
    missing = pair.ctl(bee, "join_cluster", "missing@localhost:1")
    assert missing.code == 69
    assert missing.err.startswith("Error: unable to perform an operation on node 'missing@localhost:1'. Please see ")
    assert pair.done(bee, "update_cluster_nodes", "ant@localhost").splitlines() == [
        "Will seed bee@localhost from ant@localhost on next start",
        "Nothing to do: the nodes of a cluster remember each other",
    ]
    pair.done(bee, "start_app")


def test_a_node_of_another_name_than_the_one_that_is_meant_is_not_joined(pair: Pair, nodes: MemberNodes) -> None:
    cat = nodes.start("cat")
    nodes.done(cat, "stop_app")
    said = nodes.ctl(cat, "join_cluster", f"dog@localhost:{pair.ant.addresses['peer'][1]}")
    assert said.code == 69
    assert "cat@localhost wants dog@localhost, but reached ant@localhost" in said.err
    nodes.done(cat, "start_app")
    assert nodes.members(cat) == {"cat@localhost": ("disc", True)}


def test_a_name_that_a_living_node_has_is_refused_on_both_sides(pair: Pair, tmp_path: Path) -> None:
    others = MemberNodes(tmp_path)
    second = others.spawn("bee", *joining(pair.ant))
    assert ended(second) == 2
    others.destroy()
    reason = second.log().splitlines()[-1].partition(" refuses this node: ")[2]
    assert "bee@localhost" in reason
    eventually(lambda: reason in pair.ant.log())


def test_awaiting_nodes(pair: Pair) -> None:
    banner = "Will wait for at least {} nodes to join the cluster of ant@localhost. Timeout: {} seconds.\n"
    assert pair.done(pair.ant, "await_online_nodes", "2") == banner.format(2, 300)
    said = pair.ctl(pair.ant, "await_online_nodes", "3", "--timeout", "1")
    assert (said.code, said.out) == (70, banner.format(3, 1))
    assert said.err == "Error:\nError: timed out while waiting. Not enough nodes joined ant@localhost's cluster.\n"


# -- leaving


def test_a_member_that_is_reset_has_left_with_all_its_queues(pair: Pair) -> None:
    pair.done(pair.bee, "stop_app")
    assert pair.done(pair.bee, "reset") == "Resetting node bee@localhost ...\n"
    eventually(lambda: pair.nodes.members(pair.ant) == {"ant@localhost": ("disc", True)})
    eventually(lambda: queues_of(pair.ant) == [])
    assert etcd_pid(pair.bee) == 0
    pair.done(pair.bee, "start_app")
    assert pair.nodes.members(pair.bee) == {"bee@localhost": ("disc", True)}
    assert queues_of(pair.bee) == []
    pair.make_whole()


def test_a_node_that_was_removed_does_not_start_until_it_is_reset(pair: Pair) -> None:
    ant, bee = pair.ant, pair.bee
    said = pair.ctl(ant, "forget_cluster_node", "bee@localhost")
    assert (said.code, said.out) == (69, "Removing node bee@localhost from the cluster\n")
    assert said.err == (
        "Error:\nRabbitMQ on node bee@localhost must be stopped with 'warren ctl -n bee@localhost stop_app' "
        "before it can be removed\n"
    )
    assert pair.ctl(ant, "forget_cluster_node", "cow@localhost").err == NOT_A_MEMBER
    pair.done(bee, "stop_app")
    assert pair.done(ant, "forget_cluster_node", "bee@localhost") == "Removing node bee@localhost from the cluster\n"
    eventually(lambda: pair.nodes.members(ant) == {"ant@localhost": ("disc", True)})
    assert queues_of(ant) == []
    removed = "bee@localhost was removed from its cluster while it was down"
    said = pair.ctl(bee, "start_app")
    assert (said.code, said.out) == (69, "Starting node bee@localhost ...\n")
    assert removed in said.err
    assert "warren ctl force_reset" in said.err
    bee.stop()
    bee.spawn()
    assert ended(bee) == 1
    assert f"warren: {removed}" in bee.log().splitlines()[-1]
    restart_stopped(bee)
    eventually(lambda: pair.ctl(bee, "force_reset") == Said(0, "Forcefully resetting node bee@localhost ...\n", ""))
    pair.done(bee, "start_app")
    pair.make_whole()
    bee.restart()


def test_a_node_that_was_removed_while_it_hung_ends(nodes: MemberNodes) -> None:
    cat = nodes.start("cat")
    dog = nodes.start("dog", *joining(cat))
    os.kill(dog.pid, signal.SIGSTOP)
    eventually(lambda: nodes.ctl(cat, "forget_cluster_node", "dog@localhost").code == 0)
    os.kill(dog.pid, signal.SIGCONT)
    assert ended(dog) == 1
    assert "dog@localhost was removed from its cluster" in dog.log()
    eventually(lambda: etcd_pid(dog) == 0)


def test_a_node_that_was_just_killed_can_be_removed(nodes: MemberNodes) -> None:
    cat = nodes.start("cat")
    dog = nodes.start("dog", *joining(cat))
    emu = nodes.start("emu", *joining(cat))
    emu.kill()
    nodes.done(cat, "forget_cluster_node", "emu@localhost")
    eventually(lambda: sorted(nodes.members(dog)) == ["cat@localhost", "dog@localhost"])


def restart_stopped(node: NodeProcess) -> None:
    """Start it with its core stopped, this once."""
    node._options.append("--stopped")
    try:
        node.spawn()
    finally:
        node._options.remove("--stopped")


# -- disc and ram


def test_a_node_changes_its_type_and_keeps_its_queues(pair: Pair) -> None:
    ant, bee = pair.ant, pair.bee
    pair.done(bee, "stop_app")
    assert pair.done(bee, "change_cluster_node_type", "ram") == "Turning bee@localhost into a ram node\n"
    assert etcd_pid(bee) == 0
    pair.done(bee, "start_app")
    eventually(lambda: pair.nodes.members(ant) == {**BOTH, "bee@localhost": ("ram", True)})
    eventually(lambda: ready_in(ant, "kept") == 2)
    the_only_disc_node_stays_one(pair)
    restarts_do_no_harm(pair)
    pair.done(bee, "stop_app")
    assert pair.done(bee, "change_cluster_node_type", "disc") == "Turning bee@localhost into a disc node\n"
    pair.done(bee, "start_app")
    assert etcd_pid(bee)


def the_only_disc_node_stays_one(pair: Pair) -> None:
    pair.done(pair.ant, "stop_app")
    for words in (["reset"], ["change_cluster_node_type", "ram"]):
        said = pair.ctl(pair.ant, *words)
        assert (said.code, said.err) == (69, ONLY_DISC)
    pair.done(pair.ant, "start_app")


def restarts_do_no_harm(pair: Pair) -> None:
    """Of the disc node, and of the RAM node, which remembers where the store is."""
    declare(pair.bee, "rams", b"one")
    declare(pair.ant, "discs", b"one")
    for node in (pair.ant, pair.bee):
        node.restart()
        eventually(lambda: ready_in(pair.ant, "rams") == ready_in(pair.bee, "discs") == 1)
        eventually(lambda: ready_in(pair.ant, "kept") == 2)
    for queue in ("rams", "discs"):
        pair.done(pair.ant, "delete_queue", queue)


def test_a_ram_node_waits_for_a_disc_node_and_says_so(nodes: MemberNodes) -> None:
    cat = nodes.start("cat")
    dog = nodes.start("dog", "--ram", *joining(cat))
    declare(dog, "rams", b"one")
    assert not (dog.data / "etcd").exists()
    dog.stop()
    cat.stop()
    os.kill(etcd_pid(cat), 9)
    dog.spawn()
    eventually(lambda: "event=store.awaited" in dog.log())
    assert nodes.ctl(dog, "status").err.startswith("Error:\nthe node dog@localhost is starting")
    cat.start()
    dog.await_ready()
    eventually(lambda: ready_in(cat, "rams") == 1)


def test_a_node_alone_is_a_disc_node(nodes: MemberNodes) -> None:
    cat = nodes.start("cat")
    declare(cat, "lost", b"one")
    nodes.done(cat, "stop_app")
    said = nodes.ctl(cat, "change_cluster_node_type", "ram")
    assert (said.code, said.out) == (69, "Turning cat@localhost into a ram node\n")
    assert said.err == "Error:\n{:not_clustered, 'Non-clustered nodes can only be disc nodes.'}\n"
    wrong = nodes.ctl(cat, "change_cluster_node_type", "foo")
    assert wrong.code == 65
    assert wrong.err.startswith(
        "Error (argument validation): Bad argument: The node type must be either disc or ram.\n"
    )
    assert nodes.ctl(cat, "forget_cluster_node", "x@localhost").err == NOT_A_MEMBER
    nodes.done(cat, "reset")
    nodes.done(cat, "start_app")
    assert queues_of(cat) == []


# -- another name, and the rest gone for good


def test_a_node_gets_another_name_and_keeps_its_queues(pair: Pair) -> None:
    ant, bee = pair.ant, pair.bee
    pair.done(bee, "stop_app")
    said = pair.ctl(bee, "rename_cluster_node", "cow@localhost", "cat@localhost")
    assert said.code == 69
    assert "cow@localhost is not this node, which is bee@localhost" in said.err
    said = pair.ctl(bee, "rename_cluster_node", "bee@localhost", "ant@localhost")
    assert said.err == "Error:\nanother node of the cluster is called ant@localhost\n"
    pair.done(bee, "rename_cluster_node", "bee@localhost", "cat@localhost")
    assert pair.done(bee, "start_app") == "Starting node cat@localhost ...\n"
    eventually(lambda: sorted(pair.nodes.members(ant)) == ["ant@localhost", "cat@localhost"])
    eventually(lambda: ready_in(ant, "kept") == 2)
    pair.done(bee, "stop_app")
    pair.done(bee, "rename_cluster_node", "cat@localhost", "bee@localhost")
    pair.done(bee, "start_app")


def test_a_node_that_is_left_goes_on_without_those_that_are_lost(nodes: MemberNodes) -> None:
    cat = nodes.start("cat")
    dog = nodes.start("dog", *joining(cat))
    declare(dog, "kept", b"one", b"two")
    declare(cat, "lost", b"one")
    dog.stop()
    lost = etcd_pid(cat)
    cat.kill()
    os.kill(lost, 9)
    dog.spawn()
    eventually(lambda: nodes.ctl(dog, "stop_app").code == 0)
    said = nodes.ctl(dog, "forget_cluster_node", "cat@localhost")
    assert said.code == 69
    assert "{:offline_node_no_offline_flag, 'You are trying to remove a node from an offline node." in said.err
    nodes.done(dog, "forget_cluster_node", "--offline", "cat@localhost")
    nodes.done(dog, "start_app")
    dog.await_ready()
    assert nodes.members(dog) == {"dog@localhost": ("disc", True)}
    eventually(lambda: queues_of(dog) == ["kept"])
    eventually(lambda: ready_in(dog, "kept") == 2)
