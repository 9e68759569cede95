"""Clusters that begin in a store that is run separately: the entries of an interrupted founding belong to the founder,
and only the founder takes them back.
"""

import shutil

from tests.cluster.deadly_store import DeadlyStore
from tests.cluster.member_nodes import MemberNodes, declare, ended, joining, ready_in
from tests.support.deadlines import eventually
from tests.support.node_process import NodeProcess
from warren.node.disk.file_names import CLUSTER, FOUNDING, UNFINISHED_SUFFIX

STEPS_MAX = 30


def kept_in(store: DeadlyStore) -> str:
    """The lines of a configuration."""
    return f"cluster.etcd.endpoints.1 = {store.endpoint}\n"


def is_member(node: NodeProcess) -> bool:
    return (node.data / CLUSTER).exists()


def test_founding_that_is_killed_between_any_two_steps_is_repeated(nodes: MemberNodes, store: DeadlyStore) -> None:
    cat = nodes.start("cat", configuration=kept_in(store))
    declare(cat, "kept", b"one", b"two")
    dog = nodes.spawn("dog", *joining(cat), configuration=f"cluster.etcd.endpoints.1 = {store.far}\n")
    dog.kill()
    steps = 0
    while not is_member(cat):
        steps += 2
        assert steps < STEPS_MAX
        store.kill(cat.pid, steps)
        dog.spawn()
        eventually(lambda: store.killed)
        dog.kill()
        cat.kill()
        cat.start()
        assert ready_in(cat, "kept") == 2
    # it reads, wipes, claims, writes, marks the end, registers itself, and reads everything
    assert steps >= 7
    dog.spawn()
    dog.await_ready()
    eventually(lambda: ready_in(dog, "kept") == 2)
    assert sorted(nodes.members(dog)) == ["cat@localhost", "dog@localhost"]
    cat.restart()
    assert not (cat.data / FOUNDING).exists()


def test_founding_that_could_not_be_written_down_is_repeated(nodes: MemberNodes, store: DeadlyStore) -> None:
    cat = nodes.start("cat", configuration=kept_in(store))
    obstacle = cat.data / (CLUSTER + UNFINISHED_SUFFIX)
    obstacle.mkdir()
    dog = nodes.spawn("dog", *joining(cat), configuration=kept_in(store))
    eventually(lambda: "event=peer.refused" in cat.log())
    declare(cat, "kept", b"one")
    obstacle.rmdir()
    dog.await_ready()
    eventually(lambda: ready_in(dog, "kept") == 1)


def test_a_copy_of_a_founder_does_not_take_its_cluster(nodes: MemberNodes, store: DeadlyStore) -> None:
    cat = nodes.start("cat", configuration=kept_in(store))
    cat.stop()
    shutil.copytree(cat.data, nodes.directory / "copy" / "data")
    cat.start()
    dog = nodes.start("dog", *joining(cat), configuration=kept_in(store))
    declare(dog, "kept", b"one")
    copy = nodes.start("copy", "--name", "cat@localhost", configuration=kept_in(store))
    eel = nodes.spawn("eel", *joining(copy), configuration=kept_in(store))
    assert ended(eel) == 2
    assert "the metadata store has a cluster of this name already" in eel.log()
    eventually(lambda: ready_in(cat, "kept") == 1)
    assert sorted(nodes.members(cat)) == ["cat@localhost", "dog@localhost"]
