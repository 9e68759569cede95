"""One run of a cluster: founding, faults for a number of steps, then healing, then the final checks.

Not here: the clients (`sim.cluster.workload`), the faults (`sim.cluster.faults`), the rules (`sim.cluster.ledger`,
`sim.cluster.invariants`).
"""

from collections.abc import Callable
from random import Random

from warren.sim.cluster.faults import ClusterFaults
from warren.sim.cluster.nodes import MakeInterceptor
from warren.sim.cluster.workload import ClusterWorkload
from warren.sim.cluster.world import ClusterWorld
from warren.sim.report import RunResult, RunTrace, ViolationLog

FOUNDING_STEPS_MAX = 20_000
HEALING_STEPS_MAX = 200_000
QUIET_MS = 60_000
"""A healed cluster that is not at rest after that much time is stuck."""


def run_cluster(
    seed: int,
    steps: int,
    nodes: int,
    sink: Callable[[str], None] | None = None,
    make_interceptor: MakeInterceptor | None = None,
) -> RunResult:
    """Run one seed."""
    checkers = ViolationLog()
    world = ClusterWorld(seed, nodes, RunTrace(sink), checkers, make_interceptor)
    chance = Random(f"{seed}/run")
    workload = ClusterWorkload(world)
    _come_together(world, workload, chance)
    faults = ClusterFaults(world, every_ms=chance.choice((300, 1_000, 3_000, 1_000_000)))
    world.run_until(lambda: False, steps)
    if not checkers.complaints:
        world.trace.write("world", "heals")
        faults.heal()
        workload.calm()
        _rest(world, workload)
    again = f"--nodes {nodes}"
    return RunResult(
        seed, steps, tuple(checkers.complaints), *world.ledger.counts(), world.steps_taken, world.seen, again
    )


def _come_together(world: ClusterWorld, workload: ClusterWorkload, chance: Random) -> None:
    """Clients begin while the first node is alone, or when all nodes are there."""
    early = chance.random() < 0.5
    if early:
        _await(world, "what lasts is declared", workload.founder.done)
        workload.begin()
        world.run_until(lambda: False, chance.randint(0, 300))
    _await(world, "the first node runs", lambda: world.members[0].up and world.elapsed_ms() > 0)
    world.found()
    _await(world, "the cluster is founded", lambda: world.members[0].is_member)
    world.join()
    _await(world, "everybody is connected", world.whole)
    if not early:
        _await(world, "what lasts is declared", workload.founder.done)
        workload.begin()


def _rest(world: ClusterWorld, workload: ClusterWorkload) -> None:
    """All clients finish, the queues are drained, and the final checks run."""
    _await(world, "everybody is back, and errands are done", lambda: world.whole() and workload.lifecycles_done())
    # the draining consumers would keep them
    _await(world, "what was deserted is gone", lambda: not world.rules.deserted())
    workload.drain()
    _await(world, "the cluster is at rest", lambda: not world.rules.unsettled())
    if not world.checkers.complaints:
        world.rules.ended()


def _await(world: ClusterWorld, what: str, met: Callable[[], bool]) -> None:
    if world.checkers.complaints:
        return
    until_ms = world.now_ms + QUIET_MS
    world.run_until(lambda: world.now_ms > until_ms or met(), HEALING_STEPS_MAX)
    if not world.checkers.complaints and not met():
        reason = world.rules.unsettled()
        world.checkers.complain("no client waits for ever", f"it never came to pass that {what}: {reason}")
