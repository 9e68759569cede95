"""The last changes of a replica set, as one of its members saw them.

Every member keeps its own history. It sees each version of the replica set, so any remaining member knows what became
of the others.

Not here: the log, which has the same events on the node that caused them (`broker.replication.local_replica`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.replica_set import ReplicaSet

EVENTS_KEPT: Final = 20

PROMOTED: Final = "mirror.promoted"
IN_SYNC: Final = "mirror.in_sync"
DROPPED: Final = "mirror.dropped"
ADDED: Final = "mirror.added"
REMOVED: Final = "mirror.removed"

EventFacts = dict[str, object]


@final
class ReplicaEvent:
    """One event, with the node that it is about and other facts."""

    def __init__(self, at_ms: i64, name: str, facts: EventFacts) -> None:
        self.at_ms: i64 = at_ms
        self.name: str = name
        self.facts: EventFacts = facts


@final
class ReplicaHistory:
    """The last events, the latest last."""

    def __init__(self) -> None:
        self.events: list[ReplicaEvent] = []

    def add(self, at_ms: i64, name: str, facts: EventFacts) -> None:
        self.events.append(ReplicaEvent(at_ms, name, facts))
        del self.events[:-EVENTS_KEPT]


def changes_between(before: ReplicaSet, after: ReplicaSet) -> list[tuple[str, EventFacts]]:
    """The differences of a later version, in the order in which they are reported."""
    found: list[tuple[str, EventFacts]] = []
    if after.epoch != before.epoch:
        found.append((PROMOTED, {"node": after.master, "epoch": after.epoch}))
    changes = [
        (ADDED, _new(after.members, before.members)),
        (IN_SYNC, _new(after.synced_names(), before.synced_names())),
        (DROPPED, _new(before.synced_names(), after.synced_names())),
        (REMOVED, _new(before.members, after.members)),
    ]
    for name, nodes in changes:
        found += [(name, {"node": node, "epoch": after.epoch}) for node in nodes]
    return found


def _new(names: list[str], known: list[str]) -> list[str]:
    return [name for name in names if name not in known]
