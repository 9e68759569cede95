"""The base of every simulated world: the clock, the event heap, client connections, and the base class of clients.

A step is one event: a piece of bytes arrives, a node takes its turn, a client acts, a fault strikes. Time stands still
in between. Two runs with one seed are identical to the last byte, with any hash seed of the interpreter.

**Connections.** Bytes arrive in order or not at all. Chance decides how they are cut into pieces, when a piece arrives,
and at which byte a connection breaks. The node's send buffer has two watermarks: above the high one writes are paused,
below the low one they are resumed. A stalled reader lets the buffer fill. A connection ends in one of four ways: the
node closes it (sent bytes still arrive), the client closes it (the same, the other way), it is reset (both sides are
told soon), or it goes silent (nothing arrives, and only the node's heartbeat and the client's timeout notice).
Invariant: for the observer, a method enters exactly when its last byte is handed to the node.

**Clients.** A client connects, does the handshake, reconnects when it is cut off, and sends heartbeats. Everything
after the handshake is pipelined: a client declares, subscribes and publishes without waiting for answers, so a cut may
fall between any two methods. Subclasses say what is done once the connection is open. `act` is called repeatedly; after
`calm` a client starts nothing new and finishes what it began.

Not here: nodes (`sim.process`), publishers and consumers (`sim.clients`, `sim.cluster.clients`), faults (`sim.faults`).
"""

import heapq
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random

from warren.broker.model.events import (
    BytesReceived,
    ConnectionDropped,
    ConnectionOpened,
    Event,
    WritesPaused,
    WritesResumed,
)
from warren.sim.history import PublishAttempt
from warren.sim.report import RunTrace, ViolationLog
from warren.wire.field_tables import Table
from warren.wire.frames import HEARTBEAT_FRAME, PROTOCOL_HEADER
from warren.wire.method_stream import MethodStream, ReceivedMethod
from warren.wire.methods import (
    BasicAck,
    BasicNack,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
    encode_method,
)

CLOSE_PATIENCE_MS = 3_000


@dataclass(slots=True, eq=False)
class SentMethod:
    """One method a client wrote, and its end offset in the stream."""

    channel: int
    method: Method
    attempt: PublishAttempt | None
    # the client knows that the node will close the channel for this
    provokes: bool
    end_offset: int = 0


def answered_tags(method: BasicAck | BasicNack | BasicReject, open_tags: Iterable[int]) -> list[int]:
    """The tags that an answer concerns, of publishes or deliveries; a single one even if it is not open."""
    last = method.delivery_tag
    multiple = not isinstance(method, BasicReject) and method.multiple
    return [tag for tag in open_tags if tag <= last] if multiple else [last]


class SimulatedNetwork:
    """Makes connections, and decides how long everything takes."""

    def __init__(self, world: "Simulation", chance: Random) -> None:
        self.world = world
        self.chance = chance
        self.links: dict[int, SimulatedConnection] = {}
        self.calm = False
        self.delay_ms_max = chance.choice((0, 2, 10, 40))
        self.cutting = chance.choice((0.0, 0.1, 0.5))
        # sides that were not told yet that their connection is over
        self.unnotified = 0
        self._serial = 0
        self._numbers: Counter[str] = Counter()

    def connect(self, client: "SimulatedClient", node: "SimulatedHost") -> "SimulatedConnection":
        self._serial += 1
        # every node numbers its own
        self._numbers[node.name] += 1
        link = SimulatedConnection(self, self._serial, self._numbers[node.name], client, node)
        self.links[self._serial] = link
        self.world.schedule(self.delay_ms(), link.reach_node)
        return link

    def delay_ms(self) -> int:
        return self.chance.randint(0, 1 if self.calm else self.delay_ms_max)

    def piece_bytes(self, waiting: int) -> int:
        """How many of the waiting bytes arrive at once."""
        if self.calm or self.chance.random() >= self.cutting:
            return waiting
        return min(waiting, self.chance.choice((1, 3, 7, 8, 100, self.chance.randint(1, waiting))))

    def heal(self) -> None:
        """From here on everything arrives soon and whole, and all clients read; silent connections are reset."""
        self.calm = True
        for link in list(self.links.values()):
            link.heal()

    def quiet(self) -> bool:
        """Whether nothing is in transit."""
        return self.unnotified == 0 and not any(link.busy() for link in self.links.values())


class SimulatedConnection:
    """One client's connection with one node."""

    def __init__(
        self, network: SimulatedNetwork, serial: int, number: int, client: "SimulatedClient", node: "SimulatedHost"
    ) -> None:
        # its number among all connections, and among those of its node
        self.serial = serial
        self.number = number
        self.client = client
        self.node = node
        self.high_water_bytes = network.chance.choice((1_000, 10_000, 1_000_000))
        self.low_water_bytes = self.high_water_bytes // 4
        self._network = network
        self._world = network.world
        # client to node
        self._up = bytearray()
        self._up_scheduled = False
        self._spoken: deque[SentMethod] = deque()
        self._written = 0
        self.handed_over = 0
        self._node_reads = True
        # node to client
        self._down = bytearray()
        self._down_scheduled = False
        self._client_reads = True
        self._writes_paused = False
        # after that many more bytes, in either direction, the connection is reset
        self._up_left: int | None = None
        self._down_left: int | None = None
        self._node_knows = False
        self._silent = False
        self._closed_by_node = False
        self._closed_by_client = False
        self._over = False

    # -- the client's side

    def client_writes(self, data: bytes, spoken: SentMethod | None) -> None:
        if self._over or self._closed_by_client:
            return
        self._up += data
        self._written += len(data)
        if spoken is not None:
            spoken.end_offset = self._written
            self._spoken.append(spoken)
        self._stir_up()

    def client_closes(self) -> None:
        """The client closes once all its bytes have arrived."""
        self._closed_by_client = True
        self._stir_up()

    def client_stalls(self, duration_ms: int) -> None:
        self._client_reads = False
        self._world.schedule(duration_ms, self.client_reads_again)

    def client_reads_again(self) -> None:
        self._client_reads = True
        self._stir_down()

    # -- the node's side

    def reach_node(self) -> None:
        if self._over:
            return
        if not self.node.up:
            self.node_died()
            return
        self._node_knows = True
        self.node.accept(self, ConnectionOpened(self.number, "127.0.0.1", 40_000 + self.number, "127.0.0.1", 5672))
        self._stir_up()

    def node_writes(self, data: bytes) -> None:
        if self._over or self._closed_by_node:
            return
        self._down += data
        if not self._writes_paused and len(self._down) > self.high_water_bytes:
            self._writes_paused = True
            self.node.add(WritesPaused(self.number))
        self._stir_down()

    def node_closes(self) -> None:
        self._closed_by_node = True
        self._up.clear()
        self._stir_down()
        # a client that does not read the rest is cut off
        self._world.schedule(CLOSE_PATIENCE_MS, self.reset)

    def node_reads(self, reads: bool) -> None:
        self._node_reads = reads
        if reads:
            self._stir_up()

    def buffered_bytes(self) -> int:
        return len(self._down)

    # -- the end

    def reset(self) -> None:
        """Bytes in transit are lost, and both sides learn of it."""
        if not self._over:
            self._end()
            self._notify_later(lambda: self.client.lost(self))
            if self._node_knows:
                self._notify_later(lambda: self.node.add(ConnectionDropped(self.number, "reset")))

    def node_died(self) -> None:
        """The node's process is gone: only the client is told."""
        if not self._over:
            self._end()
            self._notify_later(lambda: self.client.lost(self))

    def _notify_later(self, news: Callable[[], None]) -> None:
        def arrive() -> None:
            self._network.unnotified -= 1
            news()

        self._network.unnotified += 1
        self._world.schedule(self._network.delay_ms(), arrive)

    def break_after(self, up_bytes: int | None = None, down_bytes: int | None = None) -> None:
        """Reset once exactly that many more bytes have arrived at the node, or at the client."""
        self._up_left, self._down_left = up_bytes, down_bytes

    def go_silent(self, patience_ms: int) -> None:
        """Nothing arrives any more; the client gives up after a while."""
        self._silent = True
        self._world.schedule(patience_ms, self.reset)

    def heal(self) -> None:
        if self._silent:
            self.reset()
        else:
            self.client_reads_again()

    def busy(self) -> bool:
        """Whether bytes are in transit, in either direction, or it is about to end."""
        return bool(self._up or self._down or self._closed_by_client or self._closed_by_node)

    def _finish(self, reason: str) -> None:
        """An orderly end: both sides know at once."""
        self._end()
        self.client.lost(self)
        self.node.add(ConnectionDropped(self.number, reason))

    def _end(self) -> None:
        self._over = True
        self._up.clear()
        self._down.clear()
        self._network.links.pop(self.serial, None)
        self.node.forget(self)

    # -- pieces arriving

    def _stir_up(self) -> None:
        if not self._up_scheduled and self._node_knows and (self._up or self._closed_by_client):
            self._up_scheduled = True
            self._world.schedule(self._network.delay_ms(), self._arrive_at_node)

    def _arrive_at_node(self) -> None:
        self._up_scheduled = False
        if self._over or self._silent or not self._node_reads:
            return
        if self._up:
            size = _no_more_than(self._up_left, self._network.piece_bytes(len(self._up)))
            piece = bytes(self._up[:size])
            del self._up[:size]
            self.handed_over += size
            if piece:
                self.node.add(BytesReceived(self.number, piece), self._spoken_so_far())
            if self._up_left is not None:
                self._up_left -= size
                if self._up_left == 0:
                    self.reset()
                    return
        elif self._closed_by_client:
            self._finish("")
            return
        self._stir_up()

    def _spoken_so_far(self) -> list[SentMethod]:
        whole: list[SentMethod] = []
        while self._spoken and self._spoken[0].end_offset <= self.handed_over:
            whole.append(self._spoken.popleft())
        return whole

    def _stir_down(self) -> None:
        if not self._down_scheduled and (self._down or self._closed_by_node):
            self._down_scheduled = True
            self._world.schedule(self._network.delay_ms(), self._arrive_at_client)

    def _arrive_at_client(self) -> None:
        self._down_scheduled = False
        if self._over or self._silent or not self._client_reads:
            return
        if self._down:
            size = _no_more_than(self._down_left, self._network.piece_bytes(len(self._down)))
            piece = bytes(self._down[:size])
            del self._down[:size]
            if self._writes_paused and len(self._down) <= self.low_water_bytes:
                self._writes_paused = False
                self.node.add(WritesResumed(self.number))
            self.client.received(self, piece)
            if self._down_left is not None:
                self._down_left -= size
                if self._down_left == 0:
                    self.reset()
                    return
        elif self._closed_by_node:
            self._finish("")
            return
        self._stir_down()


def _no_more_than(limit: int | None, size: int) -> int:
    return size if limit is None else min(limit, size)


START_MS = 1_000_000


class SimulatedHost(ABC):
    """A host that clients connect to."""

    name: str
    up: bool

    @abstractmethod
    def accept(self, link: SimulatedConnection, event: ConnectionOpened) -> None: ...

    @abstractmethod
    def forget(self, link: SimulatedConnection) -> None: ...

    @abstractmethod
    def add(self, event: Event, spoken: list[SentMethod] | None = None) -> None: ...


class Simulation(ABC):
    """The time and the network of a world."""

    def __init__(self, seed: int, trace: RunTrace, checkers: ViolationLog) -> None:
        self.seed = seed
        self.now_ms = START_MS
        self.trace = trace
        self.checkers = checkers
        self.network = SimulatedNetwork(self, Random(f"{seed}/network"))
        self.steps_taken = 0
        self.clients: list[SimulatedClient] = []
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._serial = 0
        trace.now_ms = self.elapsed_ms

    @abstractmethod
    def hosts(self) -> Sequence[SimulatedHost]:
        """The hosts that clients choose from."""

    def elapsed_ms(self) -> int:
        return self.now_ms - START_MS

    def schedule(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._serial += 1
        heapq.heappush(self._heap, (self.now_ms + delay_ms, self._serial, action))

    def step(self) -> None:
        """Run the next event."""
        at_ms, _serial, action = heapq.heappop(self._heap)
        self.now_ms = at_ms
        self.steps_taken += 1
        action()

    def run_until(self, met: Callable[[], bool], steps_max: int) -> bool:
        """Step until a condition is met, the steps are used up or a rule is broken; whether the condition was met."""
        for _ in range(steps_max):
            if met() or self.checkers.complaints:
                break
            self.step()
        return met()


BEAT_AFTER_MS = 500
CAPABILITIES: Table = {
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "basic.nack": True,
    "publisher_confirms": True,
}


class SimulatedClient:
    """The behaviour of all clients."""

    def __init__(self, world: "Simulation", name: str, topology: list[Method]) -> None:
        self.world = world
        self.name = name
        self.chance = Random(f"{world.seed}/{name}")
        self.topology = topology
        self.link: SimulatedConnection | None = None
        self.is_open = False
        self.calmed = False
        self.connections = 0
        # 131,072 is the node's offer; a small one makes it split bodies into several frames
        self.frame_max = self.chance.choice((131_072, 131_072, 4_096))
        self.pace_ms = self.chance.choice((10, 50, 200, 500))
        self._stream = MethodStream()
        self._written_at_ms = 0
        world.clients.append(self)
        world.schedule(self.chance.randint(0, 50), self._connect)
        world.schedule(self.pace_ms, self._tick)

    # -- for subclasses

    def opened(self) -> None:
        """The connection is open."""

    def act(self) -> None:
        """Some time has passed."""

    def method_received(self, received: ReceivedMethod) -> None:
        """The node sent a method on a channel."""

    def channel_ended(self, number: int) -> None:
        """The node closed a channel."""

    def cut_off(self) -> None:
        """The connection is gone."""

    def done(self) -> bool:
        """Whether nothing is left to finish."""
        return True

    def waiting_for(self) -> str:
        return ""

    # -- for use by subclasses

    def calm(self) -> None:
        self.calmed = True
        self.pace_ms = 5

    def send(
        self,
        channel: int,
        method: Method,
        attempt: PublishAttempt | None = None,
        content: bytes = b"",
        provokes: bool = False,
    ) -> None:
        if self.link is not None:
            self._written_at_ms = self.world.now_ms
            self.link.client_writes(
                encode_method(channel, method) + content, SentMethod(channel, method, attempt, provokes)
            )

    def declare(self, channel: int) -> None:
        """Declare everything the workload uses."""
        for method in self.topology:
            self.send(channel, method)

    def close_in_order(self) -> None:
        """Close the connection in order; a new one follows."""
        self.is_open = False
        self.send(0, ConnectionClose(reply_code=200, reply_text="bye"))

    # -- the connection

    def received(self, link: SimulatedConnection, data: bytes) -> None:
        if link is self.link:
            for received in self._stream.feed(data):
                self._handle_method(received)

    def lost(self, link: SimulatedConnection) -> None:
        if link is not self.link:
            return
        self.world.trace.write(self.name, f"lost #{link.number}")
        self.link = None
        self.is_open = False
        self.cut_off()
        self.world.schedule(self.chance.randint(1, 20 if self.calmed else 200), self._connect)

    def _connect(self) -> None:
        self.connect_to(self.chance.choice(self.world.hosts()))

    def connect_to(self, host: "SimulatedHost") -> None:
        self.connections += 1
        self._stream = MethodStream()
        self.link = self.world.network.connect(self, host)
        self.world.trace.write(self.name, f"connects as #{self.link.number}")
        self._written_at_ms = self.world.now_ms
        self.link.client_writes(PROTOCOL_HEADER, None)

    def _tick(self) -> None:
        if self.is_open and self.link is not None:
            self.act()
            if self.world.now_ms - self._written_at_ms >= BEAT_AFTER_MS:
                self._written_at_ms = self.world.now_ms
                self.link.client_writes(HEARTBEAT_FRAME, None)
        self.world.schedule(self.chance.randint(1, self.pace_ms), self._tick)

    def _handle_method(self, received: ReceivedMethod) -> None:
        method = received.method
        if isinstance(method, ConnectionStart):
            self.send(0, ConnectionStartOk("PLAIN", b"\0guest\0guest", {"capabilities": CAPABILITIES}))
        elif isinstance(method, ConnectionTune):
            self.send(0, ConnectionTuneOk(method.channel_max, self.frame_max, method.heartbeat))
            self.send(0, ConnectionOpen())
        elif isinstance(method, ConnectionOpenOk):
            self.is_open = True
            self.opened()
        elif isinstance(method, ConnectionClose):
            self.is_open = False
            self.send(0, ConnectionCloseOk())
            self._hang_up()
        elif isinstance(method, ConnectionCloseOk):
            self._hang_up()
        elif isinstance(method, ChannelClose):
            self.send(received.channel, ChannelCloseOk())
            self.channel_ended(received.channel)
        elif self.is_open:
            self.method_received(received)

    def _hang_up(self) -> None:
        if self.link is not None:
            self.link.client_closes()
