"""How far the other nodes have come, and for which of them whoever is told `agreed` has waited.

::

    connected ──► waited for ──┬── its link is lost ──► still waited for ──┬── its run is over ──► forgotten
         ▲                     │                                           ├── too long ─────────► left behind
         │                     └── too long ──► left behind ── caught up   └── connected again
         └───────────────────────────────────────────┘

Connected nodes tell how far they have come. A node whose link is lost tells nothing, and may live all the same, serve
clients, and not know that it is behind before `STALE_AFTER_MS` are over (`broker.shared_agreement`). So it is waited
for like one that is slow, until its run is known to be over, or until somebody has waited in vain for so long that the
node has the change or knows itself that it may lack it.

**When a run is over.** The store says so: what it held to be alive is gone, or another run of the node holds it. Or the
node's port refuses connections. That may be a firewall, so it is taken for a sign of death only here, where what is
gained is seconds for every declare after a crash, and what is risked is the moment in which a node that lives behind
such a firewall hears of a change from the store a little later than others.

**Who is not waited for** knows it: its link to this node is lost on its side, too, as long as both live, and a node
that has lost a link to a run that is not over takes itself to be behind (`any_lost`). What remains are moments: a node
that has just started and has no links yet, or was left behind and has caught up, hears of a change from the store a
little later than others.

Not here: who waits, and for how long (`broker.shared_agreement`); who is alive (`broker.membership`).
"""

from typing import final

from warren.model.turn import Turn


@final
class Peer:
    """Another node, in one run of its process."""

    def __init__(self, incarnation: int) -> None:
        self.incarnation: int = incarnation
        self.connected: bool = True
        self.lost_ms: int = 0
        # everything up to there is made there; until it has spoken it counts as knowing nothing
        self.applied: int = 0
        # not waited for until it has come that far
        self.left_behind_at: int = 0


@final
class Progress:
    """One node's knowledge of all others."""

    def __init__(self, turn: Turn) -> None:
        self._turn: Turn = turn
        self._peers: dict[str, Peer] = {}
        # how many of them are without a link
        self._lost: int = 0

    def connected(self, node: str, incarnation: int) -> None:
        """From now on its word is waited for."""
        self.over(node)
        self._peers[node] = Peer(incarnation)

    def applied(self, node: str, revision: int) -> None:
        """It has applied everything up to this revision."""
        peer = self._peers.get(node)
        if peer is None or not peer.connected:
            return
        peer.applied = max(peer.applied, revision)
        if 0 < peer.left_behind_at <= revision:
            peer.left_behind_at = 0
            self._turn.note("info", "peer.caught_up", {"node": node, "revision": revision})

    def lost(self, node: str) -> None:
        """Its link is gone, and nobody knows what became of it."""
        peer = self._peers.get(node)
        if peer is not None and peer.connected:
            peer.connected = False
            peer.lost_ms = int(self._turn.now_ms)
            self._lost += 1

    def lost_runs(self) -> list[tuple[str, int, int]]:
        """Those that are waited for without a link: which runs of their processes, and since when."""
        return [(node, peer.incarnation, peer.lost_ms) for node, peer in self._peers.items() if not peer.connected]

    def any_lost(self) -> bool:
        """Whether somebody may live and not wait for this node."""
        return self._lost > 0

    def over(self, node: str) -> None:
        """The run that was connected has ended."""
        peer = self._peers.pop(node, None)
        if peer is not None and not peer.connected:
            self._lost -= 1

    def leave_behind(self, revision: int) -> None:
        """Wait no longer for nodes that have not come as far as this."""
        for node, peer in self._peers.items():
            if peer.applied < revision and not peer.left_behind_at:
                peer.left_behind_at = revision
                facts: dict[str, object] = {"node": node, "applied": peer.applied, "revision": revision}
                self._turn.note("warning", "peer.behind", facts)

    def reached(self, own: int) -> int:
        """How far everybody has come who is waited for; this node has come to `own`."""
        for peer in self._peers.values():
            if not peer.left_behind_at:
                own = min(own, peer.applied)
        return own
