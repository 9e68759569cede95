"""Every kind of definition there is: from a key and its value back to what was stored.

A kind is added by naming its table of readers here.

Not here: the kinds themselves (`store.topology_definitions` and its neighbours), what is done with a definition
(`broker.definitions`).
"""

from typing import Final

from warren.errors import StoreError
from warren.store.access_definitions import ACCESS_KINDS
from warren.store.cluster_definitions import CLUSTER_KINDS
from warren.store.metadata import Definition, Fields, Reader, parts_of
from warren.store.policy_definitions import POLICY_KINDS
from warren.store.topology_definitions import TOPOLOGY_KINDS

KINDS: Final[dict[str, Reader]] = {**TOPOLOGY_KINDS, **ACCESS_KINDS, **POLICY_KINDS, **CLUSTER_KINDS}


def decode_definition(key: str, value: bytes) -> Definition:
    """What is stored under a key; a `StoreError` if it is damaged or of a version that is not known here."""
    parts = parts_of(key)
    read = KINDS.get(parts[0])
    definition = None if read is None else read(parts, Fields(key, value))
    if definition is None:
        raise StoreError(f"the metadata holds '{key}', and this version of Warren knows nothing of that kind")
    return definition
