"""Where a message must go, worked out the slow way: the exchanges, bindings and queues a node was told of.

Routing is read off the definitions literally, with none of the broker's caches or tries, so that the two can disagree.
A fleeting queue stays known after it went: whatever is routed to it may be dropped anyway.

Not here: the broker's own routing (`warren.routing`).
"""

from warren.sim.history import QueuePlan


class Fabric:
    """The topology as declared so far."""

    def __init__(self, plans: dict[str, QueuePlan]) -> None:
        self.plans = plans
        self._kinds: dict[str, str] = {}
        self._declared: dict[str, None] = {}
        self._bindings: dict[tuple[str, str, str], None] = {}

    def declare_exchange(self, name: str, kind: str) -> None:
        self._kinds[name] = kind

    def declare_queue(self, name: str) -> None:
        self._declared[name] = None

    def bind(self, exchange: str, key: str, queue: str) -> None:
        self._bindings[(exchange, key, queue)] = None

    def unbind(self, exchange: str, key: str, queue: str) -> None:
        self._bindings.pop((exchange, key, queue), None)

    def forget(self) -> None:
        """The node lost its memory, and its topology with it."""
        self._kinds.clear()
        self._declared.clear()
        self._bindings.clear()

    def route(self, exchange: str, key: str) -> list[QueuePlan]:
        """The queues a message goes to, each once."""
        if not exchange:
            return [self.plans[key]] if key in self._declared else []
        kind = self._kinds.get(exchange, "")
        found: dict[str, None] = {}
        for source, pattern, queue in self._bindings:
            if source == exchange and matches(kind, pattern, key):
                found[queue] = None
        return [self.plans[queue] for queue in found]


def matches(kind: str, pattern: str, key: str) -> bool:
    """Whether a binding lets a routing key through."""
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
