"""The kinds of definitions: how each is decoded, and the order in which they can be applied one by one.

An object is created after the objects it belongs to: nodes first, then virtual hosts and users, their permissions and
parameters, policies before the queues they govern, exchanges and queues before their bindings. Deletion goes the other
way round. A kind is added with a table of readers.

Not here: the kinds themselves (`broker.metadata.topology_definitions` and its neighbours), the start
(`broker.startup`), the order within a transaction, which its proposer chooses (`broker.metadata.transaction`).
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
    """The definition of a key and its value; a `StoreError` if it is damaged or of an unknown version."""
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
