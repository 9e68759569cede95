"""A node that does not run gets another name in the cluster's store: its entry among the members, its runs, its queues
and its places in rings.

The new entry comes first and the old one goes last, so that no queue ever belongs to a node that is no member. Whoever
is interrupted does it again: what has the new name already is passed over.

Rings whose master lives are left to it: as long as both names are those of members it would take the old one in again.
It sees by itself who is gone, and does not count on it any more. One that was killed is said to live until its lease
has ended. So as long as a ring counts on the old name, which a master that lives changes soon, its end is waited for:
afterwards nobody could tell that ring.

Not here: the node's own files (`node.cluster.stopped_member`).
"""

import asyncio

from warren.broker.sharing.runs import all_queues
from warren.model.events import SharedSnapshot
from warren.model.rings import Ring
from warren.node.cluster.refusal import MembershipRefused, not_in_the_cluster
from warren.node.cluster.shared_store import DEATH_TOLD_WITHIN_S, SharedStore
from warren.store.cluster_definitions import (
    AliveDefinition,
    NodeDefinition,
    RunDefinition,
    alive_key,
    node_key,
    run_key,
)
from warren.store.definition_kinds import decode_definition
from warren.store.topology_definitions import QueueDefinition

BATCH_MAX = 50
PAUSE_S = 0.2


def refuse_taken_name(known: SharedSnapshot, old: str, new: str, peer: str) -> None:
    """A `MembershipRefused` if another node has that name; one at this address that does not live is this node."""
    entry, taken = _entry(old, known), _entry(new, known)
    if entry is None and taken is None:
        raise not_in_the_cluster()
    own = (peer, "" if entry is None else entry.peer)
    if taken is not None and (taken.peer not in own or alive_key(new) in known):
        raise MembershipRefused("", f"another node of the cluster is called {new}")
    runs, others = _runs(old, known), _runs(new, known)
    if runs is not None and others is not None and runs.data != others.data:
        # its runs would be taken for the other's
        raise MembershipRefused(
            "", f"another node of the cluster was called {new} once; choose a name that is new to it"
        )


async def rename_in_store(shared: SharedStore, old: str, new: str, patience_s: float = DEATH_TOLD_WITHIN_S) -> None:
    """Nothing is left to do if it was done before."""
    _revision, known = await shared.snapshot()
    entry = _entry(old, known)
    if entry is not None:
        places = (entry.peer, entry.http, entry.amqp, entry.store)
        await _rename_runs(shared, old, new)
        await shared.enlist(NodeDefinition(new, entry.kind, *places, entry.witness))
        await _rename_queues(shared, old, new, patience_s)
        await shared.delist(old)


async def _rename_runs(shared: SharedStore, old: str, new: str) -> None:
    """Those of the old name stay: whoever else gets it must not count them again."""
    _revision, known = await shared.snapshot()
    runs = _runs(old, known)
    if runs is not None:
        key = run_key(new)
        seen_at = known[key][1] if key in known else 0
        await shared.change([(key, seen_at)], [(key, RunDefinition(new, runs.run, runs.born, runs.data).value())])


async def _rename_queues(shared: SharedStore, old: str, new: str, patience_s: float) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + patience_s
    while True:
        _revision, known = await shared.snapshot()
        queues = _queues_with(old, known)[:BATCH_MAX]
        if queues:
            await _rename_some(shared, queues, known, old, new)
        elif _is_counted_on(old, known) and loop.time() < end:
            await asyncio.sleep(PAUSE_S)
        else:
            return


async def _rename_some(
    shared: SharedStore, queues: list[QueueDefinition], known: SharedSnapshot, old: str, new: str
) -> None:
    """Unless one of them has changed meanwhile."""
    for queue in queues:
        queue.node = new if queue.node == old else queue.node
        queue.ring = None if queue.ring is None else queue.ring.renaming(old, new)
    compares = [(queue.key(), known[queue.key()][1]) for queue in queues]
    await shared.change(compares, [(queue.key(), queue.value()) for queue in queues])


def _is_counted_on(name: str, known: SharedSnapshot) -> bool:
    return any(queue.ring is not None and name in queue.ring.synced_names() for queue in all_queues(known))


def _queues_with(name: str, known: SharedSnapshot) -> list[QueueDefinition]:
    """The queues that live on a node or are held by it, but for those whose master lives."""
    return [queue for queue in all_queues(known) if queue.node == name or _has_to_be_told(name, queue.ring, known)]


def _has_to_be_told(name: str, ring: Ring | None, known: SharedSnapshot) -> bool:
    """Of one whose master is gone, though its name may live as another run."""
    if ring is None or name not in ring.members:
        return False
    key = alive_key(ring.master)
    alive = decode_definition(key, known[key][2]) if key in known else None
    return not isinstance(alive, AliveDefinition) or alive.incarnation != ring.master_run[1]


def _runs(name: str, known: SharedSnapshot) -> RunDefinition | None:
    found = known.get(run_key(name))
    definition = None if found is None else decode_definition(run_key(name), found[2])
    return definition if isinstance(definition, RunDefinition) else None


def _entry(name: str, known: SharedSnapshot) -> NodeDefinition | None:
    found = known.get(node_key(name))
    definition = None if found is None else decode_definition(node_key(name), found[2])
    return definition if isinstance(definition, NodeDefinition) else None
