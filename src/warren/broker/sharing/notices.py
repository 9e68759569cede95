"""What nodes tell each other besides the business of queues: how far each has come, whether it is short of room, and
how many clients it has of those who may have only so many.

    applied   1, eight octets: the revision up to which everything is made there
    alarm     2, text: why publishers of the whole cluster must wait; none: they need not on its account
    counts    3, what has moved (`broker.access.headcounts`)

Publishers wait wherever they are connected, as in RabbitMQ: what they publish may be bound for the node that has no
room. A node that is lost takes its alarm and its counts with it.

Not here: the links (`remote.links`), when a node is short of room (`broker.alarms`).
"""

from typing import Final, final

from warren.broker.access.headcounts import Headcounts
from warren.broker.shared_agreement import SharedAgreement
from warren.remote.links import Links

APPLIED: Final = 1
ALARM: Final = 2
COUNTS: Final = 3
REVISION_BYTES: Final = 8


@final
class Notices:
    """One node's, to and from all it is connected to."""

    def __init__(self, links: Links, shared: SharedAgreement, headcounts: Headcounts) -> None:
        self._links: Links = links
        self._shared: SharedAgreement = shared
        self._headcounts: Headcounts = headcounts
        self.own_alarm: str = ""
        # of connected nodes that have one
        self.alarms: dict[str, str] = {}

    def peer_connected(self, node: str) -> None:
        self._links.notify(node, _applied(self._shared.applied))
        if self.own_alarm:
            self._links.notify(node, _alarm(self.own_alarm))
        counts = self._headcounts.everything()
        if counts:
            self._links.notify(node, _counts(counts))

    def peer_lost(self, node: str) -> None:
        self.alarms.pop(node, None)
        self._headcounts.lost(node)

    def end_turn(self) -> None:
        applied = self._shared.take_untold()
        if applied:
            self._tell_all(_applied(applied))
        counts = self._headcounts.news()
        if counts:
            self._tell_all(_counts(counts))

    def alarmed(self, reason: str) -> str:
        """Whether this node itself is short of room; why publishers must wait, here or elsewhere."""
        if reason != self.own_alarm:
            self.own_alarm = reason
            self._tell_all(_alarm(reason))
        if reason or not self.alarms:
            return reason
        return self.alarms[min(self.alarms)]

    def arrived(self, node: str, data: bytes) -> None:
        kind = data[0] if data else 0
        if kind == APPLIED:
            self._shared.peer_applied(node, int.from_bytes(data[1 : 1 + REVISION_BYTES], "big"))
        elif kind == COUNTS:
            self._headcounts.heard(node, data[1:])
        elif kind == ALARM:
            reason = data[1:].decode(errors="replace")
            if reason:
                self.alarms[node] = reason
            else:
                self.alarms.pop(node, None)

    def _tell_all(self, notice: bytes) -> None:
        for node in self._links.nodes():
            self._links.notify(node, notice)


def _applied(revision: int) -> bytes:
    return bytes([APPLIED]) + revision.to_bytes(REVISION_BYTES, "big")


def _alarm(reason: str) -> bytes:
    return bytes([ALARM]) + reason.encode()


def _counts(counts: bytes) -> bytes:
    return bytes([COUNTS]) + counts
