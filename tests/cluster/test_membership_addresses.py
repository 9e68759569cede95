"""Members that are configured to listen elsewhere: the others learn it, and reach them there."""

import os
from pathlib import Path

import pytest

from tests.cluster.member_nodes import MemberNodes, declare, etcd_pid, joining, ready_in
from tests.support.deadlines import eventually
from tests.support.node_process import NodeProcess
from tests.support.ports import free_port, peer_port


def arguments_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text("latin-1").split("\0")


def listens_at(node: NodeProcess, host: str, client_port: int, peer_port: int) -> bool:
    """Whether that is where the node's part of the store is."""
    wanted = {f"--listen-client-urls=https://{host}:{client_port}", f"--listen-peer-urls=https://{host}:{peer_port}"}
    return wanted <= set(arguments_of(etcd_pid(node)))


def begin_anew(nodes: MemberNodes, *ended: NodeProcess) -> None:
    """Nodes and their parts of the store: they find one another by their files."""
    for node in ended:
        part = etcd_pid(node)
        node.kill()
        os.kill(part, 9)
    for node in ended:
        node.spawn()
    for node in ended:
        node.await_ready()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_member_with_another_peer_port_is_found_there(nodes: MemberNodes, count: int) -> None:
    """The other members are a majority, or there is none without this one."""
    cat = nodes.start("cat")
    started = [cat, *[nodes.start(name, *joining(cat)) for name in ("dog", "eel")[: max(count - 1, 1)]]]
    if count == 1:
        other = started.pop()
        nodes.done(other, "stop_app")
        nodes.done(cat, "forget_cluster_node", other.name)
    moved = started[-1]
    declare(moved, "kept", b"one")
    moved.stop()
    port = peer_port()
    moved.addresses["peer"] = ("127.0.0.1", port)
    moved.start()
    assert listens_at(moved, "127.0.0.1", port + 1000, port + 2000)
    for node in started:
        eventually(lambda node=node: ready_in(node, "kept") == 1)  # type: ignore[misc]
    begin_anew(nodes, *started)
    for node in started:
        eventually(lambda node=node: ready_in(node, "kept") == 1)  # type: ignore[misc]
        eventually(lambda node=node: all(runs for _kind, runs in nodes.members(node).values()))  # type: ignore[misc]


def test_a_part_of_the_store_with_another_host_and_other_ports_is_found_there(nodes: MemberNodes) -> None:
    cat = nodes.start("cat")
    dog = nodes.start("dog", *joining(cat))
    declare(dog, "kept", b"one")
    client, peer = free_port(), free_port()
    configuration = dog._configuration.read_text()
    dog.configure(
        f"{configuration}cluster.etcd.host = 127.0.0.2\n"
        f"cluster.etcd.client_port = {client}\ncluster.etcd.peer_port = {peer}\n"
    )
    dog.crash()
    assert listens_at(dog, "127.0.0.2", client, peer)
    eventually(lambda: ready_in(cat, "kept") == 1)
    assert f"127.0.0.2:{client}" in (cat.data / "cluster.json").read_text()
    begin_anew(nodes, cat, dog)
    eventually(lambda: ready_in(cat, "kept") == 1)
    # and back
    dog.stop()
    dog.configure(configuration)
    dog.start()
    port = dog.addresses["peer"][1]
    assert listens_at(dog, "127.0.0.1", port + 1000, port + 2000)
    eventually(lambda: ready_in(cat, "kept") == 1)


def test_a_member_that_cannot_listen_where_it_is_to_listen_says_so(nodes: MemberNodes) -> None:
    cat = nodes.start("cat")
    dog = nodes.start("dog", *joining(cat))
    dog.stop()
    port = cat.addresses["http"][1]
    dog.configure(f"{dog._configuration.read_text()}cluster.etcd.client_port = {port}\n")
    dog.spawn()
    dog.process.wait(20)
    assert dog.process.stdout is not None
    dog.process.stdout.close()
    assert f"the etcd member of this node cannot listen on port {port} of 127.0.0.1" in dog.log().splitlines()[-1]
