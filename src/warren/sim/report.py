"""The result of a run: violations, counters, and the trace with a line for each event.

Not here: the rules (`sim.invariants`, `sim.cluster.invariants`, `sim.replica_sets.invariants`).
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from warren.broker.model.effects import (
    AppendRecords,
    CloseConnection,
    CompleteCommand,
    Effect,
    Note,
    SealSegment,
    SendBytes,
    SendToPeer,
    SetTimer,
    WriteCheckpoint,
)
from warren.broker.model.events import (
    BytesReceived,
    ConnectionDropped,
    Event,
    FlushCompleted,
    PeerConnected,
    PeerLost,
    PeerReceived,
    TransactionDecided,
)
from warren.errors import ConnectionFault
from warren.wire.method_stream import MethodStream


@dataclass(frozen=True)
class Violation:
    """A rule that was broken, and how."""

    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


class ViolationLog:
    """The violations that were found."""

    def __init__(self) -> None:
        self.complaints: list[Violation] = []

    def complain(self, rule: str, text: str) -> None:
        self.complaints.append(Violation(rule, text))


@dataclass(frozen=True)
class RunResult:
    """The result of a run."""

    seed: int
    steps: int
    complaints: tuple[Violation, ...]
    published: int
    confirmed: int
    steps_taken: int
    # how often each kind of event happened
    seen: Counter[str] = field(default_factory=Counter)
    # further options to replay the run
    options: str = ""

    @property
    def good(self) -> bool:
        return not self.complaints

    def verdict(self) -> str:
        """The result in one sentence, and a line for each violation."""
        stats = f"{self.published} published, {self.confirmed} confirmed, {self.steps_taken} steps"
        if self.good:
            return f"seed {self.seed}: good ({stats})"
        complaints = "\n".join(f"  {complaint}" for complaint in self.complaints)
        again = f"warren sim --seed {self.seed} --steps {self.steps} {self.options}".rstrip()
        return f"seed {self.seed}: BROKEN ({stats}); replay with {again}\n{complaints}"

    def print_verdict(self) -> int:
        """Print the result; returns the exit code."""
        print(self.verdict())
        return 0 if self.good else 1


class RunTrace:
    """Writes lines to a sink; without one it is off and costs nothing."""

    def __init__(self, sink: Callable[[str], None] | None = None) -> None:
        self._sink = sink
        self.on = sink is not None
        self.now_ms: Callable[[], int] = int
        self._streams: dict[tuple[str, int], MethodStream] = {}

    def write(self, who: str, what: str) -> None:
        if self._sink is not None:
            self._sink(f"{self.now_ms():>8} {who:<12} {what}")

    def event(self, node: str, event: Event) -> None:
        what = type(event).__name__
        number = getattr(event, "connection_id", None)
        if number is not None:
            what += f" #{number}"
        if isinstance(event, BytesReceived):
            what += f" {len(event.data)} bytes"
        elif isinstance(event, FlushCompleted):
            what += f": {event.written_no} written, {event.flushed_no} flushed"
        elif isinstance(event, ConnectionDropped):
            self._streams.pop((node, event.connection_id), None)
        elif isinstance(event, PeerConnected | PeerReceived | PeerLost):
            what += f" {event.node}"
        elif isinstance(event, TransactionDecided):
            what += f" {event.ticket}: {event.outcome} {event.reason}".rstrip()
        self.write(node, f"<- {what}")

    def effect(self, node: str, effect: Effect) -> None:
        if isinstance(effect, SendBytes):
            self.write(
                node, f"-> SendBytes #{effect.connection_id} {len(effect.data)} bytes{self._methods(node, effect)}"
            )
        elif isinstance(effect, Note):
            facts = " ".join(f"{name}={value}" for name, value in sorted(effect.fields.items()))
            self.write(node, f"-- {effect.level} {effect.name} {facts}")
        elif isinstance(effect, CloseConnection):
            self.write(node, f"-> CloseConnection #{effect.connection_id}")
        elif isinstance(effect, AppendRecords):
            flushed = ", flushed" if effect.flush else ""
            size = f"{len(effect.data)} bytes at {effect.offset} of segment {effect.segment}{flushed}"
            self.write(node, f"-> Store {effect.batch_no}: {len(effect.changes)} changes, {size}")
        elif isinstance(effect, SealSegment):
            self.write(node, f"-> Seal {effect.segment}")
        elif isinstance(effect, WriteCheckpoint):
            self.write(node, f"-> KeepCheckpoint {len(effect.data)} bytes")
        elif isinstance(effect, CompleteCommand):
            self.write(node, f"-> Answered {effect.ticket} {effect.refusal}".rstrip())
        elif isinstance(effect, SendToPeer):
            self.write(node, f"-> SendToPeer {effect.node} {len(effect.data)} bytes")
        elif not isinstance(effect, SetTimer):
            self.write(node, f"-> {effect!r}")

    def _methods(self, node: str, effect: SendBytes) -> str:
        """The methods in these bytes, counted."""
        stream = self._streams.setdefault((node, effect.connection_id), MethodStream())
        try:
            names = Counter(received.method.name for received in stream.feed(effect.data))
        except (ConnectionFault, KeyError):
            return ": no frames"
        shown = [name if count == 1 else f"{name} x{count}" for name, count in names.items()]
        return ": " + ", ".join(shown) if shown else ""
