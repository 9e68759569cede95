"""A simple model of routing: the exchanges, bindings and queues that a node was told of.

It follows the definitions literally, without the broker's caches or tries, so that the two can disagree. A fleeting
queue stays known after it went: messages routed to it may be dropped anyway.

Not here: the broker's own routing (`broker.routing`).
"""

from collections.abc import Callable

from warren.sim.history import QueueSpec, UndoLog


class RoutingModel:
    """The topology as declared so far. Durable objects stay when the node restarts, if they were stored.

    Each change returns the journal batch that must be on disk before the node may answer; 0 if none.
    """

    def __init__(self, specs: dict[str, QueueSpec], undo: UndoLog) -> None:
        self.specs = specs
        self._undo = undo
        # by name: type, durable, and the batch it was declared with
        self._exchanges: dict[str, tuple[str, bool, int]] = {}
        self._queues: dict[str, int] = {}
        self._bindings: dict[tuple[str, str, str], int] = {}

    def declare_exchange(self, name: str, kind: str, durable: bool = False) -> int:
        if name not in self._exchanges:
            self._exchanges[name] = (kind, durable, self._did(durable, lambda: self._exchanges.pop(name, None)))
        return self._exchanges[name][2]

    def declare_queue(self, name: str) -> int:
        if name not in self._queues:
            self._queues[name] = self._did(self.specs[name].durable, lambda: self._queues.pop(name, None))
        return self._queues[name]

    def bind(self, exchange: str, key: str, queue: str) -> int:
        binding = (exchange, key, queue)
        if binding not in self._bindings:
            self._bindings[binding] = self._did(self._lasts(binding), lambda: self._bindings.pop(binding, None))
        return self._bindings[binding]

    def unbind(self, exchange: str, key: str, queue: str) -> int:
        binding = (exchange, key, queue)
        if self._bindings.pop(binding, None) is None:
            return 0
        if self._lasts(binding):
            self._undo.begin_unbind()
        return self._did(self._lasts(binding), lambda: self._bindings.setdefault(binding, 0))

    def node_restarted(self) -> None:
        """After the undo, the durable objects are left, for good."""
        self._bindings = {binding: 0 for binding in self._bindings if self._lasts(binding)}
        self._exchanges = {name: (kind, True, 0) for name, (kind, durable, _) in self._exchanges.items() if durable}
        self._queues = {name: 0 for name in self._queues if self.specs[name].durable}

    def exchanges(self) -> set[str]:
        return set(self._exchanges)

    def queues(self) -> set[str]:
        return set(self._queues)

    def bindings(self) -> set[tuple[str, str, str]]:
        return set(self._bindings)

    def _lasts(self, binding: tuple[str, str, str]) -> bool:
        exchange, _key, queue = binding
        return exchange in self._exchanges and self._exchanges[exchange][1] and self.specs[queue].durable

    def _did(self, durable: bool, undo: Callable[[], object]) -> int:
        if not durable:
            return 0
        self._undo.did(undo, metadata=True)
        return self._undo.batch_no

    def route(self, exchange: str, key: str) -> list[QueueSpec]:
        """The queues a message goes to, each once."""
        if not exchange:
            return [self.specs[key]] if key in self._queues else []
        if exchange not in self._exchanges:
            return []
        kind = self._exchanges[exchange][0]
        found: dict[str, None] = {}
        for source, pattern, queue in self._bindings:
            if source == exchange and matches(kind, pattern, key):
                found[queue] = None
        return [self.specs[queue] for queue in found]


def matches(kind: str, pattern: str, key: str) -> bool:
    """Whether a binding matches a routing key."""
    if kind == "fanout":
        return True
    if kind == "topic":
        return _topic_matches(pattern.split("."), key.split("."))
    return pattern == key


def _topic_matches(pattern: list[str], words: list[str]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(_topic_matches(pattern[1:], words[skipped:]) for skipped in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and _topic_matches(pattern[1:], words[1:])
