"""The candidates for promotion when the master is lost, in order.

1.  Members in sync whose incarnation is unbroken, the oldest first. They have every committed batch, on disk or in
    memory.
2.  If there is none, and the master has ended too: members that were in sync and have restarted, the last master first,
    because it may have more. Every confirmed durable message is on their disks. A node with another data directory has
    none of them.
3.  If there is none either, and the policy allows it: any other member, with the messages it has.

Every node computes the same order. A candidate waits `PROMOTION_DELAY_MS` for each candidate before it that it can
reach; the metadata store accepts the first proposal.

Not here: how a node finds that the master is lost, and proposes itself (`broker.replication.local_replica`).
"""

from typing import Final

from mypy_extensions import i64

from warren.broker.model.replica_set import NodeIncarnation, ReplicaSet

PROMOTION_DELAY_MS: Final[i64] = 1_000


def promotion_candidates(
    replica_set: ReplicaSet,
    living: dict[str, int],
    allow_unsynced: bool,
    durable: bool = True,
    first_with_data: dict[str, int] | None = None,
) -> list[NodeIncarnation]:
    """The candidates in order; `living` has the incarnation of each node that is alive.

    The master's incarnation has ended, or cannot be reached. `allow_unsynced`: also members that are not in sync.
    `durable`: restarted members have messages. `first_with_data`: by node, the first incarnation with its current data
    directory, if it had another one before.
    """
    last = replica_set.master_incarnation
    unbroken = [one for one in replica_set.in_sync if one != last and living.get(one[0]) == one[1]]
    if unbroken:
        return unbroken
    if living.get(last[0]) == last[1]:
        # this node cannot reach it; it may have messages that no other node has
        return []
    # an incarnation older than the one in sync has ended, though the store does not say so yet
    living = {
        name: incarnation for name, incarnation in living.items() if incarnation >= replica_set.synced_incarnation(name)
    }
    names = [replica_set.master, *[name for name in replica_set.synced_names() if name != replica_set.master]]
    if first_with_data is not None:
        names = [name for name in names if first_with_data.get(name, 0) <= replica_set.synced_incarnation(name)]
    restarted = [(name, living[name]) for name in names if name in living and (name, living[name]) != last]
    if not durable:
        return []
    if restarted or not allow_unsynced:
        return restarted
    return [(name, living[name]) for name in replica_set.members if name in living and (name, living[name]) != last]


def promotion_delay_ms(order: list[NodeIncarnation], incarnation: NodeIncarnation) -> i64:
    """How long this incarnation waits for the candidates before it; -1 if it is not a candidate."""
    return PROMOTION_DELAY_MS * order.index(incarnation) if incarnation in order else -1
