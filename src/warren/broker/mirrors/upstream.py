"""A mirror's way to its master: over the link between their nodes.

Not here: what is said (`mirroring.messages`), when (`mirroring.mirror`).
"""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.mirroring import messages
from warren.mirroring.mirror import JoinRequest, Upstream
from warren.model.copies import Span

if TYPE_CHECKING:
    from warren.broker.mirrors.rings import Rings


@final
class LinkUpstream(Upstream):
    """Of one queue; to whichever node is its master."""

    def __init__(self, rings: "Rings", queue_id: int) -> None:
        self.node: str = ""
        # of the last attempt to join
        self.tag: int = 0
        self._rings: Rings = rings
        self._queue_id: int = queue_id
        # of the past, since the last attempt to join
        self.taken_bytes: i64 = 0

    def join(self, request: JoinRequest) -> None:
        # the node counts them: this one may hold the queue for the second time
        self._rings.attempts += 1
        self.tag = messages.tag_of(request.epoch, self._rings.attempts)
        self.taken_bytes = 0
        request.known = self._rings.agreement.applied
        self._send(messages.join(self._queue_id, self.tag, request))

    def safe(self, number: i64) -> None:
        self._send(messages.words(messages.SAFE, self._queue_id, self.tag, [int(number)]))

    def has(self, spans: list[Span]) -> None:
        self._send(messages.spans(messages.HAS, self._queue_id, self.tag, spans))

    def caught_up(self) -> None:
        self._send(messages.words(messages.CAUGHT_UP, self._queue_id, self.tag, []))

    def taken(self, size_bytes: i64) -> None:
        """So much more of the past was taken in."""
        self.taken_bytes += size_bytes
        self._send(messages.words(messages.TAKEN, self._queue_id, self.tag, [int(self.taken_bytes)]))

    def _send(self, message: bytes) -> None:
        self._rings.links.send_ring(self.node, message, b"")


def ask_anew(rings: "Rings") -> None:
    """Have every newcomer ask its master once more.

    A node that was told how things are, and not what they were in between, may have been taken out of a ring and taken
    in again. Its master does not take it for a follower any more.
    """
    for part in rings.parts():
        if part.mastery is None and rings.own_run not in part.ring.in_sync:
            part.mirror.leave()
            part.act()
