"""The plan of a move: which definitions are imported, which conflict, which queues are transferred, and its text.

Invariants: nothing at Warren is replaced. A definition that differs at Warren is a conflict and stops the whole move;
with `keep`, Warren's stays. A plan that is made again after the import imports nothing.

*Permissions.* At RabbitMQ the shovel of a queue consumes it. At Warren the user who moves declares an exchange and
binds the queue to it (`cli.migrate.brokers`); the shovel itself needs no permissions there. Users without any
permission in a virtual host are not judged here: their login fails, or another backend of RabbitMQ knows them.

Not here: what permissions mean (`broker.access.users`), progress during the transfer (`cli.migrate.transfer`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from warren.broker.access.rights import DEFAULT_EXCHANGE
from warren.broker.access.users import Permission
from warren.broker.queues.arguments import without_aliases
from warren.cli.migrate.definitions import (
    BRIDGES,
    GLOBAL_PARAMETERS,
    KINDS,
    PARAMETERS,
    PERMISSIONS,
    QUEUES,
    USERS,
    VHOSTS,
    CompatibilityCheck,
    DefinitionKey,
    Document,
    ExportedDefinition,
    UnsupportedDefinition,
    by_key,
    definitions_of,
    differing_fields,
    exported,
)
from warren.cli.migrate.queues import FoundQueue, QueueName, UnmovedQueue, exchange_name, split_queues

EVERYTHING: Final = ".*"


@dataclass(frozen=True)
class MissingPermission:
    """A queue that a user cannot move, and the missing permission."""

    queue: QueueName
    user: str
    forbidden: str
    wanted: tuple[str, str, str]
    """Permissions that would suffice: configure, write and read."""


def missing_at_rabbitmq(
    queues: Iterable[FoundQueue], definitions: Iterable[ExportedDefinition], user: str
) -> list[MissingPermission]:
    """Queues that the shovels' user may not read."""
    held = _permissions(definitions, user)
    lacks = []
    for queue in _names(queues):
        own = held.get(queue.vhost)
        # a pattern that only RabbitMQ understands proves nothing
        if own is not None and not own.reads.pattern.fault and not own.reads.matches(queue.name):
            lacks.append(MissingPermission(queue, user, f"read queue {queue}", (own.configure, own.write, EVERYTHING)))
    return lacks


def missing_at_warren(
    queues: Iterable[FoundQueue], definitions: Iterable[ExportedDefinition], user: str
) -> list[MissingPermission]:
    """Queues that the moving user may not bind to an exchange of the move."""
    held = _permissions(definitions, user)
    wanted = (EVERYTHING, EVERYTHING, EVERYTHING)
    return [
        MissingPermission(queue, user, forbidden, wanted)
        for queue in _names(queues)
        if queue.vhost in held and (forbidden := _forbidden(queue, held[queue.vhost]))
    ]


def _forbidden(queue: QueueName, own: Permission) -> str:
    """The first missing permission; empty if none is missing."""
    road = exchange_name(queue)
    exchange = f"exchange '{road}' in '{queue.vhost}'"
    needed = (
        (own.writes.matches(queue.name), f"write to queue {queue}"),
        (own.configures.matches(road), f"configure {exchange}"),
        (own.reads.matches(road), f"read {exchange}"),
        # an exchange without an alternate exchange is declared by naming the default exchange
        (own.writes.matches(DEFAULT_EXCHANGE), f"write to exchange '{DEFAULT_EXCHANGE}' in '{queue.vhost}'"),
    )
    return next((what for allowed, what in needed if not allowed), "")


def _permissions(definitions: Iterable[ExportedDefinition], user: str) -> dict[str, Permission]:
    """By virtual host."""
    own = [each for each in definitions if each.kind is PERMISSIONS and each.value.get("user") == user]
    return {each.vhost: _permission(each, user) for each in own}


def _permission(definition: ExportedDefinition, user: str) -> Permission:
    configure, write, read = (str(definition.value.get(field, "")) for field in ("configure", "write", "read"))
    return Permission(user, definition.vhost, configure, write, read)


def _names(queues: Iterable[FoundQueue]) -> list[QueueName]:
    return [found.queue for found in queues]


GUEST: Final = "guest"
"""Both brokers start with this user, each with its own password hash."""

CLUSTER_PARAMETERS: Final = ("cluster_name", "internal_cluster_id")
"""Global parameters that identify a cluster."""


@dataclass(frozen=True)
class Difference:
    """A definition that differs at Warren."""

    definition: ExportedDefinition
    fields: list[str]


@dataclass(frozen=True)
class PlanOptions:
    """The operator's options."""

    vhosts: tuple[str, ...] = ()
    keep: bool = False
    bridges: bool = False
    mover: str = ""
    """The Warren user who moves; the shovels enter virtual hosts as this user."""

    carrier: str = ""
    """The RabbitMQ user as whom shovels consume."""


@dataclass
class MigrationPlan:
    brought: list[ExportedDefinition] = field(default_factory=list)
    bridges: list[ExportedDefinition] = field(default_factory=list)
    """Shovels and upstreams to import, one by one, after everything else."""

    held_back: list[ExportedDefinition] = field(default_factory=list)
    same: list[ExportedDefinition] = field(default_factory=list)
    kept: list[Difference] = field(default_factory=list)
    in_the_way: list[Difference] = field(default_factory=list)
    left_out: list[UnsupportedDefinition] = field(default_factory=list)
    carried: list[FoundQueue] = field(default_factory=list)
    staying: list[UnmovedQueue] = field(default_factory=list)
    closed_vhosts: list[str] = field(default_factory=list)
    """Virtual hosts at Warren that the moving user may not enter."""

    missing_at_rabbitmq: list[MissingPermission] = field(default_factory=list)
    missing_at_warren: list[MissingPermission] = field(default_factory=list)
    unknown_vhosts: list[str] = field(default_factory=list)
    """Requested virtual hosts that RabbitMQ does not have."""

    def document(self) -> dict[str, list[Document]]:
        """The definitions to import."""
        return exported(self.brought)

    @property
    def away(self) -> list[FoundQueue]:
        """Queues to transfer that RabbitMQ itself cannot reach."""
        return [found for found in self.carried if found.is_away]

    @property
    def messages(self) -> int:
        return sum(found.messages for found in self.carried)


def plan_move(
    source: Document, destination: Document, queues: Iterable[FoundQueue], plan_options: PlanOptions | None = None
) -> MigrationPlan:
    """`source` and `destination` are exports, `queues` those of RabbitMQ."""
    plan_options = plan_options or PlanOptions()
    judge = CompatibilityCheck()
    plan = MigrationPlan(left_out=judge.left_out)
    there = by_key(definitions_of(destination))
    definitions = definitions_of(source, plan_options.vhosts)
    vhosts = {each.name for each in definitions if each.kind is VHOSTS}
    plan.unknown_vhosts = [name for name in plan_options.vhosts if name not in vhosts]
    for definition in definitions:
        if not _is_of_the_cluster(definition) and judge.admits(definition):
            _place(plan, _renamed(definition), there.get(definition.key), plan_options)
    if plan_options.mover:
        _let_in(plan, plan_options.mover, vhosts, there)
    not_there = {
        QueueName(each.definition.vhost, each.definition.name): "the queue itself is left out"
        for each in plan.left_out
        if each.definition.kind is QUEUES
    }
    inside = [found for found in queues if found.queue.vhost in vhosts]
    plan.carried, plan.staying = split_queues(inside, not_there)
    plan.missing_at_rabbitmq = missing_at_rabbitmq(plan.carried, definitions, plan_options.carrier)
    plan.missing_at_warren = missing_at_warren(plan.carried, [*plan.brought, *there.values()], plan_options.mover)
    return plan


def _let_in(plan: MigrationPlan, mover: str, vhosts: set[str], there: dict[DefinitionKey, ExportedDefinition]) -> None:
    """The user who creates a virtual host may enter it, as in RabbitMQ; others need permissions."""
    permitted = {each.key for each in plan.brought} | set(there)
    for vhost in sorted(vhosts):
        own = ExportedDefinition(
            PERMISSIONS, {"user": mover, "vhost": vhost, "configure": ".*", "write": ".*", "read": ".*"}
        )
        if own.key in permitted:
            continue
        if (VHOSTS.section, vhost) in there:
            plan.closed_vhosts.append(vhost)
        else:
            plan.brought.append(own)


def _place(
    plan: MigrationPlan, definition: ExportedDefinition, found: ExportedDefinition | None, plan_options: PlanOptions
) -> None:
    if found is None:
        if not _is_bridge(definition):
            plan.brought.append(definition)
        elif plan_options.bridges:
            plan.bridges.append(definition)
        else:
            plan.held_back.append(definition)
        return
    fields = differing_fields(definition, found)
    if not fields:
        plan.same.append(definition)
    elif plan_options.keep or _is_guest(definition):
        plan.kept.append(Difference(definition, fields))
    else:
        plan.in_the_way.append(Difference(definition, fields))


def _renamed(definition: ExportedDefinition) -> ExportedDefinition:
    """A queue as Warren stores it, so that it is recognised later."""
    if definition.kind is not QUEUES:
        return definition
    arguments = without_aliases(definition.name, definition.vhost, dict(definition.value.get("arguments") or {}))
    return ExportedDefinition(definition.kind, {**definition.value, "arguments": arguments})


def _is_bridge(definition: ExportedDefinition) -> bool:
    return definition.kind is PARAMETERS and definition.value.get("component") in BRIDGES


def _is_of_the_cluster(definition: ExportedDefinition) -> bool:
    return definition.kind is GLOBAL_PARAMETERS and definition.name in CLUSTER_PARAMETERS


def _is_guest(definition: ExportedDefinition) -> bool:
    return definition.kind is USERS and definition.name == GUEST


PLURALS: Final = {"permissions": "permissions", "topic permissions": "topic permissions", "policy": "policies"}
KNOWN_PROTOCOLS: Final = ("amqp", "amqp/ssl", "http", "https", "clustering", "http/prometheus", "https/prometheus")
"""Protocols of RabbitMQ's listeners that Warren supports or replaces."""


def plan_lines(plan: MigrationPlan) -> Iterator[str]:
    """The whole plan, for a terminal."""
    yield f"definitions to import: {_counted(plan.brought) or 'none'}"
    yield f"already at Warren, identical: {_counted(plan.same) or 'none'}"
    yield from _listed("Warren's own, which are not changed", [_differing(each) for each in plan.kept])
    yield from _listed("left out", [f"{each.definition}: {each.reason}" for each in plan.left_out])
    yield from _listed("to be imported one by one", map(str, plan.bridges))
    yield from _listed(
        "left out, because they would move messages while RabbitMQ's still do (--bridges imports them)",
        map(str, plan.held_back),
    )
    yield from _listed("in conflict, because they differ at Warren", [_differing(each) for each in plan.in_the_way])
    filled = [found for found in plan.carried if found.messages]
    contents = f"{plan.messages} messages in {len(filled)} of {len(plan.carried)} queues"
    yield f"contents to move, by RabbitMQ's last statistics: {contents}"
    for found in filled:
        yield f"  queue {found.queue}: {found.messages}"
    yield from _listed(
        "queues that RabbitMQ itself cannot reach",
        [f"queue {found.queue}: {found.state}{found.node and f', at {found.node}'}" for found in plan.away],
    )
    yield from _listed(
        "contents that stay at RabbitMQ",
        [f"queue {each.found.queue}, {each.found.messages} messages: {each.reason}" for each in plan.staying],
    )
    yield from _listed("to know", notes(plan))


def notes(plan: MigrationPlan) -> Iterator[str]:
    """Definitions that change in the move or need attention."""
    for found in plan.carried:
        yield from _queue_notes(found)


def listener_notes(overview: Mapping[str, Any]) -> Iterator[str]:
    """Protocols of this RabbitMQ that Warren does not support."""
    others = sorted({str(each.get("protocol")) for each in overview.get("listeners", ())} - set(KNOWN_PROTOCOLS))
    for protocol in others:
        yield f"RabbitMQ listens for {protocol}: Warren does not; its clients cannot move"


def _queue_notes(found: FoundQueue) -> Iterator[str]:
    queue = found.queue
    if found.type == "quorum":
        yield f"queue {queue} is a quorum queue: at Warren it is held by one node unless a policy with ha-mode fits it"
    if found.unacked:
        yield f"queue {queue}: {found.unacked} messages are unacked at RabbitMQ and move when their consumers are gone"
    if found.single_active and found.consumers:
        yield f"queue {queue} has a single active consumer: nothing is moved until it has gone"
    if found.expires:
        yield f"queue {queue} expires when it is not used: its consumers must come to Warren before that"


def _differing(difference: Difference) -> str:
    return f"{difference.definition} ({', '.join(difference.fields)})"


def _listed(heading: str, lines: Iterable[str]) -> Iterator[str]:
    found = list(lines)
    if found:
        yield f"{heading}: {len(found)}"
        yield from (f"  {line}" for line in found)


def _counted(definitions: Iterable[ExportedDefinition]) -> str:
    counts = Counter(definition.kind.word for definition in definitions)
    words = [kind.word for kind in KINDS if counts[kind.word]]
    return ", ".join(f"{counts[word]} {_plural(word, counts[word])}" for word in words)


def _plural(word: str, count: int) -> str:
    return word if count == 1 else PLURALS.get(word, f"{word}s")
