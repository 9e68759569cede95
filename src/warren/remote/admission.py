"""How much this node may have on its way to others, and whom it holds when that is too much.

Publishes count from when they are sent until their home has settled them. Beyond a bound for each link, and one for
all of them, or while the other node takes nothing, connections that publish there wait; they go on when the link they
waited for takes more, and it and the whole node are down to half of the bound. Deliveries wait in their queues instead
(`remote.hosting`); answers and acks always go.

Invariant: a connection waits for one link at a time, and is let go once.

Not here: how sessions are held (`session.elsewhere`).
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.model.ports import OutputPort
from warren.model.turn import Turn

if TYPE_CHECKING:
    from warren.remote.link import Link

LINK_BYTES_MAX: Final[i64] = 16 * 1024 * 1024
NODE_BYTES_MAX: Final[i64] = 64 * 1024 * 1024


@final
class Admission:
    """What is on its way, in bytes, and who waits for it to become less."""

    def __init__(self, turn: Turn) -> None:
        self.unsettled_bytes: i64 = 0
        self._turn: Turn = turn
        self._waiting: dict[OutputPort, Link] = {}
        # something has arrived since waiters were looked at
        self._eased: bool = False

    def crowded(self, link: "Link") -> bool:
        return link.paused or link.unsettled_bytes > LINK_BYTES_MAX or self.unsettled_bytes > NODE_BYTES_MAX

    def sent(self, link: "Link", size_bytes: i64) -> None:
        link.unsettled_bytes += size_bytes
        self.unsettled_bytes += size_bytes

    def arrived(self, link: "Link", size_bytes: i64) -> None:
        link.unsettled_bytes -= size_bytes
        self.unsettled_bytes -= size_bytes
        self._eased = True

    def ease(self) -> None:
        """A link takes more again, or is gone."""
        self._eased = True

    def hold(self, waiter: OutputPort, link: "Link") -> None:
        self._waiting[waiter] = link

    def end_turn(self) -> None:
        """Let those go on whose link has room again."""
        if not self._eased:
            return
        self._eased = False
        if not self._waiting or self.unsettled_bytes > NODE_BYTES_MAX // 2:
            return
        free = [waiter for waiter, link in self._waiting.items() if _has_room(link)]
        for waiter in free:
            del self._waiting[waiter]
            self._turn.inputs.append(waiter)


def _has_room(link: "Link") -> bool:
    return not link.paused and link.unsettled_bytes <= LINK_BYTES_MAX // 2
