"""A partitioned stream of three nodes, and a group with members on all of them; members and nodes are killed."""

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from tests.cluster.mirrored import await_in_sync
from tests.cluster.trio import Trio
from tests.support.amqp_client import Channel
from tests.support.deadlines import DEADLINE_S, eventually
from tests.support.node_process import NodeProcess
from tests.support.operator import Operator

pytestmark = pytest.mark.timeout(240)

STREAM = "orders"
EXCHANGE = "all orders"
PARTITIONS = 6
KEYS = [f"customer-{number}" for number in range(24)]


@dataclass(frozen=True)
class Line:
    """One of a member's diary."""

    moment: float
    what: str
    partition: int
    offset: int
    key: str
    number: int


class Member:
    """A process that is a member of the group."""

    def __init__(self, node: NodeProcess, name: str, directory: Path) -> None:
        self.name = name
        self.killed_at: float | None = None
        self._diary = directory / f"{name}.diary"
        words = [sys.executable, "-m", "tests.cluster.group_member", *map(str, node.amqp), STREAM, name]
        with (directory / f"{name}.log").open("wb") as log:
            self.process = subprocess.Popen([*words, str(self._diary)], stdout=log, stderr=log)
        eventually(lambda: self.said("attends"), f"{name} takes part")

    def lines(self) -> list[Line]:
        text = self._diary.read_text() if self._diary.exists() else ""
        found = []
        for line in text.splitlines(keepends=True):
            if line.endswith("\n"):
                moment, what, partition, offset, key, body = line.split()
                number = int(body) if body.isdigit() else -1
                found.append(Line(float(moment), what, int(partition), int(offset), key, number))
        return found

    def said(self, what: str) -> bool:
        return any(line.what == what for line in self.lines())

    def kill(self) -> None:
        if self.killed_at is None:
            self.killed_at = time.monotonic()
        self.process.kill()
        self.process.wait(DEADLINE_S)


class Scene:
    """A trio with a partitioned stream, its members, and all confirmed messages."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.trio = Trio(directory)
        self.members: list[Member] = []
        self.sent: dict[str, int] = dict.fromkeys(KEYS, 0)
        self._publisher = self._prepared(self.trio.channel(self.trio.nodes[0]))
        self._published = 0

    def _prepared(self, channel: Channel) -> Channel:
        arguments = {"x-queue-type": "stream", "x-stream-partitions": PARTITIONS}
        channel.call("queue.declare", queue=STREAM, durable=True, arguments=arguments)
        channel.call("exchange.declare", exchange=EXCHANGE, type="fanout", durable=True)
        channel.call("queue.bind", queue=STREAM, exchange=EXCHANGE, routing_key="")
        channel.confirm()
        return channel

    def join(self, node: NodeProcess, name: str) -> Member:
        self.members.append(Member(node, name, self.directory))
        return self.members[-1]

    def publish(self, rounds: int) -> None:
        """Publish so many more messages of each key, in order."""
        first = self._published + 1
        for _ in range(rounds):
            for key in KEYS:
                self._publisher.publish(EXCHANGE, key, str(self.sent[key]).encode())
                self.sent[key] += 1
                self._published += 1
        self._publisher.confirms(range(first, self._published + 1))

    def homes(self) -> dict[int, str]:
        rows = Operator(self.trio.nodes[0].addresses["http"]).read("queues")
        by_name = {row["name"]: row.get("node", "") for row in rows}
        return {index: by_name[f"{STREAM}-{index}"] for index in range(PARTITIONS)}

    def acked(self) -> set[tuple[str, int]]:
        lines = [line for member in self.members for line in member.lines()]
        return {(line.key, line.number) for line in lines if line.what == "acked"}

    def await_all(self) -> None:
        wanted = {(key, number) for key in KEYS for number in range(self.sent[key])}
        eventually(lambda: wanted <= self.acked(), "everything was dealt with", 2 * DEADLINE_S)

    def check(self) -> None:
        """Order is kept for each key, and no two members ever held messages of one partition at the same time."""
        for member in self.members:
            assert not member.said("basic.cancel"), member.name
        for key in KEYS:
            self._check_order(key)
        for partition in range(PARTITIONS):
            self._check_alone(partition)

    def _check_order(self, key: str) -> None:
        got = [line for member in self.members for line in member.lines() if (line.what, line.key) == ("got", key)]
        seen = -1
        for line in sorted(got, key=lambda line: line.moment):
            assert line.number <= seen + 1, f"{key} {line.number} came before {seen + 1}"
            seen = max(seen, line.number)

    def _check_alone(self, partition: int) -> None:
        spans = sorted(span for member in self.members for span in held_by(member, partition))
        for (_, end, one), (start, _, other) in pairwise(spans):
            assert one == other or end <= start, f"{one} and {other} both had something of partition {partition}"

    def destroy(self) -> None:
        for member in self.members:
            member.kill()
        self.trio.destroy()


def held_by(member: Member, partition: int) -> list[tuple[float, float, str]]:
    """From when to when the member held each message of a partition; it may get one again that it had before."""
    killed_at = float("inf") if member.killed_at is None else member.killed_at
    held: dict[int, float] = {}
    spans = []
    for line in member.lines():
        if line.partition == partition and line.what == "got":
            held[line.offset] = line.moment
        elif line.partition == partition and line.what == "acked":
            spans.append((held.pop(line.offset), min(line.moment, killed_at), member.name))
    return spans + [(start, killed_at, member.name) for start in held.values()]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.destroy()


def test_a_group_of_three_nodes_deals_with_everything_in_order_while_members_die_and_join(scene: Scene) -> None:
    n1, n2, n3 = scene.trio.nodes
    assert sorted(scene.homes().values()) == sorted([n1.name, n2.name, n3.name] * 2)
    for node, name in ((n1, "a"), (n2, "b"), (n3, "c")):
        scene.join(node, name)
    scene.publish(20)
    eventually(lambda: scene.members[1].said("acked"), "b works")
    scene.publish(10)
    scene.members[1].kill()
    scene.publish(20)
    scene.join(n2, "d")
    scene.publish(20)
    scene.await_all()
    scene.check()
    assert scene.members[3].said("acked")


def test_members_go_on_with_the_partitions_of_a_lost_node_when_it_is_back(scene: Scene) -> None:
    n1, n2, n3 = scene.trio.nodes
    scene.join(n1, "a")
    scene.join(n2, "b")
    scene.publish(10)
    scene.await_all()
    n3.kill()
    there = [index for index, home in scene.homes().items() if home != n3.name]
    before = {line.partition for member in scene.members for line in member.lines() if line.what == "acked"}
    assert set(there) < before
    scene.trio.start(n3)
    eventually(scene.trio.is_whole, "all nodes reach one another")
    scene.publish(10)
    scene.await_all()
    scene.check()


def test_a_group_goes_on_when_a_master_of_mirrored_partitions_is_killed(scene: Scene) -> None:
    n1, n2, n3 = scene.trio.nodes
    scene.trio.ctl(n1, "set_policy", "mirrored", f"^{STREAM}-", '{"ha-mode": "all"}')
    await_in_sync(scene.trio, [f"{STREAM}-{index}" for index in range(PARTITIONS)])
    scene.join(n1, "a")
    scene.join(n2, "b")
    scene.publish(10)
    eventually(lambda: all(member.said("acked") for member in scene.members), "both work")
    n3.kill()
    scene.publish(20)
    scene.await_all()
    scene.check()


def test_more_partitions_than_are_agreed_upon_at_once_are_made_and_deleted_together(scene: Scene) -> None:
    n1, n2, _ = scene.trio.nodes
    arguments = {"x-queue-type": "stream", "x-stream-partitions": 150}
    scene.trio.channel(n1).call("queue.declare", queue="many", durable=True, arguments=arguments)
    other = scene.trio.channel(n2)
    other.call("queue.declare", queue="many", durable=True, arguments=arguments)
    assert other.counts("many-149") == (0, 0)
    homes = [row["node"] for row in Operator(n2.addresses["http"]).read("queues") if row["name"].startswith("many-")]
    assert sorted(homes.count(node.name) for node in scene.trio.nodes) == [50, 50, 50]
    other.call("queue.delete", queue="many", if_unused=True)
    names = [row["name"] for row in Operator(n2.addresses["http"]).read("queues")]
    assert [name for name in names if name.startswith("many")] == []


def test_any_node_shows_the_groups_of_all_partitions(scene: Scene) -> None:
    n1, n2, n3 = scene.trio.nodes
    scene.join(n1, "a")
    scene.join(n2, "b")
    served = list(enumerate("ababab"))
    homes, members = {n1.name, n2.name, n3.name}, {("a", n1.name), ("b", n2.name)}
    partitions = [f"{STREAM}-{index}" for index in range(PARTITIONS)]
    for node in (n1, n2, n3):
        # a partition is missing if its home does not answer in time
        eventually(lambda node=node: groups_shown_by(node) == (served, homes, members), "all groups are shown")  # type: ignore[misc]
        eventually(lambda node=node: waiting_shown_by(node) == partitions, "all waiting readers are shown")  # type: ignore[misc]


def groups_shown_by(node: NodeProcess) -> tuple[list[tuple[int, str]], set[str], set[tuple[str, str]]]:
    """The partitions and their members, the homes of partitions, and the members and their nodes."""
    rows = Operator(node.addresses["http"]).read("stream", "groups", "/", STREAM)
    members = {(member["name"], member["node"]) for row in rows for member in row["members"]}
    return [(row["partition"], row["active"]) for row in rows], {row["node"] for row in rows}, members


def waiting_shown_by(node: NodeProcess) -> list[str]:
    """The partitions of consumers that wait."""
    rows = Operator(node.addresses["http"]).read("consumers", "/")
    return sorted(row["queue"]["name"] for row in rows if not row["active"])
