"""Queues that get copies of what other queues get.

The copies of a queue hang on its name as bindings hang on a topic exchange, whether a queue of that name is there or
not: so copying begins with the source, ends with it, and goes on with the next one of its name. Whatever leads to a
queue, all its copies whose patterns match a key of the message come after it, and theirs after them. An exclusive queue
is its owner's alone, and is not copied. Whoever copies a partitioned stream gets what any of its partitions gets.

Invariant: exactly those queues of the topology that name sources hang here, on each of these.

Not here: what names them (`broker.model.queue_copies`); who of them is given a message in the end
(`broker.routing.exchanges`).
"""

from typing import final

from warren.broker.model.ports import QueuePort
from warren.broker.model.queue_copies import copy_sources
from warren.broker.model.stream_partitions import logical_name
from warren.broker.routing.exchange_types import TopicMatcher
from warren.broker.routing.exchanges import Binding, Copies, Exchange, RoutedMessage


@final
class QueueCopies:
    """Which queues copy which, in one virtual host."""

    def __init__(self) -> None:
        # by the names of sources; these exchanges are nowhere else
        self.hubs: dict[str, Exchange] = {}
        self._bindings: dict[QueuePort, list[Binding]] = {}

    def add(self, queue: QueuePort) -> None:
        """A queue is there, which may be a copy."""
        for source in copy_sources(queue.arguments):
            hub = self.hubs.get(source.name)
            if hub is None:
                hub = Exchange(source.name, "topic", False, False, True, {}, TopicMatcher())
                self.hubs[source.name] = hub
            binding = Binding(hub, queue, source.pattern, {})
            if binding not in hub.outgoing:
                hub.outgoing[binding] = binding
                hub.matcher.add(binding)
                self._bindings.setdefault(queue, []).append(binding)

    def remove(self, queue: QueuePort) -> None:
        for binding in self._bindings.pop(queue, []):
            hub = binding.source
            del hub.outgoing[binding]
            hub.matcher.remove(binding)
            if not hub.outgoing:
                del self.hubs[hub.name]

    def any(self) -> bool:
        return len(self.hubs) > 0

    def names_of_copies(self, source: QueuePort) -> list[str]:
        """The queues that copy this one, all of it or some, in the order of their names."""
        hub = None if source.exclusive else self.hubs.get(source.name)
        return [] if hub is None else sorted({binding.destination.name for binding in hub.outgoing})

    def copies_of(self, queues: list[QueuePort], subject: RoutedMessage) -> Copies | None:
        """The copies of these queues, and theirs; nothing if there are none."""
        copies: Copies = {}
        row = list(queues)
        known: dict[QueuePort, None] = dict.fromkeys(queues)
        at = 0
        while at < len(row):
            source = row[at]
            at += 1
            found = self._copies_of_one(source, subject)
            if found:
                copies[source] = found
                for copy in found:
                    if copy not in known:
                        known[copy] = None
                        row.append(copy)
        return copies or None

    def _copies_of_one(self, source: QueuePort, subject: RoutedMessage) -> list[QueuePort]:
        found: list[Binding] = []
        for name in (source.name, logical_name(source.arguments)):
            hub = None if source.exclusive else self.hubs.get(name)
            if hub is not None:
                hub.matcher.match(subject, found)
        copies: dict[QueuePort, None] = {}
        for binding in found:
            destination = binding.destination
            assert not isinstance(destination, Exchange), "only queues hang here"
            copies[destination] = None
        return list(copies)
