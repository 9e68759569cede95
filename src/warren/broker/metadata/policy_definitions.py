"""The policies and parameters of a node as metadata.

    policies/%2F/limits                     v, pattern, apply_to, definition, priority
    operator_policies/%2F/ceiling           the same
    parameters/%2F/shovel/orders            v, value, definer; or encrypted: v, sealed
    global_parameters/cluster_name          v, value

Contents that came as JSON are stored as JSON: definitions, priorities, values.

Stores encrypt parameters. A parameter that a store cannot decrypt has the encrypted bytes as its content, in base64,
and writes the same bytes again. It is no component's parameter until it is set anew.

Not here: keys and values in general (`broker.metadata.store`), policies at work (`broker.policies`).
"""

import json
from base64 import b64decode, b64encode
from typing import Final, final

from warren.broker.metadata.store import Definition, DefinitionFields, DefinitionReader, encode_fields, key_path
from warren.errors import StoreError
from warren.wire.field_tables import Table

POLICIES: Final = "policies"
OPERATOR_POLICIES: Final = "operator_policies"
PARAMETERS: Final = "parameters"
GLOBAL_PARAMETERS: Final = "global_parameters"
SEALED: Final = "sealed"


@final
class PolicyDefinition(Definition):
    """A policy, or an operator policy."""

    def __init__(
        self,
        operator: bool,
        vhost: str,
        name: str,
        pattern: str,
        apply_to: str,
        definition: Table,
        priority: int,
    ) -> None:
        self.operator: bool = operator
        self.vhost: str = vhost
        self.name: str = name
        self.pattern: str = pattern
        self.apply_to: str = apply_to
        self.definition: Table = definition
        self.priority: int = priority

    def key(self) -> str:
        return policy_key(self.operator, self.vhost, self.name)

    def value(self) -> bytes:
        return encode_fields(
            {
                "pattern": self.pattern,
                "apply_to": self.apply_to,
                "definition": _json(self.definition),
                "priority": _json(self.priority),
            }
        )


@final
class ParameterDefinition(Definition):
    """A parameter of a component."""

    def __init__(self, vhost: str, component: str, name: str, content: object, definer: str | None = "") -> None:
        self.vhost: str = vhost
        self.component: str = component
        self.name: str = name
        self.content: object = content
        # None: of a version that did not record it
        self.definer: str | None = definer

    def key(self) -> str:
        return parameter_key(self.vhost, self.component, self.name)

    def value(self) -> bytes:
        content = self.content
        if is_sealed(content) and isinstance(content, dict):
            return encode_fields({SEALED: b64decode(content[SEALED])})
        fields: Table = {"value": _json(content)}
        if self.definer is not None:
            fields["definer"] = self.definer
        return encode_fields(fields)


@final
class GlobalParameterDefinition(Definition):
    """A parameter of the whole cluster."""

    def __init__(self, name: str, content: object) -> None:
        self.name: str = name
        self.content: object = content

    def key(self) -> str:
        return global_parameter_key(self.name)

    def value(self) -> bytes:
        return encode_fields({"value": _json(self.content)})


def policy_key(operator: bool, vhost: str, name: str) -> str:
    return key_path(OPERATOR_POLICIES if operator else POLICIES, [vhost, name])


def parameter_key(vhost: str, component: str, name: str) -> str:
    return key_path(PARAMETERS, [vhost, component, name])


def global_parameter_key(name: str) -> str:
    return key_path(GLOBAL_PARAMETERS, [name])


def is_sealed(content: object) -> bool:
    """Whether this is the content of a parameter that could not be decrypted; components accept no such content."""
    return isinstance(content, dict) and list(content) == [SEALED]


def _read_policy(parts: list[str], fields: DefinitionFields) -> Definition | None:
    if len(parts) != 3:
        return None
    definition = _content(parts, fields, "definition")
    priority = _content(parts, fields, "priority")
    if not isinstance(definition, dict) or not isinstance(priority, int):
        raise _damage(parts)
    return PolicyDefinition(
        parts[0] == OPERATOR_POLICIES,
        parts[1],
        parts[2],
        fields.text("pattern"),
        fields.text("apply_to"),
        definition,
        priority,
    )


def _read_parameter(parts: list[str], fields: DefinitionFields) -> Definition | None:
    if len(parts) != 4:
        return None
    if fields.has(SEALED):
        content = {SEALED: b64encode(fields.octets(SEALED)).decode()}
        return ParameterDefinition(parts[1], parts[2], parts[3], content, None)
    definer = fields.text("definer") if fields.has("definer") else None
    return ParameterDefinition(parts[1], parts[2], parts[3], _content(parts, fields, "value"), definer)


def _read_global_parameter(parts: list[str], fields: DefinitionFields) -> Definition | None:
    if len(parts) != 2:
        return None
    return GlobalParameterDefinition(parts[1], _content(parts, fields, "value"))


POLICY_KINDS: Final[dict[str, DefinitionReader]] = {
    POLICIES: _read_policy,
    OPERATOR_POLICIES: _read_policy,
    PARAMETERS: _read_parameter,
    GLOBAL_PARAMETERS: _read_global_parameter,
}


def _json(content: object) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def _content(parts: list[str], fields: DefinitionFields, name: str) -> object:
    try:
        content: object = json.loads(fields.octets(name))
    except ValueError as fault:
        raise _damage(parts) from fault
    return content


def _damage(parts: list[str]) -> StoreError:
    return StoreError(f"the metadata's value of '{key_path(parts[0], parts[1:])}' is damaged")
