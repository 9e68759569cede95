"""The other nodes of the cluster, and queries to them.

All linked nodes are asked in parallel. A node that does not respond is not asked again for a while, so that a hanging
node delays a client that polls once and not at each request. A response without some nodes has only what this node
knows of their objects.

A query is an HTTP API request of which the other node answers its own part. The user has logged in to the asking node,
and the asking node has proved that it is a member, so the query carries the user without a password. Parts of a list,
so that a page costs only its own rows:

- `index`: the key of each object of that node, and the value of one column;
- `rows`: the rows of some objects, by key;
- `waiting`: the consumers that are not active, which only a queue's home node knows.

`here` is not a part of a list: it asks for the node's own response to the request. Keys are tuples of names and mean
the same object on every node.

Not here: sockets and limits (`node.peers.requests`), answering (`admin.peer_requests`).
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
from warren.broker.metadata.cluster_definitions import NodeDefinition
from warren.broker.model.identity import Identity

INDEX = "index"
ROWS = "rows"
HERE = "here"
WAITING = "waiting"

RowKey = tuple[str, ...]


@dataclass(frozen=True)
class QueryPart:
    """The part of a response that is asked for."""

    kind: str
    column: str = ""
    keys: tuple[RowKey, ...] = ()


@dataclass(frozen=True)
class PeerQuery:
    """A request that another node is to answer."""

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
                **_login(api_user.identity),
                "part": [part.kind, part.column, part.keys],
                "body": self.body.decode("latin-1"),
            }
        )


def _login(identity: Identity) -> dict[str, Any]:
    """The login of a user who is not of this broker. The other node knows those who are."""
    if identity.is_internal():
        return {}
    return {"login": [identity.authn, identity.authz, identity.tags, identity.scopes, identity.expires_at_ms]}


def _identity(name: str, login: Any) -> Identity:
    if login is None:
        return Identity(name)
    authn, authz, tags, scopes, expires_at_ms = login
    return Identity(name, str(authn), str(authz), list(map(str, tags)), list(map(str, scopes)), int(expires_at_ms))


def decode_query(data: bytes) -> PeerQuery:
    """`ValueError`, `KeyError` or `TypeError` if the data is invalid."""
    fields = document_of(data)
    name, tags, vhosts = fields["visitor"]
    kind, column, keys = fields["part"]
    return PeerQuery(
        str(fields["method"]),
        str(fields["path"]).encode("latin-1"),
        str(fields["query"]).encode("latin-1"),
        str(fields["reason"]),
        ApiUser(str(name), list(tags), list(vhosts), _identity(str(name), fields.get("login"))),
        QueryPart(str(kind), str(column), tuple(tuple(map(str, key)) for key in keys)),
        str(fields["body"]).encode("latin-1"),
    )


@dataclass(frozen=True)
class PeerReply:
    """Another node's response: HTTP status and body."""

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
    """This node's view of the others."""

    def __init__(self, broker: Broker, own: str, port: PeerPort | None) -> None:
        self.own = own
        self._broker = broker
        self._port = port
        # when to ask nodes again that did not respond
        self._silent: dict[str, float] = {}

    # -- members

    def clustered(self) -> bool:
        """Whether this node belongs to a cluster."""
        return self._broker.cluster is not None

    def names(self) -> list[str]:
        """All members sorted, this node included."""
        cluster = self._broker.cluster
        return [self.own] if cluster is None else sorted({self.own, *cluster.membership.members.names()})

    def member(self, name: str) -> NodeDefinition | None:
        """The agreed facts about a node; None outside a cluster."""
        cluster = self._broker.cluster
        return None if cluster is None else cluster.membership.members.get(name)

    def kind(self, name: str) -> str:
        member = self.member(name)
        return "disc" if member is None else member.kind

    def witness(self, name: str) -> dict[str, bool]:
        """The row's field for a witness, which holds no queues; empty for other nodes."""
        member = self.member(name)
        return {"witness": True} if member is not None and member.witness else {}

    def others(self) -> list[str]:
        """The nodes that can be asked."""
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
        """Members that cannot be asked or did not respond recently."""
        answering = self.running()
        return [name for name in self.names() if name not in answering]

    def running(self) -> list[str]:
        """The nodes that run, as far as this node knows."""
        return sorted([self.own, *self.others()])

    def paused(self) -> bool:
        """Whether this node serves no clients because it is cut off."""
        cluster = self._broker.cluster
        return cluster is not None and cluster.membership.paused

    def parted(self) -> list[str]:
        """Nodes that are alive but cannot be reached from here."""
        cluster = self._broker.cluster
        if cluster is None:
            return []
        membership = cluster.membership
        return membership.reachability.partitioned(membership.members, int(self._broker.turn.now_ms))

    def links(self) -> list[LinkFacts]:
        return [] if self._port is None else self._port.standing()

    # -- asking

    async def ask(self, node: str, peer_query: PeerQuery) -> PeerReply | None:
        """The node's response; None if there is none."""
        return await self._ask(node, peer_query.encode())

    async def ask_each(self, queries: dict[str, PeerQuery]) -> dict[str, PeerReply]:
        """The responses of these nodes, each to its own query; without those that do not respond."""
        replies = await asyncio.gather(*(self._ask(node, one.encode()) for node, one in queries.items()))
        return {node: answer for node, answer in zip(queries, replies, strict=True) if answer is not None}

    async def ask_all(self, peer_query: PeerQuery, nodes: Iterable[str] | None = None) -> dict[str, PeerReply]:
        """The responses of these nodes, or of all others, to one query."""
        return await self.ask_each(dict.fromkeys(self.others() if nodes is None else nodes, peer_query))

    async def _ask(self, node: str, peer_query: bytes) -> PeerReply | None:
        if self._port is None or node not in self.others():
            return None
        try:
            return decode_reply(await self._port.ask(node, peer_query))
        except (OSError, ValueError):
            self._silent[node] = time.monotonic() + SILENT_PEER_BACKOFF_S
            return None
