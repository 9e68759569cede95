"""What of RabbitMQ's definitions Warren cannot take, and why.

An import is taken whole or refused whole, so what would be refused is found beforehand, by the same checks that the
broker makes: they are the broker's own functions. What depends on something that is left out is left out with it.

Not here: what is there already (`migrating.plan`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from warren.access.hashing import ALGORITHMS
from warren.errors import ProtocolFault, Refused
from warren.migrating.definitions import (
    BINDINGS,
    EXCHANGES,
    PARAMETERS,
    PERMISSIONS,
    POLICIES,
    QUEUES,
    TOPIC_PERMISSIONS,
    USERS,
    Definition,
    Document,
    Key,
)
from warren.model.patterns import NamePattern
from warren.policy.validation import policy_of
from warren.queue.argument_aliases import without_aliases
from warren.queue.arguments import validate_declaration
from warren.routing.exchange import Matcher
from warren.routing.topology import PREDECLARED
from warren.routing.types import EXCHANGE_TYPES, alternate_of, matcher_for

OPERATOR_POLICY: Final = "operator_policy"
VHOST_LIMITS: Final = "vhost-limits"
BRIDGES: Final = ("shovel", "federation-upstream", "federation-upstream-set")
"""Components whose parameters set messages in motion as soon as they are there."""


@dataclass(frozen=True)
class LeftOut:
    """A definition that does not come along, and why."""

    definition: Definition
    reason: str


class Judge:
    """Goes through definitions in the order in which one builds on another."""

    def __init__(self) -> None:
        self.left_out: list[LeftOut] = []
        self._gone: dict[Key, str] = {}
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

    def admits(self, definition: Definition) -> bool:
        """Whether Warren can take it; if not, it is among `left_out`."""
        check = self._checks.get(definition.kind.section)
        reason = check(definition.value) if check is not None else ""
        if reason:
            self._gone[definition.key] = reason
            self.left_out.append(LeftOut(definition, reason))
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
    except Refused as refusal:
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
