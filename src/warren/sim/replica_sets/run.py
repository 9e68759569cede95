"""One run of a replica set model: faults for a number of actions, then healing, then the final checks.

Not here: the schedule (`sim.replica_sets.schedule`), the rules (`sim.replica_sets.invariants`).
"""

from collections.abc import Callable
from random import Random

from warren.sim.replica_sets.invariants import REST
from warren.sim.replica_sets.schedule import RandomSchedule
from warren.sim.replica_sets.world import NAMES, ReplicaSetWorld
from warren.sim.report import RunResult

HEALING_STEPS_MAX = 4_000


def run_replica_sets(seed: int, steps: int, sink: Callable[[str], None] | None = None) -> RunResult:
    """Run one seed; its size is drawn, too."""
    draw = Random(f"{seed}/ring")

    def write(who: str, what: str) -> None:
        assert sink is not None
        sink(f"{world.steps_taken:>8} {who:<12} {what}")

    size = draw.choice((2, 2, 3, 3, 3, 4, 5))
    promotes_unsynced = draw.random() < 0.1
    # sometimes not all nodes hold the queue
    members = NAMES[: draw.randint(1, size - 1)] if draw.random() < 0.2 else ()
    world = ReplicaSetWorld(size, promotes_unsynced, None if sink is None else write, members)
    chance = RandomSchedule(world, seed)
    rules = world.rules
    if draw.random() < 0.6:
        _come_together(world, chance)
    for _ in range(steps):
        action = chance.next_action()
        if action is not None:
            world.act(action)
        if rules.complaints:
            break
    if not rules.complaints:
        _heal(world, chance)
    return RunResult(
        seed,
        steps,
        tuple(rules.complaints),
        rules.published,
        len(rules.confirmed),
        world.steps_taken,
        world.seen,
        "--rings",
    )


def _come_together(world: ReplicaSetWorld, chance: RandomSchedule) -> None:
    """Bring all members in sync first."""
    while not world.rules.complaints:
        action = chance.next_calm_action()
        if action is None:
            break
        world.act(action)


def _heal(world: ReplicaSetWorld, chance: RandomSchedule) -> None:
    """Repair everything; the replica set must come to rest by itself."""
    for action in chance.heal():
        world.act(action)
    for _ in range(HEALING_STEPS_MAX):
        if world.rules.complaints:
            return
        calm = chance.next_calm_action()
        if calm is None:
            break
        world.act(calm)
    else:
        world.rules.complain(REST, "something goes on for ever")
    world.rules.ended()
