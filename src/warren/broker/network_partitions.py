"""What a node does when it cannot reach others: go on, pause, or start anew.

**What never depends on this.** Definitions are changed by a majority of the nodes that keep them (*disc* nodes), which
the store that nodes share sees to. A node on the smaller side agrees on nothing and confirms nothing about definitions,
whatever is set. So no two sides ever know different things, and there is nothing to throw away when they meet again;
what is chosen here is only whether clients of the smaller side are served what can be served there.

**The choices** have RabbitMQ's names, and its meanings as far as they make sense here:

- `ignore`: go on.
- `pause_minority`: pause unless more than half of the disc nodes are reachable; exactly half is not enough. RabbitMQ
  counts all nodes; here a side that could not agree on anything would go on, and the other one pause, if RAM nodes
  counted. A paused node resumes when it reaches more than half again.
- `pause_if_all_down`: pause if none of the listed nodes is reachable. Names that are no members do not count; if none
  of them is one, nobody pauses.
- `autoheal`: go on; when all is over, who has *lost its life* starts anew. RabbitMQ lets the side with most clients
  win. Here the winner is the side that has the majority: a node that was cut off from it is dead to all others once its
  lease has run out, and its transient queues are deleted. If no side has a majority, no lease runs out and nobody
  loses. With `pause_if_all_down` the same can be chosen for who was not paused.

**Partial partitions.** With `pause_minority`, two nodes that both reach the majority and not each other cannot both go
on: clients would see different halves of one broker. Both live, and know that of each other by the store. The one that
stands later in the order of all members (disc nodes first, then by name) pauses, until it reaches everybody who lives.
So of those who see a majority the first one in the order never pauses. Nodes that pause withdraw their claim to be
alive, so nobody pauses because of one that is paused.

**Starting.** A node that has not yet been among enough others since it started does not pause: it is only starting.

Not here: who is reachable (`broker.membership`); closing and opening listeners, ending connections (`node`).
"""

from typing import Final, final

IGNORE: Final = "ignore"
PAUSE_MINORITY: Final = "pause_minority"
PAUSE_IF_ALL_DOWN: Final = "pause_if_all_down"
AUTOHEAL: Final = "autoheal"

CONTINUE: Final = "go_on"
PAUSE: Final = "pause"
RESUME: Final = "resume"
RESTART: Final = "restart"

CHECK_EVERY_MS: Final = 1_000


@final
class PartitionHandling:
    """What the operator chose; `nodes` and `recovery` belong to `pause_if_all_down`."""

    def __init__(self, mode: str = IGNORE, nodes: list[str] | None = None, recovery: str = IGNORE) -> None:
        self.mode: str = mode
        self.nodes: list[str] = [] if nodes is None else nodes
        self.recovery: str = recovery

    def heals(self) -> bool:
        return self.mode == AUTOHEAL or (self.mode == PAUSE_IF_ALL_DOWN and self.recovery == AUTOHEAL)


@final
class PartitionView:
    """What a node sees when it decides."""

    def __init__(
        self,
        own: str,
        ranked: list[str],
        disc: list[str],
        reachable: list[str],
        partitioned: list[str],
        store_reached: bool,
        lease_lost: bool,
    ) -> None:
        self.own: str = own
        # all members, the same order everywhere
        self.ranked: list[str] = ranked
        self.disc: list[str] = disc
        # this node among them
        self.reachable: list[str] = reachable
        # members that live and are out of reach
        self.partitioned: list[str] = partitioned
        self.store_reached: bool = store_reached
        # whether others have declared this run of this node dead
        self.lease_lost: bool = lease_lost


@final
class PartitionWatch:
    """One node's decisions, one after another."""

    def __init__(self, handling: PartitionHandling) -> None:
        self._handling: PartitionHandling = handling
        self.paused: bool = False
        self._started: bool = False

    def look(self, view: PartitionView) -> str:
        """What is to be done about what there is to be seen: `GO_ON` if nothing is."""
        must_pause = should_pause(self._handling, view)
        if not self._started:
            self._started = not must_pause
            return CONTINUE
        if self.paused:
            if must_pause:
                return CONTINUE
            self.paused = False
            return RESUME
        if must_pause:
            self.paused = True
            return PAUSE
        if self._handling.heals() and view.lease_lost and view.store_reached and has_majority(view):
            return RESTART
        return CONTINUE


def should_pause(handling: PartitionHandling, view: PartitionView) -> bool:
    """Whether a node that sees this must not serve clients."""
    if view.own not in view.ranked:
        return False
    if handling.mode == PAUSE_MINORITY:
        return not has_majority(view) or must_yield(view)
    if handling.mode == PAUSE_IF_ALL_DOWN:
        preferred = [name for name in handling.nodes if name in view.ranked]
        return len(preferred) > 0 and not any(name in view.reachable for name in preferred)
    return False


def has_majority(view: PartitionView) -> bool:
    """Whether this node, with those it reaches, could agree on something."""
    reached = [name for name in view.disc if name in view.reachable]
    return len(reached) * 2 > len(view.disc)


def must_yield(view: PartitionView) -> bool:
    """Whether somebody lives whom this node does not reach, and who goes before it."""
    place = view.ranked.index(view.own)
    return any(name in view.ranked[:place] for name in view.partitioned)
