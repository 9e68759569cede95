"""Mirrored queues on three real nodes under clients that record every promise.

A policy mirrors queues with names that begin with `mirrored` to all nodes. The first master is the node where the queue
was declared. The log of the master of the newest epoch says which nodes are in sync; no other node knows it with
certainty.

::

    work      durable, with publishers on all nodes, two consumers
    row       durable, one consumer, which must get messages in order
    passing   not durable, one consumer

Not here: disturbing the nodes (`trio`), the promises (`promises`).
"""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.cluster.promises import WINDOW, Load, Publisher
from tests.cluster.trio import Trio, declare
from tests.support.deadlines import eventually
from tests.support.node_process import NodeProcess
from tests.support.operator import Operator

EVERYWHERE = {"ha-mode": "all", "ha-sync-mode": "automatic"}
_FACT = re.compile(r'(\w+)=("[^"]*"|\S*)')


@dataclass(frozen=True)
class Standing:
    """Of a replica set."""

    epoch: int
    master: str
    in_sync: frozenset[str]


def mirror_everything(trio: Trio, pattern: str = "^mirrored ", **wish: object) -> None:
    """Set a policy."""
    Operator(trio.nodes[0].addresses["http"]).policy(f"for {pattern}", pattern, wish or EVERYWHERE)


def standing(trio: Trio, queue: str) -> Standing:
    """The last report of the newest master; epoch 0 if there was none."""
    newest = Standing(0, "", frozenset())
    for node in trio.nodes:
        said = _last_said(node, queue)
        if said.epoch > newest.epoch:
            newest = said
    return newest


def _last_said(node: NodeProcess, queue: str) -> Standing:
    """The last report of a node about its own epoch as master."""
    epoch, in_sync = 0, set[str]()
    # except for a line that is being written
    for line in node.log().rpartition("\n")[0].splitlines():
        if "event=mirror." not in line:
            continue
        facts = {name: value.strip('"') for name, value in _FACT.findall(line)}
        if facts.get("queue") != queue:
            continue
        if facts["event"] == "mirror.promoted":
            epoch, in_sync = int(facts["epoch"]), set(facts["in_sync"].split(","))
        elif facts["event"] == "mirror.in_sync":
            in_sync.add(facts["node"])
        elif facts["event"] == "mirror.dropped":
            in_sync.discard(facts["node"])
    return Standing(epoch, node.name, frozenset(in_sync))


def await_in_sync(trio: Trio, queues: Sequence[str], count: int = 0) -> None:
    """Wait until so many nodes are in sync for these queues; all nodes, if no number is given."""
    count = count or len(trio.nodes)
    for queue in queues:
        eventually(
            lambda queue=queue: len(standing(trio, queue).in_sync) == count,  # type: ignore[misc]
            f"{count} nodes are in sync of {queue!r}",
        )


def await_another_master(trio: Trio, queues: Sequence[str], old: NodeProcess) -> None:
    for queue in queues:
        eventually(
            lambda queue=queue: standing(trio, queue).master != old.name,  # type: ignore[misc]
            f"{queue!r} has another master than {old.name}",
        )


class Scene:
    """Queues with one master at first, and clients on all nodes; clients of some nodes may be cut off."""

    def __init__(self, trio: Trio, load: Load, mark: str, master: NodeProcess, cut: Sequence[NodeProcess]) -> None:
        self.trio = trio
        self.load = load
        self._cut = cut
        self.master = master
        self.others = [node for node in trio.nodes if node is not master]
        self.work, self.row, self.passing = (f"mirrored {kind} {mark}" for kind in ("work", "row", "passing"))
        self.queues = [self.work, self.row, self.passing]
        channel = trio.channel(master)
        for queue in self.queues:
            declare(channel, queue, durable=queue is not self.passing)
        await_in_sync(trio, self.queues)

    def populate(self, passing: bool = True) -> None:
        """Every node has a publisher; the only consumer of a queue is at a node that is not cut off.

        The queue that is not durable has clients unless the test expects it to be lost.
        """
        spared = [node for node in [*self.others, self.master] if node not in self._cut] or self.others
        first, second = spared[0], spared[1 % len(spared)]
        for node in self.trio.nodes:
            self.publish(self.work, node)
        for node in (self.master, first):
            self.consume(self.work, node)
        self.publish(self.row, self.others[0])
        self.publish(self.row, self.master)
        self.consume(self.row, second)
        if passing:
            self.publish(self.passing, self.others[1])
            self.consume(self.passing, first)
        self.load.await_progress()

    def publish(self, queue: str, node: NodeProcess) -> None:
        self.load.publish(queue, node, may_be_cut=node in self._cut)

    def consume(self, queue: str, node: NodeProcess) -> None:
        self.load.consume(queue, node, may_be_cut=node in self._cut)

    def await_served(self, *nodes: NodeProcess) -> float:
        """Wait until publishers at these nodes get confirms of new messages; the seconds that took."""
        began = time.monotonic()
        for publisher in self.publishers_at(nodes):
            goal = publisher.confirmed + WINDOW
            eventually(
                lambda publisher=publisher, goal=goal: publisher.confirmed > goal or bool(self.load.ledger.complaints),  # type: ignore[misc]
                f"{publisher.name} is served",
            )
        return time.monotonic() - began

    def publishers_at(self, nodes: Sequence[NodeProcess]) -> list[Publisher]:
        names = [f" at {node.name}" for node in nodes]
        return [publisher for publisher in self.load.publishers if publisher.name.endswith(tuple(names))]

    def settle(self, queues: Sequence[str] = ()) -> None:
        """All nodes are in sync again, all clients are served, and no promised message is missing."""
        eventually(self.trio.is_whole, "all nodes reach one another")
        await_in_sync(self.trio, queues or self.queues)
        for queue in queues or self.queues:
            eventually(lambda queue=queue: self._is_agreed(queue), f"all nodes say the same of {queue!r}")  # type: ignore[misc]
        self.load.await_everybody()
        self.load.settle()
        channel = self.trio.channel(self.trio.nodes[0])
        for queue in self.queues:
            channel.call("queue.delete", queue=queue)

    def _is_agreed(self, queue: str) -> bool:
        """True if every node's HTTP API reports the same as the log of the master."""
        known = standing(self.trio, queue)
        told = [Operator(node.addresses["http"]).read("queues", "/", queue) for node in self.trio.nodes]
        return all(
            row.get("node") == known.master and {known.master, *row["synchronised_slave_nodes"]} == known.in_sync
            for row in told
        )
