"""The turn: all waiting events go through the broker at once, and its effects are carried out in order.

::

    socket reads, timers, signals ──add──► events ──one call a turn──► broker.handle ──► effects ──► sockets, timer, log

The first event of a turn asks the loop for one call; events before that call join the same turn. Nothing sleeps to
batch: the busier the node, the larger its turns.

Invariants:

- The broker is entered from `_run` alone, never from inside an effect. An event that an effect causes (a full socket
  buffer) waits for the next turn. `add_now` is for callbacks of the loop, not for effects.
- `links` holds the connections that may still be written to. A closing connection has moved to `lingering`; a lost one
  is in neither. Effects for a connection that is not in `links` are dropped: it went while the turn was running.
- An exception from the broker or from an effect ends the node. A broker that broke its own rules must not be called
  again.

Orders for the disk go to its threads, orders for other nodes to the peer connections (`attach`); without them the
broker must not give any. Orders for other nodes are carried out first: the disk may start at once, on this thread, and
the other replicas would wait for it. No message to a node relies on a disk order of the same turn, because its
completion time is unknown.

The timer: the broker has one timer and moves it often. A later time leaves the loop's handle in place and is checked
when it fires, so a busy node seldom arms a handle. The broker is never woken before the time it asked for.

The clock: wall time in whole milliseconds that never runs backwards. The wall clock is read once, at start; from then
on the monotonic clock counts. So a clock that is set back neither expires messages early nor delays a timer. The
monotonic clock is the one that also counts while the machine sleeps: a master that wakes up must know at once that its
delivery lease is over (`broker.replication.delivery_lease`).

Slow turns: all clients of the node wait for a turn. Each is measured (`admin.loop_holds`), and a slow one is counted,
and logged with the work it did.

Not here: sockets (`node.client_sockets`), the disk (`node.disk`), measurements (`node.resources`).
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter, thread_time
from typing import Any, Protocol

from warren.admin.loop_holds import LoopHolds
from warren.broker.model.effects import (
    CloseConnection,
    DropPeer,
    Effect,
    Note,
    PauseReading,
    ResumeReading,
    SendBytes,
    SendToPeer,
    SetTimer,
    StopNode,
)
from warren.broker.model.events import BytesReceived, Command, CommandReceived, Event
from warren.node.logs import Log


def elapsed_ns() -> int:
    """Since the machine was started, its sleep included."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Clock:
    """`now_ms` is the time of day at start plus the elapsed monotonic time."""

    __slots__ = ("_monotonic_ns", "_offset_ns")

    def __init__(self, wall_ns: Callable[[], int] = time.time_ns, monotonic_ns: Callable[[], int] = elapsed_ns) -> None:
        self._monotonic_ns = monotonic_ns
        self._offset_ns = wall_ns() - monotonic_ns()

    def now_ms(self) -> int:
        return (self._monotonic_ns() + self._offset_ns) // 1_000_000


class Writable(Protocol):
    """Takes a turn's bytes for one connection."""

    def write(self, data: bytes) -> None: ...


class ClientTransport(Protocol):
    """A connection's way to its client: a socket, or a client in the process."""

    @property
    def transport(self) -> Writable: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


class PausableSocket(Protocol):
    """A socket that is read."""

    def await_turn(self) -> None:
        """Read nothing more until `turn_over`."""

    def turn_over(self) -> None: ...


class Core(Protocol):
    """The pure state machine: `Broker`, or a script in its place."""

    def handle(self, events: list[Event], now_ms: int) -> list[Effect]: ...


READ_BYTES_A_TURN = 1024 * 1024
"""The loop reads at most 256 KiB at once, so one socket can exceed this by that much."""


def slow_turn_fields(events: list[Event], effects: list[Effect], effects_s: float) -> dict[str, object]:
    """What a turn did, for the log; `effects_s` is the part of it that carried out the effects."""
    return {
        "effects_ms": round(effects_s * 1000),
        "events": _kinds(events),
        "effects": _kinds(effects),
        "sent_bytes": sum(len(effect.data) for effect in effects if isinstance(effect, SendBytes)),
        **_largest_input(events),
        **_commands(events),
    }


def _kinds(items: Sequence[Event | Effect | Command]) -> str:
    """How many of which kind, the most first."""
    counted = Counter(type(item).__name__ for item in items)
    return ",".join(f"{kind}:{count}" for kind, count in counted.most_common()) or "none"


def _largest_input(events: list[Event]) -> dict[str, object]:
    """The connection that sent the most bytes."""
    sizes: Counter[int] = Counter()
    for event in events:
        if isinstance(event, BytesReceived):
            sizes[event.connection_id] += len(event.data)
    return {"connection": sizes.most_common(1)[0][0], "connection_bytes": sizes.most_common(1)[0][1]} if sizes else {}


def _commands(events: list[Event]) -> dict[str, object]:
    commands = [event.command for event in events if isinstance(event, CommandReceived)]
    return {"commands": _kinds(commands)} if commands else {}


class TurnLoop:
    """Collects events, runs the broker once a turn, carries out its effects."""

    __slots__ = (
        "_armed_ms",
        "_carry_out",
        "_clock",
        "_core",
        "_events",
        "_handle",
        "_log",
        "_read_bytes",
        "_scheduled",
        "_stop",
        "_stopped",
        "_unread",
        "_wanted_ms",
        "after_turn",
        "holds",
        "lingering",
        "links",
        "loop",
    )

    def __init__(
        self, core: Core, loop: asyncio.AbstractEventLoop, clock: Clock, log: Log, stop: Callable[[int], None]
    ) -> None:
        self.loop = loop
        self.links: dict[int, ClientTransport] = {}
        self.lingering: set[ClientTransport] = set()
        # called after each turn; it must not enter the broker
        self.after_turn: Callable[[], None] | None = None
        self.holds = LoopHolds("turn.slow", log)
        self._core = core
        self._clock = clock
        self._log = log
        self._stop = stop
        self._stopped = False
        self._events: list[Event] = []
        # the bytes that were read for the next turn, and the sockets that are not read until it is over
        self._read_bytes = 0
        self._unread: list[PausableSocket] = []
        self._scheduled = False
        # when the broker wants to be called; 0 for never
        self._wanted_ms = 0
        self._armed_ms = 0
        self._handle: asyncio.TimerHandle | None = None
        self._carry_out: dict[type[Effect], Callable[[Any], None]] = {
            SendBytes: self._send_bytes,
            CloseConnection: self._close_connection,
            PauseReading: self._pause_reading,
            ResumeReading: self._resume_reading,
            SetTimer: self._set_timer,
            Note: self._note,
            StopNode: self._stop_node,
        }

    def add(self, event: Event) -> None:
        """Add an event to the next turn."""
        self._events.append(event)
        self._schedule()

    def received(self, reader: PausableSocket, event: BytesReceived) -> None:
        """Add input to the next turn. If that has enough, read no more from this socket until it is over."""
        self._read_bytes += len(event.data)
        if self._read_bytes >= READ_BYTES_A_TURN:
            self._unread.append(reader)
            reader.await_turn()
        self._events.append(event)
        if not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self._run)

    def add_now(self, event: Event) -> None:
        """The same, for a loop callback that would be the last of this round: the next turn runs at once."""
        self._events.append(event)
        if not self._scheduled:
            self._run()

    def now_ms(self) -> int:
        """The time a turn would get now."""
        return self._clock.now_ms()

    def due(self) -> bool:
        """Whether another turn is due."""
        return self._scheduled

    def attach(self, orders: Mapping[type[Effect], Callable[[Any], None]]) -> None:
        """Register the handlers of effects that are not for clients."""
        self._carry_out.update(orders)

    def halt(self) -> None:
        """A part the node needs is broken: the broker is not called again, and the node ends with exit code 1."""
        self._stopped = True
        self._stop(1)

    def carried_out(self) -> list[type[Effect]]:
        """The effects that have a handler."""
        return list(self._carry_out)

    def forget(self, connection_id: int, link: ClientTransport) -> None:
        """The connection's socket is gone."""
        self.links.pop(connection_id, None)
        self.lingering.discard(link)

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self._run)

    def _run(self) -> None:
        self._scheduled = False
        if self._stopped:
            return
        started, cpu_started = perf_counter(), thread_time()
        events = self._events
        self._events = []
        now_ms = self._clock.now_ms()
        if now_ms >= self._wanted_ms:
            self._wanted_ms = 0
        carry_out = self._carry_out
        try:
            effects = self._core.handle(events, now_ms)
            handled = perf_counter()
            if SendToPeer in carry_out and len(effects) > 1:
                effects.sort(key=_is_for_this_node)
            for effect in effects:
                carry_out[type(effect)](effect)
            self._read_bytes = 0
            if self._unread:
                self._read_again()
            if self.after_turn is not None:
                self.after_turn()
            ended = perf_counter()
            if ended - started > self.holds.short_s:
                self.holds.ended(started, cpu_started, ended, slow_turn_fields, events, effects, ended - handled)
        except Exception:
            self.halt()
            self._log.critical("core.failed", exc_info=True)

    def _read_again(self) -> None:
        unread = self._unread
        self._unread = []
        for reader in unread:
            reader.turn_over()

    def _send_bytes(self, effect: SendBytes) -> None:
        link = self.links.get(effect.connection_id)
        if link is not None:
            link.transport.write(effect.data)

    def _close_connection(self, effect: CloseConnection) -> None:
        link = self.links.pop(effect.connection_id, None)
        if link is not None:
            self.lingering.add(link)
            link.close()

    def _pause_reading(self, effect: PauseReading) -> None:
        link = self.links.get(effect.connection_id)
        if link is not None:
            link.pause_reading()

    def _resume_reading(self, effect: ResumeReading) -> None:
        link = self.links.get(effect.connection_id)
        if link is not None:
            link.resume_reading()

    def _note(self, effect: Note) -> None:
        self._log.write(effect.level, effect.name, effect.fields)

    def _stop_node(self, effect: StopNode) -> None:
        self._stop(0)

    def _set_timer(self, effect: SetTimer) -> None:
        self._wanted_ms = effect.at_ms
        if self._handle is None or effect.at_ms < self._armed_ms:
            self._arm()

    def _arm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        delay_ms = self._wanted_ms - self._clock.now_ms()
        if delay_ms <= 0:
            self._wanted_ms = 0
            self._schedule()
        else:
            self._armed_ms = self._wanted_ms
            self._handle = self.loop.call_later(delay_ms / 1000, self._timer_due)

    def _timer_due(self) -> None:
        self._handle = None
        if self._wanted_ms:
            self._arm()


def _is_for_this_node(effect: Effect) -> bool:
    return type(effect) is not SendToPeer and type(effect) is not DropPeer
