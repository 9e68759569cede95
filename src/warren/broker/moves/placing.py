"""Where the copies of mirrored queues are to be: asked when a queue is new, and whenever policies or nodes change.

Not here: the rules (`mirroring.placement`), what is wanted (`broker.mirrors.wishes`), carrying it out
(`mirroring.master`).
"""

from typing import TYPE_CHECKING, final

from warren.broker.mirrors.mastery import FIRST_EPOCH
from warren.broker.names import FreshNames
from warren.mirroring.placement import Wish, master_wanted, members_wanted
from warren.model.rings import Ring, Run
from warren.store.topology_definitions import QueueDefinition

if TYPE_CHECKING:
    from warren.broker.mirrors.part import Part
    from warren.broker.mirrors.rings import Rings


@final
class RingPlacing:
    """One node's view of that."""

    def __init__(self, rings: "Rings", names: FreshNames) -> None:
        # this node is about to stop: others are to be masters
        self.retreats: bool = False
        self._rings: Rings = rings
        self._names: FreshNames = names

    def look(self, part: "Part") -> None:
        """See whether a queue is held where it should be; by its master alone if nobody wants mirrors any more."""
        mastery, ring, wishes = part.mastery, part.ring, self._rings.wishes
        if mastery is None:
            return
        wish = wishes.of(part.definition)
        mastery.min_in_sync = wishes.min_in_sync(part.definition)
        mastery.early.wanted = wishes.confirms_early(part.definition)
        if self.retreats:
            anyhow = wishes.promotes_on_shutdown(part.definition)
            mastery.master.want_master(self.successor(part), anyhow, leaves=True)
            return
        if wish is None:
            mastery.master.want([ring.master])
            return
        nodes, running = self._nodes()
        mastery.master.want(members_wanted(wish, ring, nodes, running, self._names.draw()))
        wanted = master_wanted(wish, ring, running)
        mastery.master.want_master("" if wanted == ring.master else wanted)

    def successor(self, part: "Part") -> str:
        """Who is to be master when this node is not: the eldest in sync that is reached, or, if a policy says so and
        there is none, any other mirror; empty if there is nobody."""
        rings, ring = self._rings, part.ring
        holds = rings.membership.members.holding_names()
        synced = [name for name, run in ring.in_sync if name in holds and rings.incarnation_reached(name) == run]
        if synced:
            return synced[0]
        if not rings.wishes.promotes_on_shutdown(part.definition):
            return ""
        others = [name for name in ring.members if name in holds and rings.incarnation_reached(name)]
        return others[0] if others else ""

    def mirror_new(self, definition: QueueDefinition) -> None:
        """A queue that is about to be proposed gets the mirrors it should have from its first moment on."""
        rings = self._rings
        wish, node = rings.wishes.of(definition), definition.node
        incarnation = rings.own_run[1] if node == rings.own_run[0] else rings.incarnation_reached(node)
        if wish is not None and incarnation != 0:
            definition.ring = self.first_ring(wish, (node, incarnation))
            definition.incarnation = 0

    def first_ring(self, wish: Wish, master: Run) -> Ring:
        alone = Ring(FIRST_EPOCH, master[0], [master[0]], [master])
        return alone.with_members(members_wanted(wish, alone, *self._nodes(), self._names.draw()))

    def _nodes(self) -> tuple[list[str], list[str]]:
        """Those that may hold queues, and those of them that run and are reached."""
        rings = self._rings
        nodes = rings.membership.members.holding_names()
        return nodes, [name for name in nodes if name == rings.own_run[0] or rings.incarnation_reached(name)]
