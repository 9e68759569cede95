"""A metadata transaction as proposals to the shared store: one, or several parts if it is too large.

::

    transaction ──► part ──► part ──► ... ──► part
                    each: conditions as of the time of proposing, and changes

A store limits the size of a transaction. And of new queues and exchanges with the same id slot only one may be created
in a transaction (`broker.metadata.store`).

Each part leaves a consistent state: creations come first, an object after those it belongs to; then deletions, the
other way round. A transaction in parts may take effect in part, if its node or the store is lost, or another
transaction comes between; in the last case the rest is proposed again. `MetadataTransaction.made` counts the changes
that took effect.

Every part that creates a binding touches both ends of it, also ends that an earlier part created. Otherwise a queue
could be deleted between two parts, or after both, by a transaction that knows only the first part's bindings, and leave
the others behind.

Conditions are the revisions that this node knew when the transaction was submitted. Only keys that a part itself
changed or touched have the revision of that part from then on.

Not here: sending parts and their outcomes (`broker.metadata.shared_backend`).
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
from warren.broker.metadata.transaction import MetadataTransaction, ProposedChange
from warren.broker.model.effects import ProposeTransaction

CHANGES_MAX: Final = 60
"""The most changes of one part. Some stores take 128 conditions and as many changes."""

VALUE_BYTES_MAX: Final = 1024 * 1024
"""The most bytes of a part with several changes. Some stores take requests of 1.5 MiB."""

STANDING_MAX: Final = 60
"""The most conditions that are repeated in each part."""

NO_SLOT: Final = -1


@final
class ProposalPart:
    """One transaction of the store."""

    def __init__(self) -> None:
        self.conditions: list[str] = []
        self.changes: list[ProposedChange] = []
        self.touched: list[str] = []
        # containers of its objects that an earlier part created
        self.belongs_to: list[str] = []
        # the id slots of the objects it creates
        self.slots: set[int] = set()
        self.value_bytes: int = 0

    def has_room(self, slot: int, beside: int = 0, value_bytes: int = 0) -> bool:
        size = len(self.changes) + len(self.touched) + len(self.belongs_to) + beside
        if self.changes and self.value_bytes + value_bytes > VALUE_BYTES_MAX:
            return False
        return size < CHANGES_MAX and slot not in self.slots

    def makes(self, key: str) -> bool:
        return any(change.key == key for change in self.changes)


@final
class Proposal:
    """A transaction that is proposed part by part."""

    def __init__(self, transaction: MetadataTransaction, known: SharedDefinitions) -> None:
        self._bases: dict[str, int] = {key: known.modified(key) for key in transaction.relied_on}
        self._prefixes: list[str] = list(transaction.relied_on_under)
        self._since: int = known.applied
        self._transaction: MetadataTransaction = transaction
        self._parts: list[ProposalPart] = _parts_of(transaction, self._bases)
        self._at: int = 0

    def order(self, ticket: int) -> ProposeTransaction:
        """The effect that proposes the next part."""
        part = self._parts[self._at]
        return ProposeTransaction(
            ticket,
            [(key, self._bases[key]) for key in part.conditions],
            [(change.key, _value_of(change)) for change in part.changes],
            part.touched,
            [(prefix, self._since) for prefix in self._prefixes],
        )

    def done(self, revision: int) -> bool:
        """The part took effect with this revision; whether it was the last one."""
        part = self._parts[self._at]
        for change in part.changes:
            self._bases[change.key] = 0 if change.definition is None else revision
        for key in part.touched:
            self._bases[key] = revision
        self._transaction.made += len(part.changes)
        # up to here nothing else has changed under the prefixes
        self._since = max(self._since, revision)
        self._at += 1
        return self._at == len(self._parts)

    def disproved(self, known: SharedDefinitions) -> bool:
        """Whether this node knows by now that a condition of the part does not hold."""
        part = self._parts[self._at]
        for key in part.conditions:
            modified = known.modified(key)
            base = self._bases[key]
            # this node may not have applied an earlier part yet
            if modified > base or (modified < base and known.applied >= base):
                return True
        return any(known.changed_under(prefix, self._since) for prefix in self._prefixes)


def _value_of(change: ProposedChange) -> bytes | None:
    return None if change.definition is None else change.definition.value()


def _parts_of(transaction: MetadataTransaction, bases: dict[str, int]) -> list[ProposalPart]:
    # a missing key cannot be touched; that it stays missing is still a condition
    touched = [key for key in transaction.touched if bases[key]]
    changes = list(transaction.changes.values())
    standing = [key for key in transaction.relied_on if key not in transaction.changes]
    if _fits(changes, touched, standing, bases):
        whole = ProposalPart()
        whole.changes = changes
        whole.touched = touched
        whole.conditions = list(transaction.relied_on)
        return [whole]
    parts = _filled(_in_sound_order(changes), touched, bases)
    always = standing[:STANDING_MAX]
    for part in parts:
        late = [key for key in part.touched + part.belongs_to if key not in always]
        part.conditions = always + late + [change.key for change in part.changes]
    return _checks(standing[STANDING_MAX:]) + parts


def _fits(changes: list[ProposedChange], touched: list[str], standing: list[str], bases: dict[str, int]) -> bool:
    slots = [slot for slot in [_slot_of(change, bases) for change in changes] if slot != NO_SLOT]
    if len(changes) + len(touched) > CHANGES_MAX or len(standing) > STANDING_MAX or len(set(slots)) < len(slots):
        return False
    return len(changes) == 1 or sum([_value_bytes(change) for change in changes]) <= VALUE_BYTES_MAX


def _value_bytes(change: ProposedChange) -> int:
    value = _value_of(change)
    return 0 if value is None else len(value)


def _slot_of(change: ProposedChange, bases: dict[str, int]) -> int:
    """The id slot of an object that has an id; else `NO_SLOT`."""
    makes = change.definition is not None and bases[change.key] == 0
    return id_slot(change.key) if makes and definition_kind(change.key) in (QUEUES, EXCHANGES) else NO_SLOT


def _in_sound_order(changes: list[ProposedChange]) -> list[ProposedChange]:
    """Creations in the order of their kinds, then deletions the other way round; otherwise as proposed."""
    made = [(definition_rank(change.key), at) for at, change in enumerate(changes) if change.definition is not None]
    gone = [(-definition_rank(change.key), at) for at, change in enumerate(changes) if change.definition is None]
    return [changes[at] for _rank, at in sorted(made) + sorted(gone)]


def _filled(changes: list[ProposedChange], touched: list[str], bases: dict[str, int]) -> list[ProposalPart]:
    parts = [ProposalPart()]
    for key in touched:
        if not parts[-1].has_room(NO_SLOT):
            parts.append(ProposalPart())
        parts[-1].touched.append(key)
    made: dict[str, None] = {}
    for change in changes:
        slot = _slot_of(change, bases)
        ends = [key for key in _ends_of(change) if bases.get(key, 0) or key in made]
        containers = [key for key in _containers_of(change) if key in made]
        value_bytes = _value_bytes(change)
        if not parts[-1].has_room(slot, len(ends) + len(containers), value_bytes):
            parts.append(ProposalPart())
        part = parts[-1]
        part.value_bytes += value_bytes
        part.touched += [key for key in ends if key not in part.touched and not part.makes(key)]
        part.belongs_to += [key for key in containers if key not in part.belongs_to and not part.makes(key)]
        part.changes.append(change)
        if slot != NO_SLOT:
            part.slots.add(slot)
        if change.definition is not None:
            made[change.key] = None
    return parts


def _ends_of(change: ProposedChange) -> list[str]:
    """The keys of the ends of a new binding."""
    new = change.definition
    if not isinstance(new, BindingDefinition):
        return []
    to_queue = new.destination_is_queue
    destination = queue_key(new.vhost, new.destination) if to_queue else exchange_key(new.vhost, new.destination)
    return list(dict.fromkeys([exchange_key(new.vhost, new.source), destination]))


def _containers_of(change: ProposedChange) -> list[str]:
    """The key of the virtual host of a new object."""
    new = change.definition
    if isinstance(new, QueueDefinition | ExchangeDefinition | BindingDefinition):
        return [vhost_key(new.vhost)]
    return []


def _checks(conditions: list[str]) -> list[ProposalPart]:
    """Parts without changes: conditions that do not fit into every part are checked once, first."""
    parts: list[ProposalPart] = []
    for start in range(0, len(conditions), CHANGES_MAX):
        part = ProposalPart()
        part.conditions = conditions[start : start + CHANGES_MAX]
        parts.append(part)
    return parts
