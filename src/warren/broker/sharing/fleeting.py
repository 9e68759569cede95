"""Queues that end with a run of their home node: transient and exclusive ones, by home.

Not here: when they go (`broker.sharing.leftovers`).
"""

from typing import final

from warren.store.metadata import Definition
from warren.store.topology_definitions import QueueDefinition

Home = tuple[str, int]
"""A node, and which run of its process."""


@final
class FleetingQueues:
    """Of every home the virtual hosts and names of its queues, in the order in which this node heard of them."""

    def __init__(self) -> None:
        self._homes: dict[str, Home] = {}
        self._queues: dict[Home, dict[str, tuple[str, str]]] = {}

    def put(self, definition: Definition) -> None:
        if isinstance(definition, QueueDefinition) and definition.incarnation:
            home = (definition.node, definition.incarnation)
            key = definition.key()
            self._homes[key] = home
            self._queues.setdefault(home, {})[key] = (definition.vhost, definition.name)

    def delete(self, key: str) -> None:
        home = self._homes.pop(key, None)
        if home is not None:
            queues = self._queues[home]
            del queues[key]
            if not queues:
                del self._queues[home]

    def homes(self) -> list[Home]:
        return sorted(self._queues)

    def of(self, home: Home) -> list[tuple[str, str]]:
        return list(self._queues.get(home, {}).values())
