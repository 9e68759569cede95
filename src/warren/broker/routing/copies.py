"""Queues that receive copies of other queues' messages.

For each source name there is a topic exchange, a *hub*, whether a queue of that name exists or not, and the copying
queues are bound to it. So copying starts and ends with the source, and continues with the next queue of its name. When
a route has a queue, the queues that copy it and whose patterns match a routing key of the message follow, and then the
queues that copy those. An exclusive queue is private to its owner and is never copied. A queue that copies a
partitioned stream receives the messages of all its partitions.

Invariant: the queues bound to hubs are exactly the queues of the topology with sources, each to the hubs of its
sources.

Not here: the arguments that name sources (`broker.model.queue_copies`), which copies receive the message in the end
(`broker.routing.exchanges.Recipients`).
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
        # by source name; these exchanges are in no topology
        self.hubs: dict[str, Exchange] = {}
        self._bindings: dict[QueuePort, list[Binding]] = {}

    def add(self, queue: QueuePort) -> None:
        """Bind a queue to the hubs of its sources, if it has any."""
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
        """The names of the queues that copy this one, sorted."""
        hub = None if source.exclusive else self.hubs.get(source.name)
        return [] if hub is None else sorted({binding.destination.name for binding in hub.outgoing})

    def copies_of(self, queues: list[QueuePort], subject: RoutedMessage) -> Copies | None:
        """The queues that copy these queues, directly or through other copies; None if there are none."""
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
            assert not isinstance(destination, Exchange), "only queues are bound here"
            copies[destination] = None
        return list(copies)
