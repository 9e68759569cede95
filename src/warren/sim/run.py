"""One run of the simulator: chaos for so many steps, then healing, then the reckoning, then one more death in peace.

    outcome = run(seed, steps)        quiet
    code = replay(seed, steps)        the same run, told line by line; 0 if it was good, 1 if not

Not here: what happens in a run (`sim.workload`, `sim.faults`), what must hold (`sim.checkers`, `sim.validations`).
"""

from collections.abc import Callable
from random import Random

from warren.sim.checkers import Checker, Checkers, invariants
from warren.sim.durability import durability
from warren.sim.faults import Faults
from warren.sim.history import CONFIRMED
from warren.sim.operator import Operator
from warren.sim.outcome import Outcome
from warren.sim.process import Meddler
from warren.sim.trace import Trace
from warren.sim.validations import validations
from warren.sim.workload import Workload
from warren.sim.world import World

HEALING_STEPS_MAX = 100_000


def run(
    seed: int,
    steps: int,
    sink: Callable[[str], None] | None = None,
    meddler: Meddler | None = None,
    rules: list[Checker] | None = None,
) -> Outcome:
    """Run one seed; `rules` are all there are unless some are chosen."""
    checkers = Checkers([*invariants(), *durability(), *validations()] if rules is None else rules)
    trace = Trace(sink)
    world = World(seed, trace, checkers, meddler)
    chance = Random(f"{seed}/run")
    workload = Workload(world)
    operator = Operator(world)
    world.operator = operator
    if rules is None:
        checkers.members.append(operator)
    faults = Faults(world, every_ms=chance.choice((30, 150, 600, 1_000_000)), deaths=chance.random() < 0.6)
    world.run_until(lambda: False, steps)
    if not checkers.complaints:
        trace.say("world", "heals")
        faults.heal()
        workload.calm()
        operator.calm()
        world.run_until(workload.settled, HEALING_STEPS_MAX)
        if not checkers.complaints:
            checkers.ended(world)
        if not checkers.complaints:
            _die_once_more(world, workload, chance)
    attempts = world.history.attempts.values()
    confirmed = sum(1 for attempt in attempts if attempt.state == CONFIRMED)
    return Outcome(
        seed, steps, tuple(checkers.complaints), len(attempts), confirmed, world.steps_taken, world.history.seen
    )


def _die_once_more(world: World, workload: Workload, chance: Random) -> None:
    """Everything is settled and on disk, so however the node ends, the next life finds all that and no more."""
    lives = [node.lives for node in world.nodes]
    for node in world.nodes:
        chance.choice((node.stop, node.kill, node.lose_power))()
    world.run_until(lambda: [node.lives for node in world.nodes] != lives and workload.settled(), HEALING_STEPS_MAX)
    if not world.checkers.complaints:
        world.checkers.rested(world)


def replay(seed: int, steps: int) -> int:
    """Run one seed and print what happens."""
    outcome = run(seed, steps, sink=print)
    print(outcome.verdict())
    return 0 if outcome.good else 1
