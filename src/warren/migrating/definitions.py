"""Definitions as an export has them, each known by what it is and by its name.

What two brokers call the same is compared by what both of them say of it: versions of RabbitMQ write tags in two ways,
and some add fields that others do not know.

Not here: which of them Warren can take (`migrating.judging`).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from warren.access.hashing import SHA256

Document = Mapping[str, Any]
Key = tuple[str, ...]


@dataclass(frozen=True)
class Kind:
    """One list of an export: what its entries are called, which fields name one, and which make it what it is."""

    section: str
    word: str
    named_by: tuple[str, ...]
    told_by: Mapping[str, object]
    """Each with what it is when it is not said."""


@dataclass(frozen=True)
class Definition:
    """One entry."""

    kind: Kind
    value: Document

    @property
    def key(self) -> Key:
        return (self.kind.section, *(_word(self.value.get(field, "")) for field in self.kind.named_by))

    @property
    def vhost(self) -> str:
        """The virtual host it is in, or is; empty for what is in none."""
        return str(self.value.get("name" if self.kind is VHOSTS else "vhost", ""))

    @property
    def name(self) -> str:
        return str(self.value.get("name", ""))

    def __str__(self) -> str:
        return _SHOWN.get(self.kind.section, _shown)(self)

    def facts(self) -> dict[str, object]:
        return {field: _plain(field, self.value.get(field, usual)) for field, usual in self.kind.told_by.items()}


USERS: Final = Kind(
    "users", "user", ("name",), {"password_hash": "", "hashing_algorithm": SHA256, "tags": (), "limits": {}}
)
VHOSTS: Final = Kind("vhosts", "virtual host", ("name",), {})
PERMISSIONS: Final = Kind("permissions", "permissions", ("user", "vhost"), {"configure": "", "write": "", "read": ""})
TOPIC_PERMISSIONS: Final = Kind(
    "topic_permissions", "topic permissions", ("user", "vhost", "exchange"), {"write": "", "read": ""}
)
PARAMETERS: Final = Kind("parameters", "parameter", ("vhost", "component", "name"), {"value": None})
GLOBAL_PARAMETERS: Final = Kind("global_parameters", "global parameter", ("name",), {"value": None})
POLICIES: Final = Kind(
    "policies", "policy", ("vhost", "name"), {"pattern": "", "apply-to": "all", "definition": {}, "priority": 0}
)
EXCHANGES: Final = Kind(
    "exchanges",
    "exchange",
    ("vhost", "name"),
    {"type": "direct", "durable": True, "auto_delete": False, "internal": False, "arguments": {}},
)
QUEUES: Final = Kind("queues", "queue", ("vhost", "name"), {"durable": True, "auto_delete": False, "arguments": {}})
BINDINGS: Final = Kind(
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
"""In the order in which one builds on another."""


def definitions_of(export: Document, vhosts: Iterable[str] = ()) -> list[Definition]:
    """Every definition of an export; with virtual hosts named, only what is in them, and who may use them."""
    found = [Definition(kind, value) for kind in KINDS for value in export.get(kind.section, ())]
    wanted = frozenset(vhosts)
    return [each for each in found if not wanted or not each.vhost or each.vhost in wanted]


def by_key(definitions: Iterable[Definition]) -> dict[Key, Definition]:
    return {definition.key: definition for definition in definitions}


def exported(definitions: Iterable[Definition]) -> dict[str, list[Document]]:
    """The definitions as a document that a broker imports."""
    document: dict[str, list[Document]] = {}
    for definition in definitions:
        document.setdefault(definition.kind.section, []).append(definition.value)
    return document


def differing_fields(one: Definition, other: Definition) -> list[str]:
    """What two definitions of the same name say differently."""
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


def _shown(definition: Definition) -> str:
    place = f" in '{definition.vhost}'" if definition.vhost and definition.kind is not VHOSTS else ""
    return f"{definition.kind.word} '{definition.name}'{place}"


def _shown_permission(definition: Definition) -> str:
    value = definition.value
    about = f" on '{value.get('exchange', '')}'" if definition.kind is TOPIC_PERMISSIONS else ""
    return f"{definition.kind.word} of '{value.get('user', '')}'{about} in '{definition.vhost}'"


def _shown_parameter(definition: Definition) -> str:
    return f"{definition.value.get('component', '')} '{definition.name}' in '{definition.vhost}'"


def _shown_binding(definition: Definition) -> str:
    value = definition.value
    ends = f"'{value.get('source', '')}' to {value.get('destination_type', '')} '{value.get('destination', '')}'"
    return f"binding from exchange {ends} by '{value.get('routing_key', '')}' in '{definition.vhost}'"


_SHOWN: Final[dict[str, Callable[[Definition], str]]] = {
    "permissions": _shown_permission,
    "topic_permissions": _shown_permission,
    "parameters": _shown_parameter,
    "bindings": _shown_binding,
}
