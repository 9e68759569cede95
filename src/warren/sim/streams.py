"""The simulation of streams on one node: world, faults, clients, ledger, and the run.

Publishers publish each message once; readers continue where they were, or start again. At the end of a run every stream
is read from its beginning.

Not here: nodes (`sim.cluster.nodes`), streams in a cluster (`tests/simulation/cluster`).
"""

from collections.abc import Callable
from functools import partial
from random import Random

from warren.broker.model.settings import BrokerSettings
from warren.broker.streams.stream import Stream
from warren.sim.cluster.nodes import SimulatedCluster, SimulatedClusterNode
from warren.sim.faults import DANGEROUS_STEPS, WorldFaults, strike_at_step
from warren.sim.process import HEARTBEAT_S
from warren.sim.report import RunResult, RunTrace, ViolationLog
from warren.sim.simulation import SimulatedClient, Simulation, answered_tags
from warren.wire.field_tables import Table
from warren.wire.frames import content_frames
from warren.wire.method_stream import ReceivedMethod
from warren.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicNack,
    BasicPublish,
    BasicQos,
    ChannelOpen,
    ConfirmSelect,
    Method,
    QueueDeclare,
)
from warren.wire.properties import Properties, decode_properties, encode_header_payload

MEMORY_LIMIT_BYTES = 40_000_000
ARCHIVE_STEPS = (
    "cut archive",
    "write archive",
    "flush archive",
    "sync archive directory",
    "drop archive",
)


class StreamWorld(SimulatedCluster):
    """A cluster of one that must never find a stream damaged."""

    damage_rule = "nothing is damaged"

    def __init__(self, seed: int, trace: RunTrace, checkers: ViolationLog) -> None:
        chance = Random(f"{seed}/settings")
        # with little memory every flush makes a chunk
        self.tight = chance.random() < 0.7
        settings = BrokerSettings(
            heartbeat_s=HEARTBEAT_S,
            segment_bytes=chance.choice((2_000, 30_000, 4_000_000)),
            paging_ratio=0.0 if self.tight else 2.0,
        )
        super().__init__(seed, 1, trace, checkers, settings=lambda _name: settings)
        self.node = self.members[0]

    def memory_limit_bytes(self) -> int:
        return MEMORY_LIMIT_BYTES

    def turned(self, member: SimulatedClusterNode) -> None:
        try:
            member.broker.check()
        except Exception as error:
            self.checkers.complain("the node checks itself", f"{type(error).__name__}: {error}")


class StreamFaults(WorldFaults):
    """Deaths at every step, slow disks and full ones."""

    def __init__(self, world: StreamWorld) -> None:
        super().__init__(world)
        self._node = world.node
        self._every_ms = self._chance.choice((100, 400, 2_000))
        self._wait()

    def _draw(self) -> Callable[[], None]:
        kinds = (self._ambush, self._ambush, self._ambush, self._die, self._slow, self._full, self._stop)
        return self._chance.choice(kinds)

    def _ambush(self) -> None:
        """The node will die at some step of its disk's work."""
        step = self._chance.choice(("", *ARCHIVE_STEPS, *ARCHIVE_STEPS, *DANGEROUS_STEPS))
        strike_at_step(self._node.disk, step, self._chance.randint(1, 4), self._caught)

    def _caught(self, step: str) -> None:
        self._world.seen[f"died at {step}"] += 1
        self._world.schedule(0, self._die)

    def _die(self) -> None:
        if self._healed:
            return
        node = self._node
        self._chance.choice((node.kill, node.lose_power, node.lose_power))(self._chance.choice((0, 50)))

    def _stop(self) -> None:
        self._node.stop(50)

    def _slow(self) -> None:
        disk = self._node.disk
        disk.slow = True
        self._world.schedule(500, lambda: setattr(disk, "slow", False))

    def _full(self) -> None:
        disk = self._node.disk
        disk.full = True
        self._world.schedule(200, lambda: setattr(disk, "full", False))


class StreamLedger:
    """What clients of one stream were told. `dropping`: the stream has a size limit."""

    def __init__(self, name: str, dropping: bool, complain: Callable[[str], None]) -> None:
        self.name = name
        self.dropping = dropping
        self.published = 0
        self.confirmed: set[str] = set()
        self.read_count = 0
        self._complain = complain
        self._by_offset: dict[int, str] = {}
        self._by_message: dict[str, int] = {}

    def saw(self, reader: str, offset: int, before: int | None, message: str) -> None:
        """A reader got this message; `before` is the offset of the one before."""
        self.read_count += 1
        if before is not None and (offset <= before or (offset != before + 1 and not self.dropping)):
            self._complain(f"{reader} was given offset {offset} of {self.name} after {before}")
        known = self._by_offset.setdefault(offset, message)
        if known != message:
            self._complain(f"offset {offset} of {self.name} was {known}, and {reader} was given {message}")
        if self._by_message.setdefault(message, offset) != offset:
            self._complain(f"{message} of {self.name} has offsets {self._by_message[message]} and {offset}")

    def highest(self) -> int:
        return max(self._by_offset, default=-1)

    def check(self, whole: dict[int, str]) -> None:
        """The stream was read from beginning to end, after the last publish."""
        last: dict[str, int] = {}
        for offset in sorted(whole):
            publisher, _, number = whole[offset].partition(" ")
            if int(number) <= last.get(publisher, 0):
                self._complain(f"{whole[offset]} of {self.name} comes after number {last[publisher]}")
            last[publisher] = int(number)
        # a message seen once is still there, from the first offset on
        beginning = min(whole, default=0) if self.dropping else 0
        missing = [offset for offset in range(beginning, max(self.highest(), 0)) if offset not in whole]
        if missing:
            self._complain(f"{self.name} has no offset {missing[0]}, and {len(missing) - 1} others")
        lost = self.confirmed.difference(whole.values())
        if lost and not self.dropping:
            self._complain(f"{self.name} lost {min(lost)}, which was confirmed, and {len(lost) - 1} others")


CHANNEL = 1
WINDOW = 40


class SimulatedStreamPublisher(SimulatedClient):
    """Publishes to one stream, with confirms. Messages unconfirmed when a connection ends are not published again."""

    def __init__(
        self, world: "Simulation", name: str, topology: list[Method], ledger: StreamLedger, sizes: tuple[int, ...]
    ) -> None:
        super().__init__(world, name, topology)
        self._ledger = ledger
        self._sizes = sizes
        self._number = 0
        self._tag = 0
        self._unconfirmed: dict[int, str] = {}

    def opened(self) -> None:
        self._tag = 0
        self._unconfirmed.clear()
        self.send(CHANNEL, ChannelOpen())
        self.declare(CHANNEL)
        self.send(CHANNEL, ConfirmSelect())

    def act(self) -> None:
        if self.calmed:
            return
        for _ in range(min(self.chance.randint(0, 8), WINDOW - len(self._unconfirmed))):
            self._publish()

    def _publish(self) -> None:
        self._number += 1
        self._tag += 1
        self._ledger.published += 1
        message = f"{self.name} {self._number}"
        body = message.encode().ljust(self.chance.choice(self._sizes), b".")
        payload = encode_header_payload(Properties(delivery_mode=self.chance.choice((1, 2))), len(body))
        self._unconfirmed[self._tag] = message
        content = content_frames(payload, body, CHANNEL, self.frame_max)
        self.send(CHANNEL, BasicPublish("", self._ledger.name), content=content)

    def method_received(self, received: ReceivedMethod) -> None:
        method = received.method
        if isinstance(method, BasicAck | BasicNack):
            for tag in answered_tags(method, self._unconfirmed):
                message = self._unconfirmed.pop(tag)
                if isinstance(method, BasicAck):
                    self._ledger.confirmed.add(message)

    def cut_off(self) -> None:
        self._unconfirmed.clear()

    def done(self) -> bool:
        return not self._unconfirmed

    def waiting_for(self) -> str:
        return f"{len(self._unconfirmed)} confirms"


class SimulatedStreamReader(SimulatedClient):
    """Reads one stream. A `thorough` one begins with the first message, and remembers all."""

    def __init__(
        self, world: "Simulation", name: str, topology: list[Method], ledger: StreamLedger, thorough: bool = False
    ) -> None:
        super().__init__(world, name, topology)
        self.whole: dict[int, str] = {}
        self._ledger = ledger
        self._thorough = thorough
        self._prefetch = self.chance.choice((1, 3, 20, 200))
        self._ack_every = self.chance.randint(1, self._prefetch)
        self._before: int | None = None
        self._seen_to = -1

    def opened(self) -> None:
        self._before = None
        self.whole = {}
        self.send(CHANNEL, ChannelOpen())
        self.declare(CHANNEL)
        self.send(CHANNEL, BasicQos(prefetch_count=self._prefetch))
        anew = self._thorough or self.chance.random() < 0.3
        arguments: Table = {"x-stream-offset": "first" if anew else self._seen_to + 1}
        self.send(CHANNEL, BasicConsume(self._ledger.name, arguments=arguments))

    def act(self) -> None:
        if not self._thorough and not self.calmed and self.chance.random() < 0.02:
            self.close_in_order()

    def method_received(self, received: ReceivedMethod) -> None:
        method = received.method
        if not isinstance(method, BasicDeliver):
            return
        headers = decode_properties(received.header, 0, len(received.header)).headers or {}
        offset = headers["x-stream-offset"]
        assert isinstance(offset, int)
        message = received.body.decode().rstrip(".")
        self._ledger.saw(self.name, offset, self._before, message)
        self._before = offset
        self._seen_to = max(self._seen_to, offset)
        if self._thorough:
            self.whole[offset] = message
        if method.delivery_tag % self._ack_every == 0:
            self.send(CHANNEL, BasicAck(method.delivery_tag, multiple=True))

    def has_come_to(self, offset: int) -> bool:
        return self._before is not None and self._before >= offset


HEALING_STEPS_MAX = 200_000
SMALL = (20, 20, 300, 3_000)
LARGE = (20_000, 100_000, 400_000)


def run_streams(seed: int, steps: int) -> RunResult:
    checkers = ViolationLog()
    world = StreamWorld(seed, RunTrace(None), checkers)
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
            SimulatedStreamPublisher(world, f"{ledger.name}-publisher{number}", topology, ledger, sizes)
        for number in range(chance.randint(1, 3)):
            SimulatedStreamReader(world, f"{ledger.name}-reader{number}", topology, ledger)
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
    return RunResult(seed, steps, tuple(checkers.complaints), published, confirmed, world.steps_taken, world.seen)


def _arguments(chance: Random, dropping: bool) -> Table:
    arguments: Table = {
        "x-queue-type": "stream",
        "x-stream-max-segment-size-bytes": chance.choice((2_000, 20_000, 8_000_000)),
    }
    if dropping:
        arguments["x-max-length-bytes"] = 50_000
    return arguments


def _reckon(world: StreamWorld, topology: list[Method], ledgers: list[StreamLedger]) -> None:
    """When all clients are done, read everything."""
    if not world.run_until(lambda: _is_quiet(world), HEALING_STEPS_MAX):
        _give_up(world, "the world does not come to rest")
        return
    for ledger in ledgers:
        auditor = SimulatedStreamReader(world, f"{ledger.name}-auditor", topology, ledger, thorough=True)
        if not world.run_until(partial(_has_all, world, ledger, auditor), HEALING_STEPS_MAX):
            _give_up(world, f"{ledger.name} is not read to its end")
            return
        ledger.check(auditor.whole)


def _is_quiet(world: StreamWorld) -> bool:
    return world.node.up and not world.node.busy() and all(client.done() for client in world.clients)


def _has_all(world: StreamWorld, ledger: StreamLedger, auditor: SimulatedStreamReader) -> bool:
    stream = world.node.broker.vhosts["/"].own_queue(ledger.name) if world.node.up else None
    if not isinstance(stream, Stream):
        return False
    end = stream.end_offset()
    return auditor.has_come_to(end - 1) or (auditor.is_open and end == 0)


def _give_up(world: StreamWorld, why: str) -> None:
    if not world.checkers.complaints:
        world.checkers.complain("the world heals", why)
