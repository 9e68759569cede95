"""Definitions of an export, and which of them Warren cannot import.

Definitions of the same name are compared by the fields that both brokers have: versions of RabbitMQ write tags in two
ways, and some add fields.

An import succeeds or fails as a whole, so definitions that the broker would refuse are found beforehand, with the
broker's own checks. A definition that depends on one that is left out is left out too.

Not here: what Warren has already (`cli.migrate.plan`).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from warren.broker.access.passwords import ALGORITHMS, SHA256
from warren.broker.model.name_pattern import NamePattern
from warren.broker.policies.validation import policy_of
from warren.broker.queues.arguments import validate_declaration, without_aliases
from warren.broker.routing.exchange_types import EXCHANGE_TYPES, alternate_of, matcher_for
from warren.broker.routing.exchanges import Matcher
from warren.broker.routing.topology import PREDECLARED
from warren.errors import CommandRefused, ProtocolFault

Document = Mapping[str, Any]
DefinitionKey = tuple[str, ...]


@dataclass(frozen=True)
class DefinitionKind:
    """One list of an export: the word for its entries, the fields that name one, and those that define it."""

    section: str
    word: str
    named_by: tuple[str, ...]
    shown_by: Mapping[str, object]
    """The defining fields, each with its default."""


@dataclass(frozen=True)
class ExportedDefinition:
    """One entry."""

    kind: DefinitionKind
    value: Document

    @property
    def key(self) -> DefinitionKey:
        return (self.kind.section, *(_word(self.value.get(field, "")) for field in self.kind.named_by))

    @property
    def vhost(self) -> str:
        """Its virtual host, or its name if it is one; empty for others."""
        return str(self.value.get("name" if self.kind is VHOSTS else "vhost", ""))

    @property
    def name(self) -> str:
        return str(self.value.get("name", ""))

    def __str__(self) -> str:
        return _SHOWN.get(self.kind.section, _shown)(self)

    def facts(self) -> dict[str, object]:
        return {field: _plain(field, self.value.get(field, usual)) for field, usual in self.kind.shown_by.items()}


USERS: Final = DefinitionKind(
    "users", "user", ("name",), {"password_hash": "", "hashing_algorithm": SHA256, "tags": (), "limits": {}}
)
VHOSTS: Final = DefinitionKind("vhosts", "virtual host", ("name",), {})
PERMISSIONS: Final = DefinitionKind(
    "permissions", "permissions", ("user", "vhost"), {"configure": "", "write": "", "read": ""}
)
TOPIC_PERMISSIONS: Final = DefinitionKind(
    "topic_permissions", "topic permissions", ("user", "vhost", "exchange"), {"write": "", "read": ""}
)
PARAMETERS: Final = DefinitionKind("parameters", "parameter", ("vhost", "component", "name"), {"value": None})
GLOBAL_PARAMETERS: Final = DefinitionKind("global_parameters", "global parameter", ("name",), {"value": None})
POLICIES: Final = DefinitionKind(
    "policies", "policy", ("vhost", "name"), {"pattern": "", "apply-to": "all", "definition": {}, "priority": 0}
)
EXCHANGES: Final = DefinitionKind(
    "exchanges",
    "exchange",
    ("vhost", "name"),
    {"type": "direct", "durable": True, "auto_delete": False, "internal": False, "arguments": {}},
)
QUEUES: Final = DefinitionKind(
    "queues", "queue", ("vhost", "name"), {"durable": True, "auto_delete": False, "arguments": {}}
)
BINDINGS: Final = DefinitionKind(
    "bindings", "binding", ("vhost", "source", "destination_type", "destination", "routing_key", "arguments"), {}
)
KINDS: Final = (
    USERS,
    VHOSTS,
    PERMISSIONS,
    TOPIC_PERMISSIONS,
    PARAMETERS,
    GLOBAL_PARAMETERS,
    POLICIES,
    EXCHANGES,
    QUEUES,
    BINDINGS,
)
"""In the order in which they depend on each other."""


def definitions_of(export: Document, vhosts: Iterable[str] = ()) -> list[ExportedDefinition]:
    """Every definition of an export; with virtual hosts given, only theirs and their users."""
    found = [ExportedDefinition(kind, value) for kind in KINDS for value in export.get(kind.section, ())]
    wanted = frozenset(vhosts)
    return [each for each in found if not wanted or not each.vhost or each.vhost in wanted]


def by_key(definitions: Iterable[ExportedDefinition]) -> dict[DefinitionKey, ExportedDefinition]:
    return {definition.key: definition for definition in definitions}


def exported(definitions: Iterable[ExportedDefinition]) -> dict[str, list[Document]]:
    """The definitions as a document that a broker imports."""
    document: dict[str, list[Document]] = {}
    for definition in definitions:
        document.setdefault(definition.kind.section, []).append(definition.value)
    return document


def differing_fields(one: ExportedDefinition, other: ExportedDefinition) -> list[str]:
    """The fields in which two definitions of the same name differ."""
    facts, others = one.facts(), other.facts()
    return [field for field in facts if facts[field] != others[field]]


def _plain(field: str, value: object) -> object:
    if field == "tags":
        return sorted(value.replace(",", " ").split() if isinstance(value, str) else _texts(value))
    if field in ("limits", "arguments", "definition") and not value:
        return {}
    return value


def _texts(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, (list, tuple)) else []


def _word(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={value[name]!r}" for name in sorted(value))
    return str(value)


def _shown(definition: ExportedDefinition) -> str:
    place = f" in '{definition.vhost}'" if definition.vhost and definition.kind is not VHOSTS else ""
    return f"{definition.kind.word} '{definition.name}'{place}"


def _shown_permission(definition: ExportedDefinition) -> str:
    value = definition.value
    about = f" on '{value.get('exchange', '')}'" if definition.kind is TOPIC_PERMISSIONS else ""
    return f"{definition.kind.word} of '{value.get('user', '')}'{about} in '{definition.vhost}'"


def _shown_parameter(definition: ExportedDefinition) -> str:
    return f"{definition.value.get('component', '')} '{definition.name}' in '{definition.vhost}'"


def _shown_binding(definition: ExportedDefinition) -> str:
    value = definition.value
    ends = f"'{value.get('source', '')}' to {value.get('destination_type', '')} '{value.get('destination', '')}'"
    return f"binding from exchange {ends} by '{value.get('routing_key', '')}' in '{definition.vhost}'"


_SHOWN: Final[dict[str, Callable[[ExportedDefinition], str]]] = {
    "permissions": _shown_permission,
    "topic_permissions": _shown_permission,
    "parameters": _shown_parameter,
    "bindings": _shown_binding,
}


OPERATOR_POLICY: Final = "operator_policy"
VHOST_LIMITS: Final = "vhost-limits"
BRIDGES: Final = ("shovel", "federation-upstream", "federation-upstream-set")
"""Components whose parameters start moving messages at once."""


@dataclass(frozen=True)
class UnsupportedDefinition:
    """A definition that is left out, and why."""

    definition: ExportedDefinition
    reason: str


class CompatibilityCheck:
    """Checks definitions in the order in which they depend on each other."""

    def __init__(self) -> None:
        self.left_out: list[UnsupportedDefinition] = []
        self._gone: dict[DefinitionKey, str] = {}
        self._matchers: dict[tuple[str, str], Matcher] = {}
        self._checks: Mapping[str, Callable[[Document], str]] = {
            USERS.section: _user_refusal,
            PERMISSIONS.section: self._permission_refusal,
            TOPIC_PERMISSIONS.section: self._permission_refusal,
            PARAMETERS.section: _parameter_refusal,
            POLICIES.section: _policy_refusal,
            EXCHANGES.section: self._exchange_refusal,
            QUEUES.section: _queue_refusal,
            BINDINGS.section: self._binding_refusal,
        }

    def admits(self, definition: ExportedDefinition) -> bool:
        """Whether Warren can import it; if not, it is added to `left_out`."""
        check = self._checks.get(definition.kind.section)
        reason = check(definition.value) if check is not None else ""
        if reason:
            self._gone[definition.key] = reason
            self.left_out.append(UnsupportedDefinition(definition, reason))
        return not reason

    def _permission_refusal(self, value: Document) -> str:
        if (USERS.section, value.get("user", "")) in self._gone:
            return f"user '{value.get('user', '')}' is left out"
        for field in ("configure", "write", "read"):
            pattern = NamePattern(str(value.get(field, "")))
            if pattern.fault:
                return f"'{pattern.text}' is no regular expression that Warren knows: {pattern.fault}"
        return ""

    def _exchange_refusal(self, value: Document) -> str:
        type_name, arguments = str(value.get("type", "")), _arguments(value)
        if type_name not in EXCHANGE_TYPES:
            return f"Warren has no exchanges of type {type_name}"
        vhost, name = str(value.get("vhost", "")), str(value.get("name", ""))
        try:
            alternate_of(vhost, name, arguments)
            self._matchers[vhost, name] = matcher_for(type_name, arguments)
        except ProtocolFault as fault:
            return fault.text
        return ""

    def _binding_refusal(self, value: Document) -> str:
        vhost, source = str(value.get("vhost", "")), str(value.get("source", ""))
        destination = str(value.get("destination", ""))
        kind = QUEUES if value.get("destination_type") == "queue" else EXCHANGES
        if (EXCHANGES.section, vhost, source) in self._gone:
            return f"exchange '{source}' is left out"
        if (kind.section, vhost, destination) in self._gone:
            return f"{kind.word} '{destination}' is left out"
        matcher = self._matchers.get((vhost, source)) or _predeclared(source)
        try:
            if matcher is not None:
                matcher.check(str(value.get("routing_key", "")), _arguments(value))
        except ProtocolFault as fault:
            return fault.text
        return ""


def _user_refusal(value: Document) -> str:
    algorithm = value.get("hashing_algorithm") or ALGORITHMS[0]
    if algorithm in ALGORITHMS:
        return ""
    return f"its password is kept by {algorithm}, which Warren does not know; make it with 'warren ctl add_user'"


def _parameter_refusal(value: Document) -> str:
    component = value.get("component")
    if component == OPERATOR_POLICY:
        inner = value.get("value")
        return _policy_refusal({**value, **(inner if isinstance(inner, Mapping) else {})}, operator=True)
    if component == VHOST_LIMITS or component in BRIDGES:
        return ""
    return f"Warren has no component {component}"


def _policy_refusal(value: Document, operator: bool = False) -> str:
    vhost, name = str(value.get("vhost", "")), str(value.get("name", ""))
    apply_to, definition = value.get("apply-to", "all"), value.get("definition")
    try:
        policy_of(vhost, name, value.get("pattern"), apply_to, definition, value.get("priority", 0), operator)
    except CommandRefused as refusal:
        return "; ".join(refusal.reason.removeprefix("Validation failed").split("\n")).strip("; ")
    return ""


def _queue_refusal(value: Document) -> str:
    vhost, name = str(value.get("vhost", "")), str(value.get("name", ""))
    try:
        arguments = without_aliases(name, vhost, _arguments(value))
        validate_declaration(
            name, vhost, bool(value.get("durable", True)), False, bool(value.get("auto_delete")), arguments
        )
    except ProtocolFault as fault:
        return fault.text
    return ""


def _predeclared(name: str) -> Matcher | None:
    return next((matcher_for(type_name, {}) for each, type_name, _ in PREDECLARED if each == name), None)


def _arguments(value: Document) -> dict[str, Any]:
    given = value.get("arguments")
    return dict(given) if isinstance(given, Mapping) else {}
