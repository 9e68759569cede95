"""Whether a master may hand messages out: only if nobody else does.

Not here: when members were heard of (`broker.replication.delivery_lease`), what is handed out
(`broker.replication.mirrored_log`).

Whether the others have been heard of lately: whoever hands messages out must know that nobody else does.

A master that has not heard from every counted member for `DELIVERY_MS` hands out nothing: another may have been made
master without it. A new master hands out when the run before it is known to have ended, or cannot have gone on for so
long. Confirming needs none of this (`mirroring`, rules 10 and 11).

What counts is when a member was asked, not when it answered.

Not here: what is handed out (`broker.replication.master_replica`), who counts (`broker.replication.master`).
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.broker.links.link import NodeLinks
from warren.broker.model.replica_set import NodeIncarnation
from warren.broker.model.turn import TimerTarget, Turn
from warren.broker.replication import messages

if TYPE_CHECKING:
    from warren.broker.replication.master_replica import MasterReplica
    from warren.broker.replication.replica_sets import ReplicaSets


DELIVERY_LEASE_MS: Final[i64] = 2_000
LEASE_MARGIN_MS: Final[i64] = 500
HEARTBEAT_INTERVAL_MS: Final[i64] = 500


@final
class Heartbeat(TimerTarget):
    """One node's."""

    def __init__(self, links: NodeLinks, turn: Turn) -> None:
        self._links: NodeLinks = links
        self._turn: Turn = turn
        # when each node that answered was asked
        self._asked_ms: dict[str, i64] = {}
        # nodes that hold something of which this one is master
        self._partners: list[str] = []
        self._beating: bool = False

    def watch(self, partners: list[str]) -> None:
        """Ask these from here on."""
        self._partners = partners
        if partners and not self._beating:
            self._beating = True
            self._beat()

    def heard_ms(self, node: str) -> i64:
        """When a node was asked that has answered; 0 for never."""
        return self._asked_ms.get(node, 0)

    def asked(self, node: str, asked_ms: i64) -> None:
        """Another node wants to know that this one is there."""
        self._links.send_replication(node, messages.encode_words(messages.HEARTBEAT_REPLY, 0, 0, [int(asked_ms)]), b"")

    def answered(self, node: str, asked_ms: i64) -> None:
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


FOREVER_MS: Final[i64] = 1 << 62


@final
class DeliveryLease(TimerTarget):
    """One master's."""

    def __init__(self, replica_sets: "ReplicaSets", master_replica: "MasterReplica") -> None:
        self._replica_sets: ReplicaSets = replica_sets
        self._master_replica: MasterReplica = master_replica
        self.turn: Turn = replica_sets.turn
        # until when something may be handed out, as far as is known
        self.until_ms: i64 = 0
        # the run that was master before, until it can hand out nothing any more; and since when there is another
        self._predecessor: NodeIncarnation | None = None
        self._since_ms: i64 = replica_sets.turn.now_ms
        self._waits: bool = False

    def succeeds(self, run: NodeIncarnation | None) -> None:
        """Who was master before, and may not know that it is not any more."""
        self._predecessor = run

    def follows(self, run: NodeIncarnation) -> None:
        """A run follows this master, so it knows that it is not master any more."""
        if run == self._predecessor:
            self._predecessor = None
            self.look()

    def allowed(self) -> bool:
        """Whether something may be handed out now; if not, the master is told when."""
        if self.turn.now_ms < self.until_ms:
            return True
        self.look()
        return self.turn.now_ms < self.until_ms

    def look(self) -> None:
        """See until when something may be handed out."""
        was_allowed = self.turn.now_ms < self.until_ms
        self.until_ms = self._allowed_until()
        if not was_allowed and self.turn.now_ms < self.until_ms:
            self._master_replica.go_on()

    def timer_fired(self) -> None:
        self._waits = False
        self.look()

    def _allowed_until(self) -> i64:
        predecessor = self._predecessor
        if predecessor is not None:
            over_ms = self._since_ms + DELIVERY_LEASE_MS + LEASE_MARGIN_MS
            if self.turn.now_ms < over_ms and not self._replica_sets.has_ended(predecessor):
                self._look_again_at(over_ms)
                return 0
            self._predecessor = None
        until_ms: i64 = FOREVER_MS
        for name, _incarnation in self._master_replica.master.counted():
            if name != self._replica_sets.own_incarnation[0]:
                until_ms = min(until_ms, self._replica_sets.heartbeat.heard_ms(name) + DELIVERY_LEASE_MS)
        return until_ms

    def _look_again_at(self, at_ms: i64) -> None:
        if not self._waits:
            self._waits = True
            self.turn.set_timer(at_ms, self)
