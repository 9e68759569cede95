"""In which order definitions can be made one by one: whatever something belongs to stands before it.

Nodes first, then virtual hosts and users, what is said of these, policies before what they govern, exchanges and queues
before their bindings. Unmaking goes the other way round.

Not here: the order within a plan, which its maker chose (`store.plan`).
"""

from typing import Final

from warren.errors import StoreError
from warren.store.access_definitions import PERMISSIONS, TOPIC_PERMISSIONS, USERS, VHOSTS
from warren.store.cluster_definitions import ALIVE, NODES, RUNS
from warren.store.policy_definitions import GLOBAL_PARAMETERS, OPERATOR_POLICIES, PARAMETERS, POLICIES
from warren.store.topology_definitions import BINDINGS, EXCHANGES, QUEUES

KINDS_IN_ORDER: Final = (
    NODES,
    RUNS,
    ALIVE,
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
RANKS: Final[dict[str, int]] = {kind: place for place, kind in enumerate(KINDS_IN_ORDER)}


def kind_of(key: str) -> str:
    """The first part of a key."""
    return key.partition("/")[0]


def rank(key: str) -> int:
    """The place of its kind in the order."""
    place = RANKS.get(kind_of(key))
    if place is None:
        raise StoreError(f"the metadata holds '{key}', and this version of Warren knows nothing of that kind")
    return place
