"""What a node does when it cannot reach others: continue, pause, or restart.

**Independent of this setting.** Definitions are changed by a majority of the *disc* nodes, in the shared store. A node
on the minority side commits and confirms no definitions. So the two sides never diverge, and nothing is discarded when
they meet again. The setting decides only whether clients on the minority side are served.

**The modes** have RabbitMQ's names, and its meanings as far as they apply:

- `ignore`: continue.
- `pause_minority`: pause unless more than half of the disc nodes are reachable; exactly half is not enough. RabbitMQ
  counts all nodes. If RAM nodes counted here, a side without a majority of disc nodes could continue while the other
  one pauses. A paused node resumes when it reaches more than half again.
- `pause_if_all_down`: pause if none of the listed nodes is reachable. Names that are not members do not count; if none
  of them is a member, no node pauses.
- `autoheal`: continue; after the partition, nodes that *lost their lease* restart. RabbitMQ lets the side with most
  clients win. Here the majority side wins: the lease of a node that was cut off from it has expired, and its transient
  queues are deleted. If no side has a majority, no lease expires and no node restarts. `pause_if_all_down` can be
  combined with autoheal for nodes that did not pause.

**Partial partitions.** With `pause_minority`, two nodes that both reach the majority but not each other must not both
continue: clients would see different halves of one broker. Both know from the store that the other one is alive. The
one that is later in the order of all members (disc nodes first, then by name) pauses, until it reaches every node that
is alive. So the first node in the order that sees a majority never pauses. A paused node gives up its lease, so no node
pauses because of a paused one.

**Startup.** A node that has not reached enough others since it started does not pause: it is only starting.

Not here: which nodes are reachable (`broker.membership`); closing listeners and connections (`node`).
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
    """The operator's setting; `nodes` and `recovery` belong to `pause_if_all_down`."""

    def __init__(self, mode: str = IGNORE, nodes: list[str] | None = None, recovery: str = IGNORE) -> None:
        self.mode: str = mode
        self.nodes: list[str] = [] if nodes is None else nodes
        self.recovery: str = recovery

    def heals(self) -> bool:
        return self.mode == AUTOHEAL or (self.mode == PAUSE_IF_ALL_DOWN and self.recovery == AUTOHEAL)


@final
class PartitionView:
    """The state of the cluster, as one node sees it."""

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
        # all members, in the same order on every node
        self.ranked: list[str] = ranked
        self.disc: list[str] = disc
        # this node included
        self.reachable: list[str] = reachable
        # members that are alive and not reachable
        self.partitioned: list[str] = partitioned
        self.store_reached: bool = store_reached
        # the lease of this incarnation expired
        self.lease_lost: bool = lease_lost


@final
class PartitionWatch:
    """The successive decisions of one node."""

    def __init__(self, handling: PartitionHandling) -> None:
        self._handling: PartitionHandling = handling
        self.paused: bool = False
        self._started: bool = False

    def look(self, view: PartitionView) -> str:
        """The action that this view requires; `CONTINUE` for none."""
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
    """Whether a node with this view must not serve clients."""
    if view.own not in view.ranked:
        return False
    if handling.mode == PAUSE_MINORITY:
        return not has_majority(view) or must_yield(view)
    if handling.mode == PAUSE_IF_ALL_DOWN:
        preferred = [name for name in handling.nodes if name in view.ranked]
        return len(preferred) > 0 and not any(name in view.reachable for name in preferred)
    return False


def has_majority(view: PartitionView) -> bool:
    """Whether this node and those it reaches are a majority of the disc nodes."""
    reached = [name for name in view.disc if name in view.reachable]
    return len(reached) * 2 > len(view.disc)


def must_yield(view: PartitionView) -> bool:
    """Whether a node that is earlier in the order is alive and not reachable."""
    place = view.ranked.index(view.own)
    return any(name in view.ranked[:place] for name in view.partitioned)
