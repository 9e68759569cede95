"""Membership commands interrupted by a kill: given again, they have the same result.

The store's proxy, or the node's files, decide between which steps a node is killed.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cluster.deadly_store import DeadlyStore
from tests.cluster.member_nodes import (
    MemberNodes,
    declare,
    ended,
    etcd_pid,
    joining,
    peer_of,
    processes_below,
    queues_of,
    ready_in,
)
from tests.support.deadlines import eventually
from tests.support.node_process import NodeProcess
from tests.support.operator import Operator
from warren.node.disk.file_names import CLUSTER, ETCD

CAT, DOG, EEL = "cat@localhost", "dog@localhost", "eel@localhost"
STEPS_MAX = 30
# before that, the node only reads
FIRST_STEP = 3
# the cluster has both names by then
HALF_OF_A_RENAMING = 14


def pair(nodes: MemberNodes, cats: str = "", dogs: str = "") -> tuple[NodeProcess, NodeProcess]:
    """Two members, each with its own etcd member, or with the given store; `kept` is a queue of dog's."""
    cat = nodes.start("cat", configuration=cats)
    dog = nodes.start("dog", configuration=dogs)
    nodes.join(dog, cat)
    declare(dog, "kept", b"one")
    return cat, dog


def kept_at(endpoint: str) -> str:
    """A configuration."""
    return f"cluster.etcd.endpoints.1 = {endpoint}\n"


def start_stopped(node: NodeProcess) -> None:
    node._options.append("--stopped")
    node.spawn()
    node._options.remove("--stopped")


def given_again(nodes: MemberNodes, node: NodeProcess, *words: str) -> None:
    """Start the process again, and repeat the command."""
    node.kill()
    start_stopped(node)
    eventually(lambda: nodes.ctl(node, *words).code == 0)


# -- between any two steps against the store


def deaths_of(nodes: MemberNodes, store: DeadlyStore, node: NodeProcess, stride: int, *words: str) -> Iterator[None]:
    """Repeat a command to a stopped node that is killed one step later each time, until the command completes."""
    for steps in range(FIRST_STEP, STEPS_MAX, stride):
        nodes.done(node, "stop_app")
        store.kill(node.pid, steps)
        said = nodes.ctl(node, *words)
        if not store.killed:
            store.spare()
            assert said.code == 0
            assert steps > FIRST_STEP, "it died of nothing"
            return
        given_again(nodes, node, *words)
        yield
    raise AssertionError("it has no end")


def test_a_reset_that_is_killed_between_any_two_steps_is_given_again(nodes: MemberNodes, store: DeadlyStore) -> None:
    cat, dog = pair(nodes, kept_at(store.far), kept_at(store.endpoint))
    for _death in deaths_of(nodes, store, dog, 3, "reset"):
        eventually(lambda: nodes.members(cat) == {CAT: ("disc", True)})
        eventually(lambda: queues_of(cat) == [])
        nodes.done(dog, "join_cluster", peer_of(cat))
        nodes.done(dog, "start_app")
        assert queues_of(dog) == []
        declare(dog, "kept", b"one")


def test_renaming_that_is_killed_between_any_two_steps_is_given_again(nodes: MemberNodes, store: DeadlyStore) -> None:
    cat, dog = pair(nodes, kept_at(store.far), kept_at(store.endpoint))
    for _death in deaths_of(nodes, store, dog, 4, "rename_cluster_node", DOG, EEL):
        nodes.done(dog, "start_app")
        eventually(lambda: sorted(nodes.members(cat)) == [CAT, EEL])
        eventually(lambda: ready_in(cat, "kept") == 1)
        nodes.done(dog, "stop_app")
        nodes.done(dog, "rename_cluster_node", EEL, DOG)
        nodes.done(dog, "start_app")


def test_another_type_that_is_killed_between_any_two_steps_is_given_again(
    nodes: MemberNodes, store: DeadlyStore
) -> None:
    cat, dog = pair(nodes, kept_at(store.far), kept_at(store.endpoint))
    for _death in deaths_of(nodes, store, dog, 3, "change_cluster_node_type", "ram"):
        nodes.done(dog, "start_app")
        eventually(lambda: nodes.members(cat)[DOG] == ("ram", True))
        nodes.done(dog, "stop_app")
        nodes.done(dog, "change_cluster_node_type", "disc")
        nodes.done(dog, "start_app")
        eventually(lambda: ready_in(cat, "kept") == 1)


def test_a_removal_that_is_killed_between_any_two_steps_is_given_again(nodes: MemberNodes, store: DeadlyStore) -> None:
    cat, dog = pair(nodes, kept_at(store.endpoint), kept_at(store.far))
    for steps in (FIRST_STEP, 5, 7):
        nodes.done(dog, "stop_app")
        store.kill(cat.pid, steps)
        nodes.ctl(cat, "forget_cluster_node", DOG)
        # if the removal took fewer steps, another request reaches the store
        eventually(lambda: store.killed)
        cat.crash()
        if DOG in nodes.members(cat):
            nodes.done(cat, "forget_cluster_node", DOG)
        eventually(lambda: nodes.members(cat) == {CAT: ("disc", True)})
        eventually(lambda: queues_of(cat) == [])
        nodes.done(dog, "reset")
        nodes.done(dog, "join_cluster", peer_of(cat))
        nodes.done(dog, "start_app")
        declare(dog, "kept", b"one")


def test_a_node_that_was_removed_is_not_renamed_to_another_member(nodes: MemberNodes, store: DeadlyStore) -> None:
    cat, dog = pair(nodes, kept_at(store.far), kept_at(store.endpoint))
    nodes.done(dog, "stop_app")
    nodes.done(cat, "forget_cluster_node", DOG)
    said = nodes.ctl(dog, "rename_cluster_node", DOG, CAT)
    assert (said.code, said.err) == (69, f"Error:\nanother node of the cluster is called {CAT}\n")


# -- where the files show how far it has come


def known_to(node: NodeProcess) -> list[str]:
    """The members, read without a command, for one is under way."""
    return [str(one["name"]) for one in Operator(node.addresses["http"]).read("nodes")]


def has_left(nodes: MemberNodes, cat: NodeProcess, dog: NodeProcess) -> bool:
    return DOG not in known_to(cat)


def has_no_part_of_the_store(nodes: MemberNodes, cat: NodeProcess, dog: NodeProcess) -> bool:
    return not (dog.data / ETCD).exists()


def has_no_cluster(nodes: MemberNodes, cat: NodeProcess, dog: NodeProcess) -> bool:
    return not (dog.data / CLUSTER).exists()


def has_a_part_of_the_store(nodes: MemberNodes, cat: NodeProcess, dog: NodeProcess) -> bool:
    return (dog.data / ETCD / "data" / "member" / "wal").exists()


def has_another_name(nodes: MemberNodes, cat: NodeProcess, dog: NodeProcess) -> bool:
    return EEL in known_to(cat)


def has_written_that_it_begins(nodes: MemberNodes, cat: NodeProcess, dog: NodeProcess) -> bool:
    return EEL in (dog.data / CLUSTER).read_text()


def goes_on_alone(nodes: MemberNodes, cat: NodeProcess, dog: NodeProcess) -> bool:
    pid = etcd_pid(dog)
    return bool(pid) and "--force-new-cluster" in Path(f"/proc/{pid}/cmdline").read_text("latin-1")


Shown = Callable[[MemberNodes, NodeProcess, NodeProcess], bool]


def killed_when(shown: Shown, nodes: MemberNodes, cat: NodeProcess, dog: NodeProcess, *words: str) -> None:
    with ThreadPoolExecutor() as pool:
        ordered = pool.submit(nodes.ctl, dog, *words)
        eventually(lambda: shown(nodes, cat, dog), pause_s=0.002)
        dog.kill()
        ordered.result()


@pytest.mark.parametrize(
    ("verb", "shown"),
    [
        ("reset", has_left),
        ("reset", has_no_part_of_the_store),
        ("reset", has_no_cluster),
        ("force_reset", has_no_part_of_the_store),
        ("force_reset", has_no_cluster),
    ],
)
def test_a_member_that_is_killed_while_it_is_reset_is_reset_again(nodes: MemberNodes, verb: str, shown: Shown) -> None:
    cat, dog = pair(nodes)
    nodes.done(dog, "stop_app")
    killed_when(shown, nodes, cat, dog, verb)
    given_again(nodes, dog, verb)
    assert etcd_pid(dog) == 0
    nodes.done(dog, "start_app")
    assert nodes.members(dog) == {DOG: ("disc", True)}
    assert queues_of(dog) == []
    if verb == "reset":
        eventually(lambda: nodes.members(cat) == {CAT: ("disc", True)})
        eventually(lambda: queues_of(cat) == [])
        # a majority is cat alone
        declare(cat, "after")


@pytest.mark.parametrize("shown", [has_written_that_it_begins, has_another_name])
def test_a_member_that_is_killed_while_it_is_renamed_is_renamed_again(nodes: MemberNodes, shown: Shown) -> None:
    cat, dog = pair(nodes)
    nodes.done(dog, "stop_app")
    killed_when(shown, nodes, cat, dog, "rename_cluster_node", DOG, EEL)
    if EEL in (dog.data / "NODE").read_text():
        dog._options[dog._options.index(DOG)] = EEL
        dog.start()
    else:
        dog.spawn()
        assert ended(dog) == 1
        assert f"{DOG} was about to be called {EEL} when it was interrupted" in dog.log().splitlines()[-1]
        given_again(nodes, dog, "rename_cluster_node", DOG, EEL)
        nodes.done(dog, "start_app")
    eventually(lambda: sorted(nodes.members(cat)) == [CAT, EEL])
    eventually(lambda: ready_in(cat, "kept") == 1)


def test_a_member_that_has_half_a_name_may_be_reset_but_gets_no_third_one(
    nodes: MemberNodes, store: DeadlyStore
) -> None:
    cat, dog = pair(nodes, kept_at(store.far), kept_at(store.endpoint))
    nodes.done(dog, "stop_app")
    store.kill(dog.pid, HALF_OF_A_RENAMING)
    nodes.ctl(dog, "rename_cluster_node", DOG, EEL)
    assert store.killed
    dog.kill()
    eventually(lambda: sorted(nodes.members(cat)) == [CAT, DOG, EEL])
    start_stopped(dog)
    eventually(lambda: nodes.ctl(dog, "ping").code == 0)
    said = nodes.ctl(dog, "rename_cluster_node", DOG, "fox@localhost")
    assert (said.code, said.err) == (69, f"Error:\n{DOG} is about to be called {EEL}: finish that first\n")
    nodes.done(dog, "reset")
    eventually(lambda: nodes.members(cat) == {CAT: ("disc", True)})
    eventually(lambda: queues_of(cat) == [])


def test_a_ram_node_that_is_killed_while_it_becomes_a_disc_node_becomes_one(nodes: MemberNodes) -> None:
    cat = nodes.start("cat")
    dog = nodes.start("dog", "--ram", *joining(cat))
    declare(dog, "kept", b"one")
    nodes.done(dog, "stop_app")
    killed_when(has_a_part_of_the_store, nodes, cat, dog, "change_cluster_node_type", "disc")
    given_again(nodes, dog, "change_cluster_node_type", "disc")
    nodes.done(dog, "start_app")
    assert etcd_pid(dog)
    eventually(lambda: nodes.members(cat)[DOG] == ("disc", True))
    eventually(lambda: ready_in(cat, "kept") == 1)


def test_a_disc_node_that_is_killed_while_it_becomes_a_ram_node_becomes_one(nodes: MemberNodes) -> None:
    cat, dog = pair(nodes)
    nodes.done(dog, "stop_app")
    killed_when(has_no_part_of_the_store, nodes, cat, dog, "change_cluster_node_type", "ram")
    given_again(nodes, dog, "change_cluster_node_type", "ram")
    nodes.done(dog, "start_app")
    assert etcd_pid(dog) == 0
    eventually(lambda: nodes.members(cat)[DOG] == ("ram", True))
    eventually(lambda: ready_in(cat, "kept") == 1)


def test_a_node_that_is_killed_while_it_goes_on_without_the_others_goes_on_without_them(nodes: MemberNodes) -> None:
    cat, dog = pair(nodes)
    nodes.done(dog, "stop_app")
    cat.kill()
    os.kill(etcd_pid(cat), 9)
    eventually(lambda: not processes_below(cat.data))
    killed_when(goes_on_alone, nodes, cat, dog, "forget_cluster_node", "--offline", CAT)
    given_again(nodes, dog, "forget_cluster_node", "--offline", CAT)
    nodes.done(dog, "start_app")
    assert nodes.members(dog) == {DOG: ("disc", True)}
    eventually(lambda: ready_in(dog, "kept") == 1)
