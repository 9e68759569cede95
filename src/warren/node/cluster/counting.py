"""A run of a member gets the number that it has in the cluster: one that no run of any node of its name ever had.

The disk keeps which run it last asked for, before the store counts it. So a disk that knows of the latest run is told
from an old state of it: starting a node, however often, asks for nothing until a majority can answer. A disk that was
found to be an old state keeps nothing until its run is counted: else its own question, unanswered, would make it pass
for the latest.

Not here: what follows from a number (`store.cluster_definitions`, `mirroring.succession`).
"""

from typing import TYPE_CHECKING

from warren.node.disk.disk import Disk
from warren.node.logs import Log
from warren.store.recovery import Found

if TYPE_CHECKING:
    # a node that is alone does without the libraries
    from warren.node.cluster.shared_store import SharedStore

_WITHOUT_PAST = "its data directory is not the one that a node of its name had, or an old state of it"
_GIVEN_AGAIN = "whatever mirrored queues trusted the node with, others have to give it again"


async def count_run(shared: "SharedStore", disk: Disk, found: Found, log: Log) -> None:
    """Have it counted, in the store and on the disk. A `ConnectionError` if nobody can tell whether it was."""
    try:
        counted, seen_at = await shared.next_run(found.incarnation, disk.identity(), disk.asked_run())
        if not counted.without_past():
            # a disk that knew of the latest run must know of this one, even if the answer never comes
            disk.keep_asked_run(counted.run)
        await shared.count_run(counted, seen_at)
    except ConnectionError:
        # it may have been: what is asked for next is another run
        found.incarnation = disk.begin_incarnation()
        raise
    # a disk without a past is like any other from here on, and not before: a question alone makes nothing of it
    disk.keep_asked_run(counted.run)
    if counted.run > found.incarnation:
        disk.raise_incarnation(counted.run)
    if counted.without_past():
        log.warning("node.without_past", reason=_WITHOUT_PAST, incarnation=counted.run, effect=_GIVEN_AGAIN)
    found.incarnation = counted.run
