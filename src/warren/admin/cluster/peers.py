"""The nodes of the cluster, to ask.

Those that are linked are asked, all at once. Who does not answer is left alone for a while, so that a node that hangs
costs whoever polls one wait and not one for each request. A node that was not asked, or did not answer, has nothing to
say, and everybody puts up with that: what is known of its things here is shown without what it alone knows.

Not here: the bytes of a question (`cluster.question`), the sockets and their bounds (`node.peers.asking`).
"""

import asyncio
import time
from collections.abc import Iterable

from warren.admin.cluster.peer_port import LinkFacts, PeerPort
from warren.admin.cluster.question import Question, Told, decode_told
from warren.broker.broker import Broker
from warren.cluster.members import Member

LEFT_ALONE_S = 5.0


class Peers:
    """One node's view of the others."""

    def __init__(self, broker: Broker, own: str, port: PeerPort | None) -> None:
        self.own = own
        self._broker = broker
        self._port = port
        # nodes that did not answer, and until when they are not asked
        self._silent: dict[str, float] = {}

    # -- who there is

    def clustered(self) -> bool:
        """Whether there is anything to put together."""
        return self._broker.clustering is not None

    def names(self) -> list[str]:
        """All members in order, this node among them."""
        clustering = self._broker.clustering
        return [self.own] if clustering is None else sorted({self.own, *clustering.membership.members.names()})

    def member(self, name: str) -> Member | None:
        """What is agreed about a node; nothing of a node that is alone."""
        clustering = self._broker.clustering
        return None if clustering is None else clustering.membership.members.get(name)

    def kind(self, name: str) -> str:
        member = self.member(name)
        return "disc" if member is None else member.kind

    def witness(self, name: str) -> dict[str, bool]:
        """What a row says of a node that holds no queues; nothing of any other."""
        member = self.member(name)
        return {"witness": True} if member is not None and member.witness else {}

    def others(self) -> list[str]:
        """Whoever can be asked."""
        clustering = self._broker.clustering
        if clustering is None or self._port is None:
            return []
        suspicion, now = clustering.membership.suspicion, time.monotonic()
        return [
            name
            for name in clustering.membership.members.names()
            if name != self.own and suspicion.is_connected(name) and self._silent.get(name, 0.0) <= now
        ]

    def silent(self) -> list[str]:
        """Members that cannot be asked, or did not answer just now."""
        answering = self.running()
        return [name for name in self.names() if name not in answering]

    def running(self) -> list[str]:
        """Whoever runs, as far as is known here."""
        return sorted([self.own, *self.others()])

    def paused(self) -> bool:
        """Whether this node serves no clients because it is cut off."""
        clustering = self._broker.clustering
        return clustering is not None and clustering.membership.paused

    def parted(self) -> list[str]:
        """Nodes that live, and are not reached from here."""
        clustering = self._broker.clustering
        if clustering is None:
            return []
        membership = clustering.membership
        return membership.suspicion.parted(membership.members, int(self._broker.turn.now_ms))

    def links(self) -> list[LinkFacts]:
        return [] if self._port is None else self._port.standing()

    # -- asking

    async def ask(self, node: str, question: Question) -> Told | None:
        """What the node answers, if it does."""
        return await self._ask(node, question.encode())

    async def ask_each(self, questions: dict[str, Question]) -> dict[str, Told]:
        """What each of these nodes answers to its own question; without those that do not."""
        told = await asyncio.gather(*(self._ask(node, one.encode()) for node, one in questions.items()))
        return {node: answer for node, answer in zip(questions, told, strict=True) if answer is not None}

    async def ask_all(self, question: Question, nodes: Iterable[str] | None = None) -> dict[str, Told]:
        """What these, or all others, answer to one question."""
        return await self.ask_each(dict.fromkeys(self.others() if nodes is None else nodes, question))

    async def _ask(self, node: str, question: bytes) -> Told | None:
        if self._port is None or node not in self.others():
            return None
        try:
            return decode_told(await self._port.ask(node, question))
        except (OSError, ValueError):
            self._silent[node] = time.monotonic() + LEFT_ALONE_S
            return None
