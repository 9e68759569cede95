"""The nodes of the cluster, to ask.

Those that are linked are asked, all at once. Who does not answer is left alone for a while, so that a node that hangs
costs whoever polls one wait and not one for each request. A node that was not asked, or did not answer, has nothing to
say, and everybody puts up with that: what is known of its things here is shown without what it alone knows.

Not here: the bytes of a question (`cluster.question`), the sockets and their bounds (`node.peers.requests`).

A question of one node to another: a request of the HTTP API, of which the other node answers its own part.

The visitor has proved who they are to the node that asks, and a node that asks has proved that it is a member, so it is
believed. What is wanted of a list is a `Part` of it, so that a page costs what is on the page:

- `index`: the key of each thing that lives there, and the value of one column;
- `rows`: the rows of some things, by their keys;
- `waiting`: of consumers, which of the asking nodes' are not active, which a queue's home knows.

`here` is no list's part: the answer is that of the request, for the node alone.

Keys are tuples of names, which say which thing is meant on whatever node.

Not here: asking (`cluster.peers`), answering (`cluster.answering`).
"""

import asyncio
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from warren.admin.http.authentication import ApiUser
from warren.admin.http.responses import to_json
from warren.admin.ports import LinkFacts, PeerPort
from warren.broker.broker import Broker
from warren.broker.membership import ClusterMember

INDEX = "index"
ROWS = "rows"
HERE = "here"
WAITING = "waiting"

RowKey = tuple[str, ...]


@dataclass(frozen=True)
class QueryPart:
    """What a node wants of another."""

    kind: str
    column: str = ""
    keys: tuple[RowKey, ...] = ()


@dataclass(frozen=True)
class PeerQuery:
    """A request as another node is to answer it."""

    method: str
    path: bytes
    query: bytes
    reason: str
    api_user: ApiUser
    part: QueryPart
    body: bytes = b""

    def encode(self) -> bytes:
        part, api_user = self.part, self.api_user
        return to_json(
            {
                "method": self.method,
                "path": self.path.decode("latin-1"),
                "query": self.query.decode("latin-1"),
                "reason": self.reason,
                "visitor": [api_user.name, api_user.tags, api_user.vhosts],
                "part": [part.kind, part.column, part.keys],
                "body": self.body.decode("latin-1"),
            }
        )


def decode_query(data: bytes) -> PeerQuery:
    """`ValueError`, `KeyError` or `TypeError` if it is none."""
    fields = document_of(data)
    name, tags, vhosts = fields["visitor"]
    kind, column, keys = fields["part"]
    return PeerQuery(
        str(fields["method"]),
        str(fields["path"]).encode("latin-1"),
        str(fields["query"]).encode("latin-1"),
        str(fields["reason"]),
        ApiUser(str(name), list(tags), list(vhosts)),
        QueryPart(str(kind), str(column), tuple(tuple(map(str, key)) for key in keys)),
        str(fields["body"]).encode("latin-1"),
    )


@dataclass(frozen=True)
class PeerReply:
    """What a node answered: a status of HTTP, and the body."""

    status: int
    body: bytes

    def encode(self) -> bytes:
        return b"%03d%b" % (self.status, self.body)

    @property
    def document(self) -> Any:
        return document_of(self.body)


def decode_reply(data: bytes) -> PeerReply:
    return PeerReply(int(data[:3]), data[3:])


def document_of(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        # names that are not UTF-8 are lone surrogates
        return json.loads(data)


SILENT_PEER_BACKOFF_S = 5.0


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
        return self._broker.cluster is not None

    def names(self) -> list[str]:
        """All members in order, this node among them."""
        cluster = self._broker.cluster
        return [self.own] if cluster is None else sorted({self.own, *cluster.membership.members.names()})

    def member(self, name: str) -> ClusterMember | None:
        """What is agreed about a node; nothing of a node that is alone."""
        cluster = self._broker.cluster
        return None if cluster is None else cluster.membership.members.get(name)

    def kind(self, name: str) -> str:
        member = self.member(name)
        return "disc" if member is None else member.kind

    def witness(self, name: str) -> dict[str, bool]:
        """What a row says of a node that holds no queues; nothing of any other."""
        member = self.member(name)
        return {"witness": True} if member is not None and member.witness else {}

    def others(self) -> list[str]:
        """Whoever can be asked."""
        cluster = self._broker.cluster
        if cluster is None or self._port is None:
            return []
        reachability, now = cluster.membership.reachability, time.monotonic()
        return [
            name
            for name in cluster.membership.members.names()
            if name != self.own and reachability.is_connected(name) and self._silent.get(name, 0.0) <= now
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
        cluster = self._broker.cluster
        return cluster is not None and cluster.membership.paused

    def parted(self) -> list[str]:
        """Nodes that live, and are not reached from here."""
        cluster = self._broker.cluster
        if cluster is None:
            return []
        membership = cluster.membership
        return membership.reachability.partitioned(membership.members, int(self._broker.turn.now_ms))

    def links(self) -> list[LinkFacts]:
        return [] if self._port is None else self._port.standing()

    # -- asking

    async def ask(self, node: str, question: PeerQuery) -> PeerReply | None:
        """What the node answers, if it does."""
        return await self._ask(node, question.encode())

    async def ask_each(self, questions: dict[str, PeerQuery]) -> dict[str, PeerReply]:
        """What each of these nodes answers to its own question; without those that do not."""
        told = await asyncio.gather(*(self._ask(node, one.encode()) for node, one in questions.items()))
        return {node: answer for node, answer in zip(questions, told, strict=True) if answer is not None}

    async def ask_all(self, question: PeerQuery, nodes: Iterable[str] | None = None) -> dict[str, PeerReply]:
        """What these, or all others, answer to one question."""
        return await self.ask_each(dict.fromkeys(self.others() if nodes is None else nodes, question))

    async def _ask(self, node: str, question: bytes) -> PeerReply | None:
        if self._port is None or node not in self.others():
            return None
        try:
            return decode_reply(await self._port.ask(node, question))
        except (OSError, ValueError):
            self._silent[node] = time.monotonic() + SILENT_PEER_BACKOFF_S
            return None
