"""Making a failure small: the fewest connections, reads and octets that still break the node.

Only exceptions from `Broker.handle` and `Broker.check` are reduced. Any other failure is reported with everything that
the attacker sent.

Not here: finding failures (`world`).
"""

import contextlib
import time

from bench.fuzzing.world import History
from warren.broker.broker import Broker
from warren.broker.model.events import BytesReceived, ConnectionDropped, ConnectionOpened, Event
from warren.broker.model.settings import BrokerSettings

PATIENCE_S = 60.0
LATER_MS = 40_000


def failure_of(history: History) -> str:
    """The exception that a node raises in these turns; empty if there is none."""
    broker = Broker(BrokerSettings(), b"fuzz")
    now_ms = 0
    try:
        for now_ms, events in history:
            broker.handle(events, now_ms)
        broker.check()
        broker.handle([], now_ms + LATER_MS)
        broker.check()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def reduced(history: History) -> History:
    """A shorter history that fails with the same kind of exception."""
    wanted = _kind(failure_of(history))
    if not wanted:
        return history
    deadline = time.monotonic() + PATIENCE_S
    steps = [(now_ms, event) for now_ms, events in history for event in events]
    steps = _with_fewer_connections(steps, wanted, deadline)
    size = len(steps) // 2
    while size:
        steps = _without_runs(steps, size, wanted, deadline)
        size //= 2
    joined = _with_joined_reads(steps)
    steps = joined if _fails(joined, wanted) else steps
    return [(now_ms, [event]) for now_ms, event in _with_shorter_reads(steps, wanted, deadline)]


def transcript(history: History) -> str:
    """One line an event, bytes in hex."""
    lines = []
    for now_ms, events in history:
        for event in events:
            what = event.data.hex() if isinstance(event, BytesReceived) else type(event).__name__
            lines.append(f"{now_ms} {getattr(event, 'connection_id', 0)} {what}")
    return "\n".join(lines)


Steps = list[tuple[int, Event]]


def _fails(steps: Steps, wanted: str) -> bool:
    return _kind(failure_of([(now_ms, [event]) for now_ms, event in steps])) == wanted


def _kind(failure: str) -> str:
    return failure.partition(":")[0]


def _with_fewer_connections(steps: Steps, wanted: str, deadline: float) -> Steps:
    """Often two clients cause it together: one declares a queue, another fills it. Try the last senders first."""
    ids = list(dict.fromkeys([_connection(event) for _, event in reversed(steps)]))
    size = len(ids) // 2
    while size:
        at = 0
        while at < len(ids) and time.monotonic() < deadline:
            fewer = set(ids[:at] + ids[at + size :])
            shorter = [step for step in steps if _connection(step[1]) in fewer]
            if _fails(shorter, wanted):
                ids = ids[:at] + ids[at + size :]
                steps = shorter
            else:
                at += size
        size //= 2
    return steps


def _without_runs(steps: Steps, size: int, wanted: str, deadline: float) -> Steps:
    at = 0
    while at < len(steps) and time.monotonic() < deadline:
        shorter = steps[:at] + steps[at + size :]
        if _fails(shorter, wanted):
            steps = shorter
        else:
            at += size
    return steps


def _with_joined_reads(steps: Steps) -> Steps:
    """Merge all reads of a connection into its last one, so that frames are whole."""
    joined: Steps = []
    sent: dict[int, bytes] = {}
    for at, (now_ms, event) in enumerate(steps):
        if not isinstance(event, BytesReceived):
            joined.append((now_ms, event))
            continue
        sent[event.connection_id] = sent.get(event.connection_id, b"") + event.data
        if all(_connection(later) != event.connection_id for _, later in steps[at + 1 :]):
            joined.append((now_ms, BytesReceived(event.connection_id, sent[event.connection_id])))
    return joined


def _with_shorter_reads(steps: Steps, wanted: str, deadline: float) -> Steps:
    """Leave frames out of each read: a publish goes with its content, or stays."""
    for at, (now_ms, event) in enumerate(steps):
        if not isinstance(event, BytesReceived):
            continue
        pieces = frames_in(event.data)
        for size in (32, 8, 3, 1, 1):
            index = 0
            while index < len(pieces) and time.monotonic() < deadline:
                fewer = pieces[:index] + pieces[index + size :]
                read = BytesReceived(event.connection_id, b"".join(fewer))
                shorter: Steps = [*steps[:at], (now_ms, read), *steps[at + 1 :]]
                if _fails(shorter, wanted):
                    pieces, steps = fewer, shorter
                else:
                    index += 1
    return steps


def frames_in(data: bytes) -> list[bytes]:
    """The frames of a read; the part that does not parse is the last piece."""
    pieces = []
    at = 8 if data.startswith(b"AMQP") else 0
    pieces.append(data[:at])
    while len(data) - at >= 8:
        end = at + 8 + int.from_bytes(data[at + 3 : at + 7], "big")
        if end > len(data):
            break
        pieces.append(data[at:end])
        at = end
    pieces.append(data[at:])
    return pieces


def _connection(event: Event) -> int:
    with contextlib.suppress(AttributeError):
        assert isinstance(event, (BytesReceived, ConnectionOpened, ConnectionDropped))
        return event.connection_id
    return 0
