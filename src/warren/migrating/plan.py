"""What a move comes to: RabbitMQ's definitions held against Warren's, and the queues whose contents are carried.

Invariants: nothing that Warren has is replaced. A definition that Warren has otherwise is in the way, and the whole
move is off until somebody decides; with `keep` Warren's stays. A plan made again after it was carried out brings
nothing.

Not here: what the operator is told of it (`migrating.wording`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from warren.migrating.definitions import (
    GLOBAL_PARAMETERS,
    PARAMETERS,
    PERMISSIONS,
    QUEUES,
    USERS,
    VHOSTS,
    Definition,
    Document,
    Key,
    by_key,
    definitions_of,
    differing_fields,
    exported,
)
from warren.migrating.judging import BRIDGES, Judge, LeftOut
from warren.migrating.permitting import Lack, lacking_at_rabbitmq, lacking_at_warren
from warren.migrating.queues import FoundQueue, QueueName, Staying, parted
from warren.queue.argument_aliases import without_aliases

GUEST: Final = "guest"
"""The user that both brokers begin with, each with a password hash of its own."""

OF_THE_CLUSTER: Final = ("cluster_name", "internal_cluster_id")
"""Global parameters by which a cluster knows itself."""


@dataclass(frozen=True)
class Difference:
    """A definition that Warren has otherwise."""

    definition: Definition
    fields: list[str]


@dataclass(frozen=True)
class Wishes:
    """What the operator wants of a move."""

    vhosts: tuple[str, ...] = ()
    keep: bool = False
    bridges: bool = False
    mover: str = ""
    """The user of Warren who moves, and whose shovels will enter the virtual hosts."""

    carrier: str = ""
    """The user of RabbitMQ as whom shovels consume there."""


@dataclass
class Plan:
    brought: list[Definition] = field(default_factory=list)
    bridges: list[Definition] = field(default_factory=list)
    """Shovels and upstreams that are brought, each on its own, after everything else."""

    held_back: list[Definition] = field(default_factory=list)
    same: list[Definition] = field(default_factory=list)
    kept: list[Difference] = field(default_factory=list)
    in_the_way: list[Difference] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    carried: list[FoundQueue] = field(default_factory=list)
    staying: list[Staying] = field(default_factory=list)
    closed_vhosts: list[str] = field(default_factory=list)
    """Virtual hosts that Warren has and that the mover may not enter."""

    lacking_at_rabbitmq: list[Lack] = field(default_factory=list)
    lacking_at_warren: list[Lack] = field(default_factory=list)
    unknown_vhosts: list[str] = field(default_factory=list)
    """Virtual hosts that were asked for and that RabbitMQ does not have."""

    def document(self) -> dict[str, list[Document]]:
        """What Warren is to import."""
        return exported(self.brought)

    @property
    def away(self) -> list[FoundQueue]:
        """Queues whose contents are to be carried, and that RabbitMQ itself does not reach."""
        return [found for found in self.carried if found.is_away]

    @property
    def messages(self) -> int:
        return sum(found.messages for found in self.carried)


def plan_move(
    source: Document, destination: Document, queues: Iterable[FoundQueue], wishes: Wishes | None = None
) -> Plan:
    """`source` and `destination` are exports, `queues` what RabbitMQ has."""
    wishes = wishes or Wishes()
    judge = Judge()
    plan = Plan(left_out=judge.left_out)
    there = by_key(definitions_of(destination))
    definitions = definitions_of(source, wishes.vhosts)
    vhosts = {each.name for each in definitions if each.kind is VHOSTS}
    plan.unknown_vhosts = [name for name in wishes.vhosts if name not in vhosts]
    for definition in definitions:
        if not _is_of_the_cluster(definition) and judge.admits(definition):
            _place(plan, _renamed(definition), there.get(definition.key), wishes)
    if wishes.mover:
        _let_in(plan, wishes.mover, vhosts, there)
    not_there = {
        QueueName(each.definition.vhost, each.definition.name): "the queue itself is left out"
        for each in plan.left_out
        if each.definition.kind is QUEUES
    }
    inside = [found for found in queues if found.queue.vhost in vhosts]
    plan.carried, plan.staying = parted(inside, not_there)
    plan.lacking_at_rabbitmq = lacking_at_rabbitmq(plan.carried, definitions, wishes.carrier)
    plan.lacking_at_warren = lacking_at_warren(plan.carried, [*plan.brought, *there.values()], wishes.mover)
    return plan


def _let_in(plan: Plan, mover: str, vhosts: set[str], there: dict[Key, Definition]) -> None:
    """Who makes a virtual host may enter it, as RabbitMQ has it; others are asked to let the mover in."""
    permitted = {each.key for each in plan.brought} | set(there)
    for vhost in sorted(vhosts):
        own = Definition(PERMISSIONS, {"user": mover, "vhost": vhost, "configure": ".*", "write": ".*", "read": ".*"})
        if own.key in permitted:
            continue
        if (VHOSTS.section, vhost) in there:
            plan.closed_vhosts.append(vhost)
        else:
            plan.brought.append(own)


def _place(plan: Plan, definition: Definition, found: Definition | None, wishes: Wishes) -> None:
    if found is None:
        if not _is_bridge(definition):
            plan.brought.append(definition)
        elif wishes.bridges:
            plan.bridges.append(definition)
        else:
            plan.held_back.append(definition)
        return
    fields = differing_fields(definition, found)
    if not fields:
        plan.same.append(definition)
    elif wishes.keep or _is_guest(definition):
        plan.kept.append(Difference(definition, fields))
    else:
        plan.in_the_way.append(Difference(definition, fields))


def _renamed(definition: Definition) -> Definition:
    """A queue as Warren will have written it down, so that it is known again."""
    if definition.kind is not QUEUES:
        return definition
    arguments = without_aliases(definition.name, definition.vhost, dict(definition.value.get("arguments") or {}))
    return Definition(definition.kind, {**definition.value, "arguments": arguments})


def _is_bridge(definition: Definition) -> bool:
    return definition.kind is PARAMETERS and definition.value.get("component") in BRIDGES


def _is_of_the_cluster(definition: Definition) -> bool:
    return definition.kind is GLOBAL_PARAMETERS and definition.name in OF_THE_CLUSTER


def _is_guest(definition: Definition) -> bool:
    return definition.kind is USERS and definition.name == GUEST
