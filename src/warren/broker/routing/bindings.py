"""The bindings of one virtual host by their definitions: added, removed, and kept when a queue object is replaced.

Not here: routing (`broker.routing.topology`), building metadata transactions (`broker.routing.topology_transactions`).
"""

from typing import final

from warren.broker.metadata.topology_definitions import BindingDefinition
from warren.broker.model.ports import QueuePort
from warren.broker.routing.exchanges import Binding, Exchange
from warren.broker.routing.topology import Topology


@final
class Bindings:
    """Applies binding definitions to a topology."""

    def __init__(self, topology: Topology) -> None:
        self._topology: Topology = topology
        # bindings with arguments, by metadata key: the key has only a digest of the arguments
        self._with_arguments: dict[str, Binding] = {}

    def make(self, definition: BindingDefinition) -> bool:
        """Add a binding, if its source and destination exist; a fault if the exchange type refuses it."""
        source = self._topology.exchanges.get(definition.source)
        destination = self._destination(definition.destination, definition.destination_is_queue)
        if source is None or destination is None:
            return False
        self._topology.bind(source, destination, definition.routing_key, definition.arguments)
        if definition.arguments:
            found = self._topology.binding(source, destination, definition.routing_key, definition.arguments)
            assert found is not None, "the binding was just made"
            self._with_arguments[definition.key()] = found
        return True

    def unmake(self, source: str, destination: str, to_queue: bool, routing_key: str) -> None:
        """Remove a binding without arguments."""
        found = self._topology.exchanges.get(source)
        end = self._destination(destination, to_queue)
        if found is not None and end is not None:
            binding = self._topology.binding(found, end, routing_key, {})
            if binding is not None:
                self._topology.unbind(binding)

    def unmake_with_arguments(self, key: str) -> None:
        binding = self._with_arguments.pop(key, None)
        if binding is not None:
            self._topology.unbind(binding)

    def replace_queue(self, queue: QueuePort, successor: QueuePort) -> None:
        """Move all bindings of a queue object to its successor."""
        topology = self._topology
        keys = {binding: key for key, binding in self._with_arguments.items() if binding.destination is queue}
        bindings = topology.bindings_of(queue)
        for binding in bindings:
            topology.unbind(binding)
        topology.remove_queue(queue)
        topology.add_queue(successor)
        for binding in bindings:
            topology.bind(binding.source, successor, binding.routing_key, binding.arguments)
            key = keys.get(binding)
            if key is not None:
                found = topology.binding(binding.source, successor, binding.routing_key, binding.arguments)
                assert found is not None, "the binding was just made"
                self._with_arguments[key] = found

    def _destination(self, name: str, is_queue: bool) -> QueuePort | Exchange | None:
        return self._topology.queues.get(name) if is_queue else self._topology.exchanges.get(name)
