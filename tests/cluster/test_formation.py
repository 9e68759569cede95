"""How clusters begin: nodes that find each other, a store that is run separately, and interruptions of the formation.

Interrupted means SIGKILL when the files of a node show that it has reached a step.
"""

import json
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cluster.etcd_world import Members, demand_passwords
from tests.cluster.member_nodes import MemberNodes, declare, etcd_pid, joining, queues_of, ready_in
from tests.node.certificate_files import Authority
from tests.support.deadlines import eventually, run
from tests.support.node_process import NodeProcess
from tests.support.ports import peer_port
from warren.node.disk.file_names import CLUSTER, UNFINISHED_SUFFIX
from warren.node.tls import TlsFiles

Step = Callable[[NodeProcess], bool]


# -- finding each other


def test_nodes_of_a_list_that_start_at_once_become_one_cluster(nodes: MemberNodes) -> None:
    ports = {name: peer_port() for name in ("ant", "bee", "cat")}
    listed = enumerate(ports.items(), 1)
    lines = [f"cluster_formation.classic_config.nodes.{k} = {name}@localhost:{port}" for k, (name, port) in listed]
    configuration = "\n".join(["cluster_formation.peer_discovery_backend = classic_config", *lines, ""])
    started = [nodes.spawn(name, configuration=configuration, port=ports[name]) for name in ("cat", "bee", "ant")]
    for node in started:
        node.await_ready()
    all_members = {f"{name}@localhost": ("disc", True) for name in ports}
    for node in started:
        eventually(lambda node=node: nodes.members(node) == all_members)  # type: ignore[misc]
    assert "event=cluster.founded" in started[2].log()


def test_a_node_that_is_not_the_first_of_its_list_waits_for_it(nodes: MemberNodes) -> None:
    ant_port, bee_port = peer_port(), peer_port()
    configuration = (
        f"cluster_formation.classic_config.nodes.1 = ant@localhost:{ant_port}\n"
        f"cluster_formation.classic_config.nodes.2 = bee@localhost:{bee_port}\n"
    )
    bee = nodes.spawn("bee", configuration=configuration, port=bee_port)
    eventually(lambda: "event=join.waiting" in bee.log())
    assert nodes.ctl(bee, "status").err.startswith("Error:\nthe node bee@localhost is starting")
    ant = nodes.spawn("ant", configuration=configuration, port=ant_port)
    ant.await_ready()
    bee.await_ready()
    assert len(nodes.members(bee)) == 2
    declare(bee, "kept", b"one")
    # from now on both know each other without the list
    for node in (ant, bee):
        node.kill()
        node.spawn()
    for node in (ant, bee):
        node.await_ready()
    eventually(lambda: ready_in(ant, "kept") == 1)


# -- a store that is run separately


@pytest.fixture
def guarded_store(tmp_path: Path) -> Iterator[str]:
    """An etcd behind certificates and a password; the lines of a configuration that name it."""
    (tmp_path / "authority").mkdir()
    authority = Authority(tmp_path / "authority")
    files = TlsFiles(authority.path, authority.server.certificate, authority.server.key)
    members = Members(tmp_path / "store", 1, files)
    members.make()
    endpoint = members.endpoints()[0]
    run(demand_passwords(endpoint, files))
    yield "\n".join(
        [
            f"cluster.etcd.endpoints.1 = {endpoint}",
            "cluster.etcd.user = warren",
            "cluster.etcd.password = open sesame",
            f"cluster.etcd.tls.cacertfile = {files.authorities}",
            f"cluster.etcd.tls.certfile = {files.certificate}",
            f"cluster.etcd.tls.keyfile = {files.key}",
            "",
        ]
    )
    members.destroy()


def test_two_nodes_on_a_store_that_is_run_separately(nodes: MemberNodes, guarded_store: str) -> None:
    cat = nodes.start("cat", configuration=guarded_store)
    declare(cat, "cats", b"one")
    dog = nodes.start("dog", *joining(cat), configuration=guarded_store)
    declare(dog, "dogs", b"one", b"two")
    for node in (cat, dog):
        node.crash()
        eventually(lambda: ready_in(cat, "dogs") == 2)
        eventually(lambda: ready_in(dog, "cats") == 1)
        assert not (node.data / "etcd").exists()
    nodes.done(dog, "stop_app")
    nodes.done(cat, "forget_cluster_node", "dog@localhost")
    assert queues_of(cat) == ["cats"]
    eventually(lambda: nodes.members(cat) == {"cat@localhost": ("disc", True)})
    nodes.done(dog, "reset")
    # it has the order to join, and joins again
    nodes.done(dog, "start_app")
    eventually(lambda: len(nodes.members(cat)) == 2)
    assert queues_of(dog) == ["cats"]


# -- interruptions


class Held:
    """An etcd that starts when the test allows it."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._reached, self._leave = directory / "reached", directory / "leave"
        self.path = directory / "etcd"
        self.path.write_text(
            '#!/bin/sh\n[ "$1" = --version ] && exec etcd --version\n'
            f'touch {self._reached}\nwhile [ ! -e {self._leave} ]; do sleep 0.02; done\nexec etcd "$@"\n'
        )
        self.path.chmod(0o700)

    def reached(self) -> bool:
        return self._reached.exists()

    def go(self) -> None:
        self._leave.touch()


def has_ports(node: NodeProcess) -> bool:
    return (node.data / "etcd" / "member.json").exists()


def has_data(node: NodeProcess) -> bool:
    return (node.data / "etcd" / "data" / "member" / "wal").exists()


def has_an_id(node: NodeProcess) -> bool:
    """Its member has answered, and is about to become a voter."""
    try:
        return bool(json.loads((node.data / "etcd" / "member.json").read_text())["member_id"])
    except (FileNotFoundError, KeyError):
        return False


def is_member(node: NodeProcess) -> bool:
    return (node.data / "cluster.json").exists()


def test_founding_that_is_killed_before_there_is_a_store_leaves_a_node_alone(
    nodes: MemberNodes, tmp_path: Path
) -> None:
    held = Held(tmp_path / "held")
    cat = nodes.start("cat", configuration=f"cluster.etcd.binary = {held.path}\n")
    declare(cat, "kept", b"one")
    dog = nodes.spawn("dog", *joining(cat))
    eventually(held.reached)
    assert etcd_pid(cat)
    dog.kill()
    cat.crash()
    assert not is_member(cat)
    assert etcd_pid(cat) == 0
    assert not (cat.data / "etcd").exists()
    assert (nodes.members(cat), ready_in(cat, "kept")) == ({"cat@localhost": ("disc", True)}, 1)
    held.go()
    dog.spawn()
    dog.await_ready()
    eventually(lambda: ready_in(dog, "kept") == 1)


def test_founding_that_is_killed_at_any_step_loses_nothing(nodes: MemberNodes) -> None:
    cat = nodes.start("cat")
    declare(cat, "kept", b"one", b"two")
    dog = nodes.spawn("dog", *joining(cat))
    dog.kill()
    for step in (has_ports, has_data, has_an_id, is_member):
        dog.spawn()
        eventually(lambda step=step: step(cat))  # type: ignore[misc]
        cat.kill()
        dog.kill()
        cat.start()
        assert ready_in(cat, "kept") == 2
        assert bool(etcd_pid(cat)) == is_member(cat)
        assert "cat@localhost" in nodes.members(cat)
    dog.spawn()
    dog.await_ready()
    eventually(lambda: ready_in(dog, "kept") == 2)
    assert len(nodes.members(dog)) == 2


def test_joining_that_is_killed_at_any_step_leaves_a_node_alone_or_a_member(nodes: MemberNodes) -> None:
    cat = nodes.start("cat")
    dog = nodes.spawn("dog", *joining(cat))
    for number, step in enumerate((has_ports, has_data, has_an_id)):
        eventually(lambda step=step: step(dog))  # type: ignore[misc]
        dog.kill()
        # cat works on, at any step that dog had reached
        declare(cat, f"kept{number}", b"one")
        if not is_member(dog):
            alone_without_an_order_to_join(nodes, dog)
        dog.spawn()
    dog.await_ready()
    assert sorted(nodes.members(cat)) == sorted(nodes.members(dog)) == ["cat@localhost", "dog@localhost"]
    eventually(lambda: all(ready_in(dog, f"kept{number}") == 1 for number in range(3)))


def alone_without_an_order_to_join(nodes: MemberNodes, node: NodeProcess) -> None:
    options = list(node._options)
    place = node._options.index("--join")
    del node._options[place : place + 2]
    node.spawn()
    node.await_ready()
    assert nodes.members(node) == {"dog@localhost": ("disc", True)}
    assert etcd_pid(node) == 0
    node.kill()
    node._options[:] = options


def test_a_member_whose_part_of_the_store_is_frozen_waits_for_it(nodes: MemberNodes) -> None:
    cat = nodes.start("cat")
    dog = nodes.start("dog", *joining(cat))
    declare(dog, "kept", b"one")
    dog.kill()
    frozen = etcd_pid(cat)
    os.kill(frozen, signal.SIGSTOP)
    dog.spawn()
    eventually(lambda: "event=store.awaited" in dog.log())
    os.kill(frozen, signal.SIGCONT)
    dog.await_ready()
    eventually(lambda: ready_in(cat, "kept") == 1)


def test_a_node_that_is_killed_while_it_becomes_a_ram_node_is_one(nodes: MemberNodes) -> None:
    cat = nodes.start("cat")
    dog = nodes.start("dog", *joining(cat))
    declare(dog, "kept", b"one")
    nodes.done(dog, "stop_app")
    with ThreadPoolExecutor() as pool:
        # etcd takes some seconds to remove a member
        ordered = pool.submit(nodes.ctl, dog, "change_cluster_node_type", "ram")
        eventually(lambda: '"kind": "ram"' in (dog.data / "cluster.json").read_text(), pause_s=0.002)
        dog.kill()
        assert ordered.result().code != 0
    dog.start()
    assert etcd_pid(dog) == 0
    all_members = {"cat@localhost": ("disc", True), "dog@localhost": ("ram", True)}
    eventually(lambda: nodes.members(cat) == all_members)
    eventually(lambda: ready_in(cat, "kept") == 1)


def test_a_node_that_cannot_write_down_that_it_has_founded_a_cluster_is_alone_as_before(nodes: MemberNodes) -> None:
    cat = nodes.start("cat")
    obstacle = cat.data / (CLUSTER + UNFINISHED_SUFFIX)
    obstacle.mkdir()
    dog = nodes.spawn("dog", *joining(cat))
    eventually(lambda: "event=peer.refused" in cat.log())
    declare(cat, "kept", b"one")
    assert not (cat.data / CLUSTER).exists()
    obstacle.rmdir()
    dog.await_ready()
    assert len(nodes.members(dog)) == 2
    eventually(lambda: ready_in(dog, "kept") == 1)
