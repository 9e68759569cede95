"""One run of a single node: faults for a number of steps, then healing, then the final checks, then one more restart.

    outcome = run_node(seed, steps)                 quiet
    outcome = run_node(seed, steps, sink=print)     the same run with its trace

Not here: the clients (`sim.workload`), the faults (`sim.faults`), the rules (`sim.invariants`).
"""

from collections.abc import Callable
from random import Random

from warren.sim.faults import NodeFaults
from warren.sim.invariants import durability_invariants, final_invariants, step_invariants
from warren.sim.observer import Invariant, InvariantSet
from warren.sim.process import Interceptor
from warren.sim.report import RunResult, RunTrace
from warren.sim.workload import NodeWorkload
from warren.sim.world import NodeWorld, PolicyOperator

HEALING_STEPS_MAX = 100_000


def run_node(
    seed: int,
    steps: int,
    sink: Callable[[str], None] | None = None,
    interceptor: Interceptor | None = None,
    rules: list[Invariant] | None = None,
) -> RunResult:
    """Run one seed with all rules, or with chosen ones."""
    checkers = InvariantSet(
        [*step_invariants(), *durability_invariants(), *final_invariants()] if rules is None else rules
    )
    trace = RunTrace(sink)
    world = NodeWorld(seed, trace, checkers, interceptor)
    chance = Random(f"{seed}/run")
    workload = NodeWorkload(world)
    operator = PolicyOperator(world)
    world.operator = operator
    if rules is None:
        checkers.members.append(operator)
    faults = NodeFaults(world, every_ms=chance.choice((30, 150, 600, 1_000_000)), deaths=chance.random() < 0.6)
    world.run_until(lambda: False, steps)
    if not checkers.complaints:
        trace.write("world", "heals")
        faults.heal()
        workload.calm()
        operator.calm()
        world.run_until(workload.settled, HEALING_STEPS_MAX)
        if not checkers.complaints:
            checkers.ended(world.node.observer)
        if not checkers.complaints:
            _die_once_more(world, workload, chance)
    return RunResult(seed, steps, tuple(checkers.complaints), *world.history.counts(), world.steps_taken, world.seen)


def _die_once_more(world: NodeWorld, workload: NodeWorkload, chance: Random) -> None:
    """Everything is acked and on disk, so however the node ends, the next life finds exactly that."""
    lives = [node.lives for node in world.members]
    for node in world.members:
        chance.choice((node.stop, node.kill, node.lose_power))()
    world.run_until(lambda: [node.lives for node in world.members] != lives and workload.settled(), HEALING_STEPS_MAX)
    if not world.checkers.complaints:
        world.checkers.rested(world.node.observer)
