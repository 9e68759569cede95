"""What nodes of a pretend cluster are connected by: one wire between each two, that may be cut either way.

::

    one ──────────────► two      bytes, in order, in pieces, after a while
        ◄──────────────          each way for itself may be cut: then bytes wait, and nobody is told

A *run* of a wire is one connection. Each end learns for itself that it has begun, and that it is over: by a close that
follows the last bytes, by silence, or because the other end dials anew. A node that is killed closes its runs; one that
loses its power says nothing. Once a node is down and its host can be asked, the others are told that its port refuses
connections. A firewall between two nodes says the same of nodes that live.

A sender is told when too much waits to arrive, and when that is over; it may send on all the same.

Invariant: an end is told of a run's bytes between its `PeerConnected` and its `PeerLost`, in the order they were sent.

Not here: what the bytes mean (`warren.remote`), when a wire is cut (`sim.cluster.faults`).
"""

from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from warren.model.events import PeerConnected, PeerLost, PeerReceived, PeerWritesPaused, PeerWritesResumed

if TYPE_CHECKING:
    from warren.sim.cluster.member import Member
    from warren.sim.cluster.world import ClusterWorld

SILENCE_MS = 3_000
LOOK_EVERY_MS = 400


@dataclass(eq=False)
class End:
    """One end of a run."""

    member: "Member"
    life: int
    incarnation: int
    # it was told that the run has begun; it was told, or has decided, that it is over
    told: bool = False
    over: bool = False
    heard_ms: int = 0
    # what is on its way to it; at first that there is a run, at last that it is closed
    coming: deque[bytes | str] = field(default_factory=deque)
    scheduled: bool = False
    since_ms: int = 0
    # its sender was told that it takes no more
    full: bool = False

    def lives(self) -> bool:
        return self.member.up and self.member.lives == self.life

    def coming_bytes(self) -> int:
        return sum(len(thing) for thing in self.coming if isinstance(thing, bytes))


BEGUN = "begun"
CLOSED = "closed"


class Wire:
    """Between two nodes."""

    def __init__(self, world: "ClusterWorld", chance: Random, buffers: Random, one: "Member", other: "Member") -> None:
        self.members = (one, other)
        # by the place of the node whose bytes do not arrive
        self.cut = [False, False]
        # whether a firewall lets nothing through, and refuses connections in the name of both
        self.fenced = False
        self.run: tuple[End, End] | None = None
        self._world = world
        self._chance = chance
        self.high_water_bytes = buffers.choice((1_000, 10_000, 1_000_000))
        # which life of which node was told to refuse connections
        self._refused: dict[str, int] = {}
        world.schedule(chance.randint(1, LOOK_EVERY_MS), self._look)

    def joins(self, name: str) -> bool:
        return any(member.name == name for member in self.members)

    def mend(self) -> None:
        for place in (0, 1):
            self.set_cut(place, False)

    def set_cut(self, place: int, cut: bool) -> None:
        """Whether the bytes of this end's node arrive."""
        if self.cut[place] != cut:
            self._world.disrupted()
        self.cut[place] = cut
        self._stir(1 - place)

    def set_fenced(self, fenced: bool) -> None:
        """Whether there is a firewall that refuses everything between the two."""
        self.fenced = fenced
        self._refused.clear()
        for place in (0, 1):
            self.set_cut(place, fenced)

    def quiet(self) -> bool:
        """Whether both ends have heard everything the other one said, over a run that is whole."""
        return self.run is not None and all(end.lives() and not end.coming and not end.over for end in self.run)

    def whole_since_ms(self) -> int | None:
        """Since when both ends know that there is a run; None if one of them does not."""
        if self.run is None or not all(end.lives() and end.told and not end.over for end in self.run):
            return None
        return max(end.since_ms for end in self.run)

    # -- what nodes do

    def send(self, sender: "Member", data: bytes) -> None:
        place = self.members.index(sender)
        if self.run is not None and self.run[place].told and not self.run[place].over:
            self.run[1 - place].coming.append(data)
            self._stir(1 - place)
            self._watch_level(self.run, 1 - place)

    def drop(self, dropper: "Member", reason: str) -> None:
        self._give_up(self.members.index(dropper), reason)

    def process_ended(self, ended: "Member", silently: bool) -> None:
        """A node's process is over; its host says so to the others, unless it went with it."""
        place = self.members.index(ended)
        if self.run is None or self.run[place].over:
            return
        self.run[place].over = True
        self.run[place].coming.clear()
        if not silently:
            self.run[1 - place].coming.append(CLOSED)
            self._stir(1 - place)

    # -- what passes

    def _stir(self, place: int) -> None:
        """Have the next thing arrive at an end, unless that is cut off."""
        if self.run is None:
            return
        end = self.run[place]
        if end.coming and not end.scheduled and not self.cut[1 - place]:
            end.scheduled = True
            run = self.run
            self._world.schedule(self._world.network.delay_ms(), lambda: self._arrive(run, place))

    def _arrive(self, run: tuple[End, End], place: int) -> None:
        end = run[place]
        end.scheduled = False
        if run is not self.run or not end.coming or self.cut[1 - place]:
            return
        if not end.lives() or end.over:
            end.coming.clear()
            return
        thing = end.coming.popleft()
        other = run[1 - place]
        if isinstance(thing, bytes):
            size = self._world.network.piece_bytes(len(thing))
            if size < len(thing):
                end.coming.appendleft(thing[size:])
            end.member.add(PeerReceived(other.member.name, thing[:size]))
            self._watch_level(run, place)
        elif thing == BEGUN:
            end.told = True
            end.since_ms = end.heard_ms = self._world.now_ms
            end.member.add(PeerConnected(other.member.name, other.incarnation))
        else:
            self._end(end, other, "it was closed")
        self._stir(place)

    def _watch_level(self, run: tuple[End, End], place: int) -> None:
        """Tell the sender of what is coming to an end that it is too much, or so no more."""
        end, sender = run[place], run[1 - place]
        coming_bytes = end.coming_bytes()
        if not end.full and coming_bytes > self.high_water_bytes:
            end.full = True
            sender.member.add(PeerWritesPaused(end.member.name))
        elif end.full and coming_bytes <= self.high_water_bytes // 4:
            end.full = False
            if sender.lives() and not sender.over:
                sender.member.add(PeerWritesResumed(end.member.name))

    # -- how runs begin and end

    def _look(self) -> None:
        self._world.schedule(self._chance.randint(LOOK_EVERY_MS // 2, LOOK_EVERY_MS), self._look)
        if self.run is not None:
            for place in (0, 1):
                self._listen(place)
        for place in (0, 1):
            self._ask_host(place)
        whole = self.run is not None and not any(end.over for end in self.run)
        if not whole and self._can_connect():
            self._connect()

    def _listen(self, place: int) -> None:
        """An end that hears nothing for too long gives up."""
        assert self.run is not None
        end, other = self.run[place], self.run[1 - place]
        if not end.told or end.over:
            return
        if other.lives() and not other.over and not other.member.frozen and not self.cut[1 - place]:
            end.heard_ms = self._world.now_ms
        elif self._world.now_ms - end.heard_ms > SILENCE_MS and not end.member.frozen:
            self._give_up(place, "it is silent")

    def _ask_host(self, place: int) -> None:
        """Whether the other node's host says that nobody is there."""
        asker, asked = self.members[place], self.members[1 - place]
        linked = self.run is not None and not self.run[place].over and self.run[place].lives()
        if not asker.up or linked or asked.name not in asker.peers:
            return
        refused = self.fenced or (asked.host_refuses() and not any(self.cut))
        if refused and self._refused.get(asked.name) != asked.lives:
            self._refused[asked.name] = asked.lives
            asker.add(PeerLost(asked.name, "connection refused", True))

    def _can_connect(self) -> bool:
        one, other = self.members
        if any(self.cut) or not one.up or not other.up or one.frozen or other.frozen:
            return False
        return one.name in other.peers or other.name in one.peers

    def _connect(self) -> None:
        if self.run is not None:
            for place in (0, 1):
                self._end(self.run[place], self.run[1 - place], "it dials anew")
        first, second = (End(member, member.lives, member.disk.incarnation) for member in self.members)
        self.run = (first, second)
        for place in (0, 1):
            self.run[place].coming.append(BEGUN)
            self._stir(place)

    def _give_up(self, place: int, reason: str) -> None:
        if self.run is None or self.run[place].over:
            return
        self._end(self.run[place], self.run[1 - place], reason)
        if not self.run[1 - place].over:
            self.run[1 - place].coming.append(CLOSED)
            self._stir(1 - place)

    def _end(self, end: End, other: End, reason: str) -> None:
        if end.over:
            return
        end.over = True
        end.coming.clear()
        if end.told and end.lives():
            self._world.disrupted()
            end.member.add(PeerLost(other.member.name, reason, False))


class Wires:
    """All of a world's."""

    def __init__(self, world: "ClusterWorld", members: list["Member"]) -> None:
        chance, buffers = Random(f"{world.seed}/wires"), Random(f"{world.seed}/buffers")
        self.all = [
            Wire(world, chance, buffers, one, other)
            for place, one in enumerate(members)
            for other in members[place + 1 :]
        ]

    def between(self, one: str, other: str) -> Wire:
        return next(wire for wire in self.all if wire.joins(one) and wire.joins(other))

    def of(self, name: str) -> list[Wire]:
        return [wire for wire in self.all if wire.joins(name)]
