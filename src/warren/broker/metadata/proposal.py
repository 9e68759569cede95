"""A plan as the transactions that carry it out in the store that nodes share: one, or several if it is too large.

::

    plan ──► part ──► part ──► ... ──► part
             each: what must be as it was when the plan was made, what changes

A store bounds what one transaction may hold, and it must not make two things that would have the same name: of new
queues and exchanges whose keys have the same place there is one a transaction (`broker.metadata.store`).

Where a plan has to be cut, each part leaves sound what it leaves: what is made comes first, in the order in which
things belong together, then what goes, the other way round. A plan that was cut may come about in part, if its node is
lost, the store is, or another plan comes between; in the last case it is planned again from what there is then. The
plan counts what has come about of it.

A binding's ends are touched by every part that makes one of their bindings, whether they were there or an earlier part
made them. Else a queue could go between two parts, or after both, by a plan that knows of the first one's bindings
only, and leave those of the second behind.

What a plan relies on is taken down when it is handed in, by the revisions this node knows then, whatever it learns
while parts are under way; only what a part has changed or touched itself counts from there on as it left it.

Not here: sending the parts and hearing of them (`broker.metadata.shared_backend`).
"""

from typing import Final, final

from warren.broker.metadata.access_definitions import vhost_key
from warren.broker.metadata.definition_kinds import definition_kind, definition_rank
from warren.broker.metadata.shared_definitions import SharedDefinitions
from warren.broker.metadata.store import id_slot
from warren.broker.metadata.topology_definitions import (
    EXCHANGES,
    QUEUES,
    BindingDefinition,
    ExchangeDefinition,
    QueueDefinition,
    exchange_key,
    queue_key,
)
from warren.broker.metadata.transaction import MetadataTransaction, PlannedChange
from warren.broker.model.effects import ProposeTransaction

CHANGES_MAX: Final = 60
"""Of one part; there are stores that take 128 conditions and as many changes."""

VALUE_BYTES_MAX: Final = 1024 * 1024
"""Of one part that has several changes; there are stores that take no more than half as much again in a request."""

STANDING_MAX: Final = 60
"""Conditions that are looked at again with each part."""

NAMELESS: Final = -1


@final
class ProposalPart:
    """One transaction."""

    def __init__(self) -> None:
        self.conditions: list[str] = []
        self.changes: list[PlannedChange] = []
        self.touched: list[str] = []
        # what it makes belongs to something that an earlier part made
        self.belongs_to: list[str] = []
        # of what it makes
        self.places: set[int] = set()
        self.value_bytes: int = 0

    def has_room(self, place: int, beside: int = 0, value_bytes: int = 0) -> bool:
        size = len(self.changes) + len(self.touched) + len(self.belongs_to) + beside
        if self.changes and self.value_bytes + value_bytes > VALUE_BYTES_MAX:
            return False
        return size < CHANGES_MAX and place not in self.places

    def makes(self, key: str) -> bool:
        return any(change.key == key for change in self.changes)


@final
class Proposal:
    """A plan on its way, part by part."""

    def __init__(self, plan: MetadataTransaction, known: SharedDefinitions) -> None:
        self._bases: dict[str, int] = {key: known.modified(key) for key in plan.relied_on}
        self._prefixes: list[str] = list(plan.relied_on_under)
        self._since: int = known.applied
        self._plan: MetadataTransaction = plan
        self._parts: list[ProposalPart] = _parts_of(plan, self._bases)
        self._at: int = 0

    def order(self, ticket: int) -> ProposeTransaction:
        """The transaction of the part that is next."""
        part = self._parts[self._at]
        return ProposeTransaction(
            ticket,
            [(key, self._bases[key]) for key in part.conditions],
            [(change.key, _value_of(change)) for change in part.changes],
            part.touched,
            [(prefix, self._since) for prefix in self._prefixes],
        )

    def done(self, revision: int) -> bool:
        """The part came about with this revision; whether it was the last one."""
        part = self._parts[self._at]
        for change in part.changes:
            self._bases[change.key] = 0 if change.definition is None else revision
        for key in part.touched:
            self._bases[key] = revision
        self._plan.made += len(part.changes)
        # up to there nothing else has changed, or it would not have come about
        self._since = max(self._since, revision)
        self._at += 1
        return self._at == len(self._parts)

    def disproved(self, known: SharedDefinitions) -> bool:
        """Whether what this node knows shows by now that the part's conditions do not hold."""
        part = self._parts[self._at]
        for key in part.conditions:
            modified = known.modified(key)
            base = self._bases[key]
            # what an earlier part did may not be known here yet
            if modified > base or (modified < base and known.applied >= base):
                return True
        return any(known.changed_under(prefix, self._since) for prefix in self._prefixes)


def _value_of(change: PlannedChange) -> bytes | None:
    return None if change.definition is None else change.definition.value()


def _parts_of(plan: MetadataTransaction, bases: dict[str, int]) -> list[ProposalPart]:
    # what is not there cannot be touched; that it must not come is a condition all the same
    touched = [key for key in plan.touched if bases[key]]
    changes = list(plan.changes.values())
    standing = [key for key in plan.relied_on if key not in plan.changes]
    if _fits(changes, touched, standing, bases):
        whole = ProposalPart()
        whole.changes = changes
        whole.touched = touched
        whole.conditions = list(plan.relied_on)
        return [whole]
    parts = _filled(_in_sound_order(changes), touched, bases)
    always = standing[:STANDING_MAX]
    for part in parts:
        late = [key for key in part.touched + part.belongs_to if key not in always]
        part.conditions = always + late + [change.key for change in part.changes]
    return _checks(standing[STANDING_MAX:]) + parts


def _fits(changes: list[PlannedChange], touched: list[str], standing: list[str], bases: dict[str, int]) -> bool:
    places = [place for place in [_place_of(change, bases) for change in changes] if place != NAMELESS]
    if len(changes) + len(touched) > CHANGES_MAX or len(standing) > STANDING_MAX or len(set(places)) < len(places):
        return False
    return len(changes) == 1 or sum([_value_bytes(change) for change in changes]) <= VALUE_BYTES_MAX


def _value_bytes(change: PlannedChange) -> int:
    value = _value_of(change)
    return 0 if value is None else len(value)


def _place_of(change: PlannedChange, bases: dict[str, int]) -> int:
    """That of the name of something that is known by it."""
    makes = change.definition is not None and bases[change.key] == 0
    return id_slot(change.key) if makes and definition_kind(change.key) in (QUEUES, EXCHANGES) else NAMELESS


def _in_sound_order(changes: list[PlannedChange]) -> list[PlannedChange]:
    """As planned where that does not matter."""
    made = [
        (definition_rank(change.key), place) for place, change in enumerate(changes) if change.definition is not None
    ]
    gone = [(-definition_rank(change.key), place) for place, change in enumerate(changes) if change.definition is None]
    return [changes[place] for _rank, place in sorted(made) + sorted(gone)]


def _filled(changes: list[PlannedChange], touched: list[str], bases: dict[str, int]) -> list[ProposalPart]:
    parts = [ProposalPart()]
    for key in touched:
        if not parts[-1].has_room(NAMELESS):
            parts.append(ProposalPart())
        parts[-1].touched.append(key)
    made: dict[str, None] = {}
    for change in changes:
        place = _place_of(change, bases)
        ends = [key for key in _ends_of(change) if bases.get(key, 0) or key in made]
        containers = [key for key in _containers_of(change) if key in made]
        value_bytes = _value_bytes(change)
        if not parts[-1].has_room(place, len(ends) + len(containers), value_bytes):
            parts.append(ProposalPart())
        part = parts[-1]
        part.value_bytes += value_bytes
        part.touched += [key for key in ends if key not in part.touched and not part.makes(key)]
        part.belongs_to += [key for key in containers if key not in part.belongs_to and not part.makes(key)]
        part.changes.append(change)
        if place != NAMELESS:
            part.places.add(place)
        if change.definition is not None:
            made[change.key] = None
    return parts


def _ends_of(change: PlannedChange) -> list[str]:
    """Of a binding that is to be made."""
    new = change.definition
    if not isinstance(new, BindingDefinition):
        return []
    to_queue = new.destination_is_queue
    destination = queue_key(new.vhost, new.destination) if to_queue else exchange_key(new.vhost, new.destination)
    return list(dict.fromkeys([exchange_key(new.vhost, new.source), destination]))


def _containers_of(change: PlannedChange) -> list[str]:
    """The virtual host of what is to be made."""
    new = change.definition
    if isinstance(new, QueueDefinition | ExchangeDefinition | BindingDefinition):
        return [vhost_key(new.vhost)]
    return []


def _checks(conditions: list[str]) -> list[ProposalPart]:
    """Parts that change nothing: more conditions than can be looked at every time are looked at once, at first."""
    parts: list[ProposalPart] = []
    for start in range(0, len(conditions), CHANGES_MAX):
        part = ProposalPart()
        part.conditions = conditions[start : start + CHANGES_MAX]
        parts.append(part)
    return parts
