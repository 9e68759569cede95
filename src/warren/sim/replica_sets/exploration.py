"""Tries every schedule of a small replica set that differs from the plain one in a limited number of places.

The plain schedule of a world: ordinary actions happen in a fixed order; when none is left, clients do their next
action, then dead nodes restart, then time passes. A *deviation* is another action in the place of the plain one:
another ordinary action, an early client, or a fault. After each deviation the plain schedule continues, and from every
state on the way other deviations branch off, until they are used up. A state that was seen with as many deviations left
is skipped. Each schedule ends when nothing is left to do, and the replica set must be at rest.

A state is reached again by repeating its actions, because the machines cannot be copied.

Not here: random schedules (`sim.replica_sets.run`).
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from warren.broker.replication.mirroring_policy import ALL, NODES
from warren.sim.replica_sets.invariants import REST
from warren.sim.replica_sets.world import Action, ReplicaSetWorld
from warren.sim.report import Violation

SCHEDULE_MAX = 2_000

SERVING: tuple[Action, ...] = (
    ("publish", "b", "", 2),
    ("publish", "a", "", 0),
    ("consume", "", "raise watermark", 0),
    ("consume", "", "deliver", 0),
    ("consume", "", "ack", 0),
    ("publish", "b", "", 3),
    ("publish", "a", "", 2),
)
"""What clients do, in this order; consumers are at the master."""

MOVING: tuple[Action, ...] = (
    ("publish", "a", "", 2),
    ("want", NODES, "b", 1),
    ("publish", "b", "", 0),
    ("want", ALL, "", 1),
    ("publish", "a", "", 2),
)
"""What clients and operators do: another node becomes master and holds the queue alone; then all nodes hold it again.
"""


class ScheduleBranch(NamedTuple):
    """A schedule to explore: its beginning, and how many deviations it may still take."""

    actions: tuple[Action, ...]
    faults: int
    delays: int


@dataclass
class Exploration:
    """The result."""

    schedules: int = 0
    states: int = 0
    # nothing was left to explore
    complete: bool = False
    complaints: list[Violation] = field(default_factory=list)
    # the actions that led to the violations
    actions: tuple[Action, ...] = ()


class Explorer:
    """Explores one small world."""

    def __init__(self, size: int, faults: int, delays: int, plan: tuple[Action, ...] = SERVING) -> None:
        """`plan` is what clients do, in this order."""
        self.found = Exploration()
        self._size = size
        self._plan = plan
        self._seen: set[tuple[int, int, int]] = set()
        self._branches = [ScheduleBranch((), faults, delays)]
        self._beginning = self._come_together()

    def explore(self, schedules_max: int) -> Exploration:
        """Explore until that many schedules are done, all are, or one is bad."""
        while self._branches and self.found.schedules < schedules_max and not self.found.complaints:
            self._follow(self._branches.pop())
        self.found.states = len(self._seen)
        self.found.complete = not self._branches
        return self.found

    def _come_together(self) -> tuple[Action, ...]:
        """The actions that bring all members in sync."""
        world = ReplicaSetWorld(self._size)
        actions: list[Action] = []
        while True:
            action = _first(world.ordinary()) or _first(world.timers())
            if action is None:
                return tuple(actions)
            actions.append(action)
            world.act(action)

    def _follow(self, branch: ScheduleBranch) -> None:
        self.found.schedules += 1
        world = ReplicaSetWorld(self._size)
        known = (*self._beginning, *branch.actions)
        world.seen_before = True
        for action in known[:-1]:
            world.act(action)
        world.seen_before = False
        world.act(known[-1])
        actions = list(branch.actions)
        while not world.rules.complaints:
            state = hash(world.snapshot()), branch.faults, branch.delays
            if state in self._seen:
                return
            self._seen.add(state)
            plain = self._plain(world, actions)
            self._branch_off(world, actions, branch, plain)
            if plain is None:
                world.rules.ended()
                break
            if len(actions) > SCHEDULE_MAX:
                world.rules.complain(REST, "something goes on for ever")
                break
            actions.append(plain)
            world.act(plain)
        if world.rules.complaints:
            self.found.complaints = world.rules.complaints
            self.found.actions = (*self._beginning, *actions)

    def _branch_off(
        self, world: ReplicaSetWorld, actions: list[Action], branch: ScheduleBranch, plain: Action | None
    ) -> None:
        if branch.delays:
            others = world.ordinary()
            client = self._client(world, actions)
            if client is not None:
                others.append(client)
            for other in others:
                if other != plain:
                    self._branches.append(ScheduleBranch((*actions, other), branch.faults, branch.delays - 1))
        if branch.faults:
            for fault in _faults(world):
                self._branches.append(ScheduleBranch((*actions, fault), branch.faults - 1, branch.delays))

    def _plain(self, world: ReplicaSetWorld, actions: list[Action]) -> Action | None:
        down: list[Action] = [("restart", name, "", 0) for name, member in world.members.items() if not member.up]
        return _first(world.ordinary()) or self._client(world, actions) or _first(down) or _first(world.timers())

    def _client(self, world: ReplicaSetWorld, actions: list[Action]) -> Action | None:
        """The clients' next action, if it is possible."""
        done = sum(1 for action in actions if action[0] in ("publish", "consume", "want"))
        if done >= len(self._plan):
            return None
        what, name, other, number = self._plan[done]
        if what == "want":
            return self._plan[done]
        if what == "publish":
            return self._plan[done] if world.members[name].up else None
        for name, member in world.members.items():
            master_replica = member.master_replica
            if member.up and master_replica is not None and master_replica.is_open:
                able = {
                    "raise watermark": master_replica.can_raise_watermark(),
                    "deliver": bool(master_replica.deliverable()),
                    "ack": bool(master_replica.out),
                }
                if able[other]:
                    return what, name, other, number
        return None


def _first(actions: list[Action]) -> Action | None:
    return actions[0] if actions else None


def _faults(world: ReplicaSetWorld) -> list[Action]:
    found: list[Action] = [("crash", name, "", 0) for name, member in world.members.items() if member.up]
    found += [("lose", one, other, 0) for one, other, link in world.links.all() if one != other and not link.broken]
    for number, request in enumerate(world.store.requests):
        if not request.given_up:
            found.append(("give up", request.proposer[0], "", number))
    return found
