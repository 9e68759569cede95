"""Client connections as two streams of bytes that take their time.

Bytes arrive in order or not at all; how they are cut into pieces, when a piece arrives, and at which byte a connection
breaks is chance. The node's side of a link has a send buffer with two marks: above the high one the node is told that
writes are paused, below the low one that they are resumed. A reader that stalls lets the buffer fill.

A link ends in one of four ways: the node closes it (what was sent still arrives), the client closes it (the same, the
other way), it is reset (both sides are told soon), or it goes silent (nothing arrives any more and nobody is told; the
node's heartbeat and the client's patience must find out).

Invariant: a method counts as entered, for the witness, exactly when its last byte is handed to the node.

Not here: what the bytes mean (`sim.client`, `warren.session`); which link breaks when (`sim.faults`).
"""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from warren.model.events import BytesReceived, ConnectionLost, ConnectionOpened, WritesPaused, WritesResumed
from warren.sim.history import Attempt
from warren.wire.methods import Method

if TYPE_CHECKING:
    from warren.sim.client import Client
    from warren.sim.clockwork import Clockwork, Host

CLOSE_PATIENCE_MS = 3_000


@dataclass(slots=True, eq=False)
class Spoken:
    """One method a client wrote, and the offset in its stream that it ends at."""

    channel: int
    method: Method
    attempt: Attempt | None
    # the client knows that the node will close the channel for this
    provokes: bool
    end_offset: int = 0


class Network:
    """Makes links, and decides how long everything takes."""

    def __init__(self, world: "Clockwork", chance: Random) -> None:
        self.world = world
        self.chance = chance
        self.links: dict[int, Link] = {}
        self.calm = False
        self.delay_ms_max = chance.choice((0, 2, 10, 40))
        self.cutting = chance.choice((0.0, 0.1, 0.5))
        # sides that were not told yet that their link is over
        self.untold = 0
        self._serial = 0
        self._numbers: Counter[str] = Counter()

    def connect(self, client: "Client", node: "Host") -> "Link":
        self._serial += 1
        # every node counts its own
        self._numbers[node.name] += 1
        link = Link(self, self._serial, self._numbers[node.name], client, node)
        self.links[self._serial] = link
        self.world.schedule(self.delay_ms(), link.reach_node)
        return link

    def delay_ms(self) -> int:
        return self.chance.randint(0, 1 if self.calm else self.delay_ms_max)

    def piece_bytes(self, waiting: int) -> int:
        """How many of the bytes that wait arrive at once."""
        if self.calm or self.chance.random() >= self.cutting:
            return waiting
        return min(waiting, self.chance.choice((1, 3, 7, 8, 100, self.chance.randint(1, waiting))))

    def heal(self) -> None:
        """From here on everything arrives soon and whole, and everyone reads; what fell silent is given up."""
        self.calm = True
        for link in list(self.links.values()):
            link.heal()

    def quiet(self) -> bool:
        """Whether nothing is on its way."""
        return self.untold == 0 and not any(link.busy() for link in self.links.values())


class Link:
    """One client's connection with one node."""

    def __init__(self, network: Network, serial: int, number: int, client: "Client", node: "Host") -> None:
        # among all links, among those of its node
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
        self._spoken: deque[Spoken] = deque()
        self._written = 0
        self.handed_over = 0
        self._node_reads = True
        # node to client
        self._down = bytearray()
        self._down_scheduled = False
        self._client_reads = True
        self._writes_paused = False
        # after so many more bytes, in either direction, the link is reset
        self._up_left: int | None = None
        self._down_left: int | None = None
        self._node_knows = False
        self._silent = False
        self._closed_by_node = False
        self._closed_by_client = False
        self._over = False

    # -- the client's side

    def client_writes(self, data: bytes, spoken: Spoken | None) -> None:
        if self._over or self._closed_by_client:
            return
        self._up += data
        self._written += len(data)
        if spoken is not None:
            spoken.end_offset = self._written
            self._spoken.append(spoken)
        self._stir_up()

    def client_closes(self) -> None:
        """The client hangs up once all it wrote has arrived."""
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
        # a client that does not read what is left is not waited for
        self._world.schedule(CLOSE_PATIENCE_MS, self.reset)

    def node_reads(self, reads: bool) -> None:
        self._node_reads = reads
        if reads:
            self._stir_up()

    def buffered_bytes(self) -> int:
        return len(self._down)

    # -- how it ends

    def reset(self) -> None:
        """Whatever is on its way is lost, and both sides learn of it."""
        if not self._over:
            self._end()
            self._tell(lambda: self.client.lost(self))
            if self._node_knows:
                self._tell(lambda: self.node.add(ConnectionLost(self.number, "reset")))

    def node_died(self) -> None:
        """The node's process is gone: nobody is left to tell but the client."""
        if not self._over:
            self._end()
            self._tell(lambda: self.client.lost(self))

    def _tell(self, news: Callable[[], None]) -> None:
        def arrive() -> None:
            self._network.untold -= 1
            news()

        self._network.untold += 1
        self._world.schedule(self._network.delay_ms(), arrive)

    def break_after(self, up_bytes: int | None = None, down_bytes: int | None = None) -> None:
        """Reset once exactly so many more bytes have arrived at the node, or at the client."""
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
        """Whether bytes are on their way, in either direction, or it is about to end."""
        return bool(self._up or self._down or self._closed_by_client or self._closed_by_node)

    def _finish(self, reason: str) -> None:
        """An orderly end: both sides know at once."""
        self._end()
        self.client.lost(self)
        self.node.add(ConnectionLost(self.number, reason))

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

    def _spoken_so_far(self) -> list[Spoken]:
        whole: list[Spoken] = []
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
