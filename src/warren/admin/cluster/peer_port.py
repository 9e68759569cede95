"""What the operators' side of a node wants of the nodes around it.

Not here: how they are reached (`node.peers`), what is asked of them (`cluster.question`).
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class LinkFacts:
    """A link to another node that stands."""

    node: str
    own_host: str
    own_port: int
    peer_host: str
    peer_port: int
    sent_bytes: int
    received_bytes: int

    @property
    def key(self) -> tuple[str, int, int]:
        """Which link it is: one that was made anew is another."""
        return self.node, self.own_port, self.peer_port


class PeerPort(Protocol):
    """The other nodes of the cluster."""

    async def ask(self, node: str, question: bytes) -> bytes:
        """The node's answer, soon; `OSError` if there is none."""

    def answers(self, answer: Callable[[bytes], Awaitable[bytes]]) -> None:
        """From here on, questions of others are answered by this."""

    def standing(self) -> list[LinkFacts]:
        """The links that there are."""
