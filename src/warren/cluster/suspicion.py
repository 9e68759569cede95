"""Who can be reached from here, and who cannot though it lives.

Two things are known of another node: whether a link to it stands, which this node sees itself, and whether it is alive,
which the store that nodes share says. Together they make four states:

    link    alive
    yes     yes      connected: all is well
    yes     no       connected: it has just started, is about to stop, or is cut off from the store alone
    no      no       down, as far as anybody can tell
    no      yes      suspected: it may be starting, or may just have died; if it stays so, we are *parted*:
                     others reach it, and we do not

A link goes as soon as its socket does, or when it has been silent for too long; that is the link's to decide. To be
alive ends later, when a lease runs out. So a node that dies is suspected for a while, and one that stays suspected for
longer than a lease lasts is parted from us.

Not here: links (`node.peers`), silence on them (`remote`), what follows from being parted (`cluster.partitions`).
"""

from typing import Final, final

from warren.cluster.members import Members

PARTED_AFTER_MS: Final = 10_000
"""Longer than it takes until a dead node's lease has run out, and until a living one has made its links."""


@final
class Suspicion:
    """What one node sees of the others."""

    def __init__(self, own: str) -> None:
        self._own: str = own
        # connected nodes, and which run of their process that is
        self._connected: dict[str, int] = {}
        # since when nodes live and are not reached
        self._out_of_reach_ms: dict[str, int] = {}

    def connected(self, node: str, incarnation: int) -> None:
        self._connected[node] = incarnation

    def lost(self, node: str) -> None:
        self._connected.pop(node, None)

    def is_connected(self, node: str) -> bool:
        return node == self._own or node in self._connected

    def reachable(self, members: Members) -> list[str]:
        """Members that are connected, this node among them."""
        return [name for name in members.names() if self.is_connected(name)]

    def suspected(self, members: Members) -> list[str]:
        """Members that are not connected and said to live."""
        return [name for name in members.alive_names() if not self.is_connected(name)]

    def parted(self, members: Members, now_ms: int) -> list[str]:
        """Those that have been suspected for so long that they must live. To be asked regularly."""
        suspected = self.suspected(members)
        since = self._out_of_reach_ms
        self._out_of_reach_ms = {name: since.get(name, now_ms) for name in suspected}
        return [name for name in suspected if now_ms - self._out_of_reach_ms[name] >= PARTED_AFTER_MS]
