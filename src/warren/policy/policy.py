"""A policy: what every queue or exchange whose name matches a pattern is told, besides its own arguments.

Not here: whether a policy makes sense (`policy.validation`), which of several counts (`policy.policies`), what its
definition does (`queue.settings`, `routing`).
"""

from typing import Final, final

from warren.model.patterns import NamePattern
from warren.wire.values import Table

ALL: Final = "all"
QUEUES: Final = "queues"
EXCHANGES: Final = "exchanges"


@final
class Policy:
    """One policy or operator policy of a virtual host; its definition is in the order of its keys."""

    def __init__(
        self,
        vhost: str,
        name: str,
        pattern: str,
        apply_to: str = ALL,
        definition: Table | None = None,
        priority: int = 0,
    ) -> None:
        self.vhost: str = vhost
        self.name: str = name
        self.pattern: str = pattern
        self.apply_to: str = apply_to
        given: Table = {} if definition is None else definition
        self.definition: Table = {key: given[key] for key in sorted(given)}
        self.priority: int = priority
        self.compiled: NamePattern = NamePattern(pattern)

    def fits_queue(self, name: str) -> bool:
        return self.apply_to != EXCHANGES and self.compiled.matches(name)

    def fits_exchange(self, name: str) -> bool:
        return self.apply_to != QUEUES and self.compiled.matches(name)
