"""Whether this node's mirrors are being synchronised right now: whether what they lack keeps coming.

A mirror that waits for a synchronisation which nobody has ordered gets nothing, nor does one whose master is away.

Not here: how far each has come, which its master knows (`views.rings`), what that means to clients (`views.fitness`).
"""

from warren.broker.broker import Broker
from warren.broker.mirrors.part import Part
from warren.mirroring.mirror import FOLLOWING

STALLED_AFTER_MS = 10_000
"""A master may have been told to send slowly, and sends a slice of 64 KiB at a time."""


class Arrivals:
    """What the mirrors of a node have got so far, as it was seen from time to time."""

    def __init__(self) -> None:
        # by the queue: how many bytes had come, and when that was new
        self._seen: dict[int, tuple[int, int]] = {}

    def under_way(self, broker: Broker, now_ms: int) -> int:
        """How many queues are being synchronised to this node."""
        rings = None if broker.clustering is None else broker.clustering.rings
        found: dict[int, tuple[int, int]] = {}
        if rings is not None:
            for part in rings.parts():
                if part.mastery is None and not part.mirror.whole and part.mirror.state == FOLLOWING:
                    found[part.queue_id] = self._now(part, now_ms)
        self._seen = found
        return sum(size > 0 and now_ms - at_ms < STALLED_AFTER_MS for size, at_ms in found.values())

    def _now(self, part: Part, now_ms: int) -> tuple[int, int]:
        size = int(part.upstream.taken_bytes)
        before = self._seen.get(part.queue_id)
        return before if before is not None and before[0] == size else (size, now_ms)
