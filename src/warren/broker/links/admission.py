"""Limits the unsettled publishes of this node to other nodes, and holds connections that publish beyond the limit.

A publish counts from when it is sent until its home has settled it. There is a bound for each node, and one for all
nodes together. A connection waits if it publishes to a node beyond one of the bounds, or to a node whose link is full.
It continues when the link has room, and both the lane of that node and this whole node are down to half of their
bounds. Deliveries wait in their queues instead (`broker.links.host_session`). Answers and acks are never held.

Invariant: a connection waits for one lane at a time, and is released once.

Not here: how sessions are held (`broker.sessions.remote_queues`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.ports import OutputPort
from warren.broker.model.turn import Turn

LINK_BYTES_MAX: Final[i64] = 16 * 1024 * 1024
NODE_BYTES_MAX: Final[i64] = 64 * 1024 * 1024


@final
class AdmissionLane:
    """Counts the bytes of unsettled publishes to one node, which may be this node."""

    def __init__(self) -> None:
        self.unsettled_bytes: i64 = 0
        # the link to the other node is full
        self.paused: bool = False

    def has_room(self) -> bool:
        return not self.paused and self.unsettled_bytes <= LINK_BYTES_MAX // 2


@final
class LinkAdmission:
    """Holds connections that publish to a node with too many unsettled publishes."""

    def __init__(self, turn: Turn) -> None:
        self.unsettled_bytes: i64 = 0
        self._turn: Turn = turn
        self._waiting: dict[OutputPort, AdmissionLane] = {}
        # publishes were settled since the waiting connections were last checked
        self._eased: bool = False

    def crowded(self, lane: AdmissionLane) -> bool:
        return lane.paused or lane.unsettled_bytes > LINK_BYTES_MAX or self.unsettled_bytes > NODE_BYTES_MAX

    def sent(self, lane: AdmissionLane, size_bytes: i64) -> bool:
        """Count a publish; whether a bound is exceeded, or the link is full."""
        lane.unsettled_bytes += size_bytes
        self.unsettled_bytes += size_bytes
        return lane.unsettled_bytes > LINK_BYTES_MAX or lane.paused or self.unsettled_bytes > NODE_BYTES_MAX

    def arrived(self, lane: AdmissionLane, size_bytes: i64) -> None:
        lane.unsettled_bytes -= size_bytes
        self.unsettled_bytes -= size_bytes
        assert lane.unsettled_bytes >= 0, "only sent publishes are settled"
        self._eased = True

    def ease(self) -> None:
        """A link has room again, or is lost."""
        self._eased = True

    def hold(self, waiter: OutputPort, lane: AdmissionLane) -> None:
        self._waiting[waiter] = lane

    def end_turn(self) -> None:
        """Release the connections whose lane has room again."""
        if not self._eased:
            return
        self._eased = False
        if not self._waiting or self.unsettled_bytes > NODE_BYTES_MAX // 2:
            return
        free = [waiter for waiter, lane in self._waiting.items() if lane.has_room()]
        for waiter in free:
            del self._waiting[waiter]
            self._turn.inputs.append(waiter)
