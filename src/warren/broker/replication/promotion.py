"""Who is to be master when there is none.

First those who were in sync and have run without a break, the eldest before the others: they have everything that was
settled, on disk or not. If none of them lives, nor the master itself, those who were in sync and have been restarted:
whatever was confirmed and had to outlive that is on their disks; the last master before the others, because it may have
more. One that came with another data directory since has nothing of that. If none of these lives either, a policy may
allow that any other member is taken, with whatever it has.

All nodes come to the same order by themselves. Each waits for as long as there are living ones before it, so that
nobody is kept waiting by one that cannot act; the store takes the first that asks.

Not here: proposing (`broker.mirrors`), what makes a node think that there is no master (the same).
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
    """Those who may become master, in the order in which they should; `living` has the incarnation of each node.

    The master's own run is over, or not reached. `anybody`: also members that are not in sync. `lasting`: members that
    were restarted have something; a queue that is not durable is gone with the last run that had it. `born`: of nodes
    that have had another data directory, the first run with the one they have.
    """
    last = replica_set.master_incarnation
    unbroken = [run for run in replica_set.in_sync if run != last and living.get(run[0]) == run[1]]
    if unbroken:
        return unbroken
    if living.get(last[0]) == last[1]:
        # it cannot be reached from here, and has what nobody else has
        return []
    # whoever seems to live in a run before the one that was in sync does not: the store has yet to say so
    living = {name: run for name, run in living.items() if run >= replica_set.synced_incarnation(name)}
    names = [replica_set.master, *[name for name in replica_set.synced_names() if name != replica_set.master]]
    if first_with_data is not None:
        names = [name for name in names if first_with_data.get(name, 0) <= replica_set.synced_incarnation(name)]
    restarted = [(name, living[name]) for name in names if name in living and (name, living[name]) != last]
    if not durable:
        return []
    if restarted or not allow_unsynced:
        return restarted
    return [(name, living[name]) for name in replica_set.members if name in living and (name, living[name]) != last]


def promotion_delay_ms(order: list[NodeIncarnation], run: NodeIncarnation) -> i64:
    """How long this run leaves it to those before it; -1 if it is not to be master at all."""
    return PROMOTION_DELAY_MS * order.index(run) if run in order else -1
