"""Which nodes are to hold a mirrored queue.

- `all`: every node of the cluster.
- `exactly` N: N nodes, the master among them. Mirrors that run stay, the eldest first; where some are lacking, others
  that run are drawn. If fewer than N run, those that do not run keep their places.
- `nodes`: those that are listed and belong to the cluster; if none of them does, the master alone.

The master always is one of them: another one must be in sync before it goes (`master_wanted`).

Not here: what a policy may say (`policy.mirroring_keys`), when members come and go (`mirroring.master`).
"""

from typing import Final, final

from warren.model.rings import Ring

ALL: Final = "all"
EXACTLY: Final = "exactly"
NODES: Final = "nodes"


@final
class Wish:
    """What a policy, or the arguments of a queue, ask for."""

    def __init__(self, mode: str, count: int = 0, names: list[str] | None = None) -> None:
        self.mode: str = mode
        self.count: int = count
        self.names: list[str] = [] if names is None else names


def members_wanted(wish: Wish, ring: Ring, nodes: list[str], running: list[str], draw: int) -> list[str]:
    """The members there should be, those that stay in their order.

    `nodes` are all that may hold queues, `running` those that are reached; `draw` is a number that chance gave.
    """
    master = ring.master
    if wish.mode == ALL:
        wanted = [name for name in ring.members if name in nodes or name == master]
        return [*wanted, *[name for name in nodes if name not in wanted]]
    if wish.mode == NODES:
        listed = [name for name in ring.members if name in wish.names and name in nodes]
        listed += [name for name in wish.names if name in nodes and name not in listed]
        return listed if master in listed else [master, *listed]
    mirrors = [name for name in ring.members if name != master and name in nodes]
    stay = [name for name in mirrors if name in running]
    rest = sorted([name for name in running if name != master and name not in stay and name in nodes])
    while rest and len(stay) < wish.count - 1:
        stay.append(rest.pop(draw % len(rest)))
    stay += [name for name in mirrors if name not in stay]
    chosen = [master, *stay[: wish.count - 1]]
    kept = [name for name in ring.members if name in chosen]
    return [*kept, *[name for name in chosen if name not in kept]]


def master_wanted(wish: Wish, ring: Ring, running: list[str]) -> str:
    """The master there should be: with `nodes` one that is listed, as soon as one of those is in sync."""
    if wish.mode != NODES or ring.master in wish.names:
        return ring.master
    ready = [name for name in wish.names if name in ring.synced_names() and name in running]
    return ready[0] if ready else ring.master
