"""Whether a master may deliver: only if no other master does.

A master that has not heard from every counted member for `DELIVERY_LEASE_MS` delivers nothing: another master may have
been made without it. A new master delivers when the incarnation that was master before is known to have ended, or its
lease must be over. Confirming needs no lease: epochs fence it (`broker.replication.master`).

The time at which a member was asked counts, not the time of its answer.

Not here: deliveries (`broker.replication.mirrored_log`), who is counted (`broker.replication.master`).
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64, trait

from warren.broker.links.link import NodeLinks
from warren.broker.model.replica_set import NodeIncarnation
from warren.broker.model.turn import TimerTarget, Turn
from warren.broker.replication import messages
from warren.errors import InvariantBroken

DELIVERY_LEASE_MS: Final[i64] = 2_000
LEASE_MARGIN_MS: Final[i64] = 500
HEARTBEAT_INTERVAL_MS: Final[i64] = 500


@final
class Heartbeat(TimerTarget):
    """Asks the members of the replica sets whose masters are on this node."""

    def __init__(self, links: NodeLinks, turn: Turn) -> None:
        self._links: NodeLinks = links
        self._turn: Turn = turn
        # by node: when the last request that it answered was sent
        self._asked_ms: dict[str, i64] = {}
        # the members to ask
        self._partners: list[str] = []
        self._beating: bool = False

    def watch(self, partners: list[str]) -> None:
        """Ask these nodes from here on."""
        self._partners = partners
        if partners and not self._beating:
            self._beating = True
            self._beat()

    def last_answered_ms(self, node: str) -> i64:
        """When the last request was sent that the node answered; 0 for never."""
        return self._asked_ms.get(node, 0)

    def request_received(self, node: str, asked_ms: i64) -> None:
        """Answer the request of another node."""
        self._links.send_replication(node, messages.encode_words(messages.HEARTBEAT_REPLY, 0, 0, [int(asked_ms)]), b"")

    def reply_received(self, node: str, asked_ms: i64) -> None:
        self._asked_ms[node] = asked_ms

    def lost(self, node: str) -> None:
        self._asked_ms.pop(node, None)

    def timer_fired(self) -> None:
        if self._partners:
            self._beat()
        else:
            self._beating = False

    def _beat(self) -> None:
        head = messages.encode_words(messages.HEARTBEAT, 0, 0, [int(self._turn.now_ms)])
        for node in self._partners:
            self._links.send_replication(node, head, b"")
        self._turn.set_timer(self._turn.now_ms + HEARTBEAT_INTERVAL_MS, self)

    def check(self) -> None:
        """Raise `InvariantBroken` if there are members to ask, and none is asked."""
        if self._partners and not self._beating:
            raise InvariantBroken(f"{self._partners} get no heartbeat")


FOREVER_MS: Final[i64] = 1 << 62


@trait
class IncarnationWatch:
    """Knows which incarnations of nodes have ended."""

    @abstractmethod
    def has_ended(self, incarnation: NodeIncarnation) -> bool:
        """Whether an incarnation of another node has ended, so that it serves no client."""


@trait
class LeaseOwner:
    """The master that delivers."""

    @abstractmethod
    def counted(self) -> list[NodeIncarnation]:
        """All members that a batch must have reached to be committed, this node among them."""

    @abstractmethod
    def delivery_resumed(self) -> None:
        """Deliveries that were refused may go now."""


@final
class DeliveryLease(TimerTarget):
    """Of one master, in one epoch."""

    def __init__(self, own: str, owner: LeaseOwner, watch: IncarnationWatch, heartbeat: Heartbeat, turn: Turn) -> None:
        self.turn: Turn = turn
        # deliveries are allowed until then
        self.until_ms: i64 = 0
        self._own: str = own
        self._owner: LeaseOwner = owner
        self._watch: IncarnationWatch = watch
        self._heartbeat: Heartbeat = heartbeat
        # the incarnation that was master before, while it may still deliver; and the start of this epoch
        self._predecessor: NodeIncarnation | None = None
        self._since_ms: i64 = turn.now_ms
        self._timer_set: bool = False

    def set_predecessor(self, incarnation: NodeIncarnation | None) -> None:
        """This incarnation was master before, and may still deliver."""
        self._predecessor = incarnation

    def follower_joined(self, incarnation: NodeIncarnation) -> None:
        """An incarnation follows this master, so it no longer delivers as a master."""
        if incarnation == self._predecessor:
            self._predecessor = None
            self.update()

    def allowed(self) -> bool:
        """Whether the master may deliver now; if not, `LeaseOwner.delivery_resumed` follows."""
        if self.turn.now_ms < self.until_ms:
            return True
        self.update()
        return self.turn.now_ms < self.until_ms

    def update(self) -> None:
        """Compute until when the master may deliver."""
        was_allowed = self.turn.now_ms < self.until_ms
        self.until_ms = self._allowed_until()
        if not was_allowed and self.turn.now_ms < self.until_ms:
            self._owner.delivery_resumed()

    def timer_fired(self) -> None:
        self._timer_set = False
        self.update()

    def _allowed_until(self) -> i64:
        predecessor = self._predecessor
        if predecessor is not None:
            over_ms = self._since_ms + DELIVERY_LEASE_MS + LEASE_MARGIN_MS
            if self.turn.now_ms < over_ms and not self._watch.has_ended(predecessor):
                self._update_at(over_ms)
                return 0
            self._predecessor = None
        until_ms: i64 = FOREVER_MS
        for name, _incarnation in self._owner.counted():
            if name != self._own:
                until_ms = min(until_ms, self._heartbeat.last_answered_ms(name) + DELIVERY_LEASE_MS)
        return until_ms

    def _update_at(self, at_ms: i64) -> None:
        if not self._timer_set:
            self._timer_set = True
            self.turn.set_timer(at_ms, self)

    def check(self) -> None:
        """Raise `InvariantBroken` if the master may deliver while its predecessor may."""
        if self._predecessor is not None and self.until_ms != 0:
            raise InvariantBroken(f"deliveries are allowed until {self.until_ms}, and {self._predecessor} may deliver")
