"""What an operator wants of a pretend ring, and what its master makes of that: who holds the queue, and who leads.

What is wanted is agreed upon in the store, as policies are, and heard of like everything there. A node that is about to
stop wants another to be master instead, and does not come back to that.

Not here: the rules (`mirroring.placement`), carrying them out (`mirroring.master`).
"""

from typing import TYPE_CHECKING, NamedTuple

from warren.mirroring.placement import ALL, Wish, master_wanted, members_wanted

if TYPE_CHECKING:
    from warren.sim.rings.member import Member

ALONE = "alone"
"""What is wanted if nobody wants mirrors."""


class Wanted(NamedTuple):
    """Which members, as a policy says it, and whether newcomers catch up by themselves."""

    mode: str = ALL
    copies: int = 0
    names: tuple[str, ...] = ()
    syncs: bool = True

    def wish(self) -> Wish:
        return Wish(self.mode, self.copies, list(self.names))


def see_to(member: "Member") -> None:
    """Let its master know what is wanted, if it is one."""
    mastery, ring, wanted = member.mastery, member.ring, member.wanted
    if mastery is None:
        return
    master = mastery.master
    if member.retreats:
        master.want_master(_successor(member), member.world.anybody, leaves=True)
    elif wanted.mode == ALONE:
        master.want([ring.master])
    else:
        nodes = list(member.world.members)
        running = [name for name in nodes if name in member.peers]
        master.want(members_wanted(wanted.wish(), ring, nodes, running, member.version))
        name = master_wanted(wanted.wish(), ring, running)
        master.want_master("" if name == ring.master else name)


def _successor(member: "Member") -> str:
    """The eldest in sync that is reached; or any other member, if anybody may be promoted."""
    ring = member.ring
    others = [*ring.synced_names(), *(ring.members if member.world.anybody else [])]
    return next((name for name in others if name != member.name and name in member.peers), "")


def unfulfilled(wanted: Wanted, member: "Member") -> str:
    """What is wanted of the ring that this member knows, and is not so when everybody is there."""
    ring = member.ring
    if wanted.mode == ALONE:
        return "" if ring.members == [ring.master] else f"mirrors in {ring!r}, which nobody wants"
    nodes = list(member.world.members)
    members = members_wanted(wanted.wish(), ring, nodes, nodes, 0)
    if sorted(members) != sorted(ring.members):
        return f"{ring!r}, where {members} are wanted"
    master = master_wanted(wanted.wish(), ring, nodes)
    return "" if master == ring.master else f"{ring!r}, where {master} is wanted as master"
