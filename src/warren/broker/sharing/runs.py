"""Which number a run of a member has that is about to begin: one that no run of any node of its name ever had.

Not here: having it agreed upon (`node.cluster.counting`), what a number means to a ring (`mirroring.succession`).
"""

from warren.model.events import SharedSnapshot
from warren.store.cluster_definitions import RunDefinition, run_key
from warren.store.definition_kinds import decode_definition
from warren.store.topology_definitions import QUEUES, QueueDefinition


def next_run(name: str, run: int, data: int, asked: int, known: SharedSnapshot) -> tuple[RunDefinition, int]:
    """What is to be kept, and the revision at which what is kept was seen.

    `run` is what the node's disk counts, `asked` the last run that it asked to have counted.
    """
    kept = known.get(run_key(name))
    if kept is None:
        # in a cluster of before runs were counted, rings tell of those that matter
        return RunDefinition(name, _latest_in_sync(name, known), 0, data).followed_by(run, data, asked), 0
    last = decode_definition(run_key(name), kept[2])
    assert isinstance(last, RunDefinition), "its key says so"
    return last.followed_by(run, data, asked), kept[1]


def all_queues(known: SharedSnapshot) -> list[QueueDefinition]:
    found = [decode_definition(key, kept[2]) for key, kept in known.items() if key.startswith(f"{QUEUES}/")]
    return [queue for queue in found if isinstance(queue, QueueDefinition)]


def _latest_in_sync(name: str, known: SharedSnapshot) -> int:
    rings = [queue.ring for queue in all_queues(known) if queue.ring is not None]
    return max([0, *[ring.synced_run(name) for ring in rings]])
