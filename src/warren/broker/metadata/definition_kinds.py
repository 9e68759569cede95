"""Every kind of definition there is: from a key and its value back to what was stored.

A kind is added by naming its table of readers here.

Not here: the kinds themselves (`broker.metadata.topology_definitions` and its neighbours), what is done with a
definition (`broker.startup`).

In which order definitions can be made one by one: whatever something belongs to stands before it.

Nodes first, then virtual hosts and users, what is said of these, policies before what they govern, exchanges and queues
before their bindings. Unmaking goes the other way round.

Not here: the order within a plan, which its maker chose (`broker.metadata.transaction`).
"""

from typing import Final

from warren.broker.metadata.access_definitions import ACCESS_KINDS, PERMISSIONS, TOPIC_PERMISSIONS, USERS, VHOSTS
from warren.broker.metadata.cluster_definitions import CLUSTER_KINDS, INCARNATIONS, LIVENESS, NODES
from warren.broker.metadata.policy_definitions import (
    GLOBAL_PARAMETERS,
    OPERATOR_POLICIES,
    PARAMETERS,
    POLICIES,
    POLICY_KINDS,
)
from warren.broker.metadata.store import Definition, DefinitionFields, DefinitionReader, key_parts
from warren.broker.metadata.topology_definitions import BINDINGS, EXCHANGES, QUEUES, TOPOLOGY_KINDS
from warren.errors import StoreError

DEFINITION_READERS: Final[dict[str, DefinitionReader]] = {
    **TOPOLOGY_KINDS,
    **ACCESS_KINDS,
    **POLICY_KINDS,
    **CLUSTER_KINDS,
}


def decode_definition(key: str, value: bytes) -> Definition:
    """What is stored under a key; a `StoreError` if it is damaged or of a version that is not known here."""
    parts = key_parts(key)
    read = DEFINITION_READERS.get(parts[0])
    definition = None if read is None else read(parts, DefinitionFields(key, value))
    if definition is None:
        raise StoreError(f"the metadata holds '{key}', and this version of Warren knows nothing of that kind")
    return definition


KINDS_IN_ORDER: Final = (
    NODES,
    INCARNATIONS,
    LIVENESS,
    GLOBAL_PARAMETERS,
    VHOSTS,
    USERS,
    PERMISSIONS,
    TOPIC_PERMISSIONS,
    PARAMETERS,
    POLICIES,
    OPERATOR_POLICIES,
    EXCHANGES,
    QUEUES,
    BINDINGS,
)
KIND_RANKS: Final[dict[str, int]] = {kind: place for place, kind in enumerate(KINDS_IN_ORDER)}


def definition_kind(key: str) -> str:
    """The first part of a key."""
    return key.partition("/")[0]


def definition_rank(key: str) -> int:
    """The place of its kind in the order."""
    place = KIND_RANKS.get(definition_kind(key))
    if place is None:
        raise StoreError(f"the metadata holds '{key}', and this version of Warren knows nothing of that kind")
    return place
