"""A node that does not run gets another name in the cluster's store: its entry among the members, and its queues.

The new entry comes first and the old one goes last, so that no queue ever belongs to a node that is no member. Whoever
is interrupted does it again: what has the new name already is passed over.

Not here: the node's own files (`node.cluster.stopped_member`).
"""

from warren.model.events import SharedSnapshot
from warren.node.cluster.refusal import MembershipRefused, not_in_the_cluster
from warren.node.cluster.shared_store import SharedStore, queues_of
from warren.store.cluster_definitions import NodeDefinition, alive_key, node_key
from warren.store.definition_kinds import decode_definition

BATCH_MAX = 50


def refuse_taken_name(known: SharedSnapshot, old: str, new: str, peer: str) -> None:
    """A `MembershipRefused` if another node has that name; one at this address that does not live is this node."""
    entry, taken = _entry(old, known), _entry(new, known)
    if entry is None and taken is None:
        raise not_in_the_cluster()
    own = (peer, "" if entry is None else entry.peer)
    if taken is not None and (taken.peer not in own or alive_key(new) in known):
        raise MembershipRefused("", f"another node of the cluster is called {new}")


async def rename_in_store(shared: SharedStore, old: str, new: str) -> None:
    """Nothing is left to do if it was done before."""
    _revision, known = await shared.snapshot()
    entry = _entry(old, known)
    if entry is not None:
        places = (entry.peer, entry.http, entry.amqp, entry.store)
        await shared.enlist(NodeDefinition(new, entry.kind, *places, entry.witness))
        while await _rename_some(shared, old, new):
            pass
        await shared.delist(old)


async def _rename_some(shared: SharedStore, old: str, new: str) -> bool:
    """Whether there was anything left to do."""
    _revision, known = await shared.snapshot()
    queues = queues_of(old, known)[:BATCH_MAX]
    for queue in queues:
        queue.node = new
    compares = [(queue.key(), known[queue.key()][1]) for queue in queues]
    if queues:
        await shared.change(compares, [(queue.key(), queue.value()) for queue in queues])
    return bool(queues)


def _entry(name: str, known: SharedSnapshot) -> NodeDefinition | None:
    found = known.get(node_key(name))
    definition = None if found is None else decode_definition(node_key(name), found[2])
    return definition if isinstance(definition, NodeDefinition) else None
