"""What must hold of mirrored queues: while a cluster runs, and once everything has come to rest.

*An epoch has one master.* Whoever lets clients use the queue in an epoch is the only one that ever does.

*All that hold a queue hold the same.* At rest every member of a ring is in sync, and has what the master's queue has.

*Nothing is left of what is gone.* At rest a node has a part in the rings that name it, and in no others.

Not here: messages (`sim.cluster.promises`), what holds of all queues (`sim.cluster.rules`).
"""

from typing import TYPE_CHECKING

from warren.broker.mirrors.part import Part
from warren.model.rings import Run
from warren.store.definition_kinds import decode_definition
from warren.store.topology_definitions import QueueDefinition

if TYPE_CHECKING:
    from warren.sim.cluster.member import Member
    from warren.sim.cluster.world import ClusterWorld


class RingRules:
    """Of one world."""

    def __init__(self, world: "ClusterWorld") -> None:
        self._world = world
        # who served clients: by queue and epoch
        self._masters: dict[tuple[int, int], Run] = {}

    def turned(self, member: "Member") -> None:
        """A node is as it was not before."""
        run = (member.name, member.disk.incarnation)
        for part in parts_of(member):
            part.mirror.check()
            mastery = part.mastery
            if mastery is None or mastery.queue is None:
                continue
            epoch = mastery.master.ring.epoch
            first = self._masters.setdefault((part.queue_id, epoch), run)
            if first != run:
                text = f"'{part.definition.name}' was served by {first} and by {run} in epoch {epoch}"
                self._complain("an epoch has one master", text)

    def unsettled(self) -> str:
        """Which ring is not at rest; nothing if all are."""
        for definition in self._mirrored():
            ring = definition.ring
            assert ring is not None, "it is mirrored"
            runs = sorted((name, self._world.member(name).disk.incarnation) for name in ring.members)
            if sorted(ring.in_sync) != runs:
                return f"of '{definition.name}' {runs} are members and {ring.in_sync} in sync"
            for name in ring.members:
                part = self._part(name, definition.name)
                if part is None or part.ring != ring:
                    return f"{name} does not know the ring of '{definition.name}' as it is"
                if part.copy.count() and name != ring.master:
                    return f"{name} holds {part.copy.count()} messages of '{definition.name}' that nobody took"
        return ""

    def ended(self) -> None:
        """Everything is at rest."""
        wanted = {(name, definition.name) for definition in self._mirrored() for name in _members(definition)}
        found = {(member.name, part.definition.name) for member in self._world.members for part in parts_of(member)}
        if wanted != found:
            text = f"nodes hold {sorted(found - wanted)} for nothing and lack {sorted(wanted - found)}"
            self._complain("nothing is left of what is gone", text)
        for definition in self._mirrored():
            held = {name: self._held(name, definition.name) for name in _members(definition)}
            if len({str(spans) for spans in held.values()}) > 1:
                self._complain("all that hold a queue hold the same", f"'{definition.name}': {held}")

    def _held(self, name: str, queue: str) -> list[tuple[int, int]]:
        part = self._part(name, queue)
        return [] if part is None else [(int(span.first), int(span.last)) for span in part.copy.spans()]

    def _mirrored(self) -> list[QueueDefinition]:
        found: list[QueueDefinition] = []
        for key, (_created, _modified, value) in self._world.store.snapshot()[1].items():
            if key.startswith("queues/"):
                definition = decode_definition(key, value)
                if isinstance(definition, QueueDefinition) and definition.ring is not None:
                    found.append(definition)
        return found

    def _part(self, name: str, queue: str) -> Part | None:
        clustering = self._world.member(name).broker.clustering
        return None if clustering is None or clustering.rings is None else clustering.rings.named("/", queue)

    def _complain(self, rule: str, text: str) -> None:
        self._world.checkers.complain(rule, text)


def parts_of(member: "Member") -> list[Part]:
    """A node's parts in rings."""
    clustering = member.broker.clustering if member.up else None
    return [] if clustering is None or clustering.rings is None else clustering.rings.parts()


def _members(definition: QueueDefinition) -> list[str]:
    return [] if definition.ring is None else definition.ring.members
