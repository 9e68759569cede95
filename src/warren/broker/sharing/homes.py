"""Which queues live where, and which of them end with a run of their node: transient and exclusive ones.

A mirrored queue lives where its master is, and ends with no node: others hold it.

Not here: where a queue is to live (`broker.sharing.placing`), when those end (`broker.sharing.leftovers`).
"""

from typing import final

from warren.model.rings import Ring
from warren.store.topology_definitions import QueueDefinition

Home = tuple[str, int]
"""A node, and which run of its process; 0 for a queue that outlives them all."""


@final
class Mirrored:
    """A queue that has a ring."""

    def __init__(self, queue: tuple[str, str], durable: bool, ring: Ring) -> None:
        self.queue: tuple[str, str] = queue
        self.durable: bool = durable
        self.ring: Ring = ring


@final
class QueueHomes:
    """The queues of all virtual hosts by home, in the order in which this node heard of them."""

    def __init__(self) -> None:
        self._homes: dict[str, Home] = {}
        self._fleeting: dict[Home, dict[str, tuple[str, str]]] = {}
        self._by_node: dict[str, dict[str, tuple[str, str]]] = {}
        self._mirrored: dict[str, Mirrored] = {}

    def put(self, definition: QueueDefinition) -> None:
        key = definition.key()
        self.delete(key)
        home = (definition.node, definition.incarnation)
        self._homes[key] = home
        queue = (definition.vhost, definition.name)
        self._by_node.setdefault(definition.node, {})[key] = queue
        if definition.ring is not None:
            self._mirrored[key] = Mirrored(queue, definition.durable, definition.ring)
        if definition.incarnation:
            self._fleeting.setdefault(home, {})[key] = queue

    def delete(self, key: str) -> None:
        home = self._homes.pop(key, None)
        if home is None:
            return
        self._mirrored.pop(key, None)
        there = self._by_node[home[0]]
        del there[key]
        if not there:
            del self._by_node[home[0]]
        if home in self._fleeting:
            queues = self._fleeting[home]
            queues.pop(key, None)
            if not queues:
                del self._fleeting[home]

    def count(self, node: str) -> int:
        """How many queues live there."""
        return len(self._by_node.get(node, {}))

    def nodes(self) -> list[str]:
        """Those with queues."""
        return sorted(self._by_node)

    def of_node_alone(self, node: str) -> list[tuple[str, str]]:
        """The virtual hosts and names of the queues that live there and are held by nobody else."""
        return [queue for key, queue in self._by_node.get(node, {}).items() if key not in self._mirrored]

    def mirrored(self) -> list["Mirrored"]:
        """Those that are held by several nodes, or may be."""
        return list(self._mirrored.values())

    def fleeting_homes(self) -> list[Home]:
        """Runs of nodes with queues that end with them."""
        return sorted(self._fleeting)

    def fleeting(self, home: Home) -> list[tuple[str, str]]:
        """The virtual hosts and names of the queues that end with it."""
        return list(self._fleeting.get(home, {}).values())
