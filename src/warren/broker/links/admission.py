"""How much of this node's publishes may be unsettled, and which connections wait when that is too much.

A publish counts from when it is sent until its home has settled it. Beyond a bound for each node that it goes to, and
one for all of them, or while the other node takes nothing, connections that publish there wait. They go on when their
lane takes more, and it and the whole node are down to half of the bound. Deliveries wait in their queues instead
(`broker.links.host_session`); answers and acks always go.

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
    """The way to one node, this one included: the bytes of its publishes that are not settled."""

    def __init__(self) -> None:
        self.unsettled_bytes: i64 = 0
        # the other node takes no more for now
        self.paused: bool = False

    def has_room(self) -> bool:
        return not self.paused and self.unsettled_bytes <= LINK_BYTES_MAX // 2


@final
class LinkAdmission:
    """Holds connections that publish while too much of their publishes is not settled."""

    def __init__(self, turn: Turn) -> None:
        self.unsettled_bytes: i64 = 0
        self._turn: Turn = turn
        self._waiting: dict[OutputPort, AdmissionLane] = {}
        # something was settled since waiters were looked at
        self._eased: bool = False

    def crowded(self, lane: AdmissionLane) -> bool:
        return lane.paused or lane.unsettled_bytes > LINK_BYTES_MAX or self.unsettled_bytes > NODE_BYTES_MAX

    def sent(self, lane: AdmissionLane, size_bytes: i64) -> bool:
        """Whether that is too much."""
        lane.unsettled_bytes += size_bytes
        self.unsettled_bytes += size_bytes
        return lane.unsettled_bytes > LINK_BYTES_MAX or lane.paused or self.unsettled_bytes > NODE_BYTES_MAX

    def arrived(self, lane: AdmissionLane, size_bytes: i64) -> None:
        lane.unsettled_bytes -= size_bytes
        self.unsettled_bytes -= size_bytes
        assert lane.unsettled_bytes >= 0, "what was settled was sent"
        self._eased = True

    def ease(self) -> None:
        """A link takes more again, or is gone."""
        self._eased = True

    def hold(self, waiter: OutputPort, lane: AdmissionLane) -> None:
        self._waiting[waiter] = lane

    def end_turn(self) -> None:
        """Let those go on whose lane has room again."""
        if not self._eased:
            return
        self._eased = False
        if not self._waiting or self.unsettled_bytes > NODE_BYTES_MAX // 2:
            return
        free = [waiter for waiter, lane in self._waiting.items() if lane.has_room()]
        for waiter in free:
            del self._waiting[waiter]
            self._turn.inputs.append(waiter)
