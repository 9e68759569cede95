"""One run: chaos for so many steps, then healing, then every stream is read from its beginning.

Not here: what happens in a run (`sim.streams.world`), what must hold (`sim.streams.ledger`).
"""

from functools import partial
from random import Random

from warren.sim.checkers import Checkers
from warren.sim.outcome import Outcome
from warren.sim.streams.clients import StreamPublisher, StreamReader
from warren.sim.streams.ledger import StreamLedger
from warren.sim.streams.world import StreamFaults, StreamWorld
from warren.sim.trace import Trace
from warren.stream.stream import Stream
from warren.wire.methods import Method, QueueDeclare
from warren.wire.values import Table

HEALING_STEPS_MAX = 200_000
SMALL = (20, 20, 300, 3_000)
LARGE = (20_000, 100_000, 400_000)


def run(seed: int, steps: int) -> Outcome:
    checkers = Checkers([])
    world = StreamWorld(seed, Trace(None), checkers)
    chance = Random(f"{seed}/run")
    topology: list[Method] = []
    ledgers: list[StreamLedger] = []
    for name in ("log", "ring") if chance.random() < 0.5 else ("log",):
        arguments = _arguments(chance, dropping=name == "ring")
        topology.append(QueueDeclare(name, durable=True, arguments=arguments))
        ledgers.append(StreamLedger(name, name == "ring", lambda text: checkers.complain("offsets", text)))
    sizes = SMALL if world.tight else LARGE
    for ledger in ledgers:
        for number in range(chance.randint(1, 2)):
            StreamPublisher(world, f"{ledger.name}-publisher{number}", topology, ledger, sizes)
        for number in range(chance.randint(1, 3)):
            StreamReader(world, f"{ledger.name}-reader{number}", topology, ledger)
    faults = StreamFaults(world)
    world.run_until(lambda: False, steps)
    if not checkers.complaints:
        faults.heal()
        for client in world.clients:
            client.calm()
        _reckon(world, topology, ledgers)
    published = sum(ledger.published for ledger in ledgers)
    confirmed = sum(len(ledger.confirmed) for ledger in ledgers)
    world.seen["read"] = sum(ledger.read_count for ledger in ledgers)
    return Outcome(seed, steps, tuple(checkers.complaints), published, confirmed, world.steps_taken, world.seen)


def _arguments(chance: Random, dropping: bool) -> Table:
    arguments: Table = {
        "x-queue-type": "stream",
        "x-stream-max-segment-size-bytes": chance.choice((2_000, 20_000, 8_000_000)),
    }
    if dropping:
        arguments["x-max-length-bytes"] = 50_000
    return arguments


def _reckon(world: StreamWorld, topology: list[Method], ledgers: list[StreamLedger]) -> None:
    """Everybody is done; then somebody reads everything."""
    if not world.run_until(lambda: _is_quiet(world), HEALING_STEPS_MAX):
        _give_up(world, "the world does not come to rest")
        return
    for ledger in ledgers:
        auditor = StreamReader(world, f"{ledger.name}-auditor", topology, ledger, thorough=True)
        if not world.run_until(partial(_has_all, world, ledger, auditor), HEALING_STEPS_MAX):
            _give_up(world, f"{ledger.name} is not read to its end")
            return
        ledger.check(auditor.whole)


def _is_quiet(world: StreamWorld) -> bool:
    return world.node.up and not world.node.busy() and all(client.done() for client in world.clients)


def _has_all(world: StreamWorld, ledger: StreamLedger, auditor: StreamReader) -> bool:
    stream = world.node.broker.vhosts["/"].own_queue(ledger.name) if world.node.up else None
    if not isinstance(stream, Stream):
        return False
    end = stream.end_offset()
    return auditor.has_come_to(end - 1) or (auditor.is_open and end == 0)


def _give_up(world: StreamWorld, why: str) -> None:
    if not world.checkers.complaints:
        world.checkers.complain("the world heals", why)
