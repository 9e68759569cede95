"""The connections of one node: one to every member.

Of two nodes, the one with the lower name dials. The other one *knocks*: it does the handshake, and is then dialled at
once. So a node that comes back has its connections in a moment, even if its peers are in a backoff; there are never two
connections to choose from; and a node with a duplicate name is refused by every node that it dials.

The broker sees a node's events in order: `PeerConnected`, then reads, then `PeerLost`, before the next `PeerConnected`.
A replaced connection (the same process dials again, having lost the one this side still has) ends first. Effects of a
turn go to the connection that the broker knew in that turn: a connection begins in a callback of the loop, and every
turn handles all events before it carries out an effect.

`close` comes last in a node's life, after the broker has stopped: a port that refuses connections is the sign of a
process that has ended.

**Dialling.** `PeerDialer` keeps a connection to one member. Without one it tries at once, then after 0.1 s, twice as
long each time, up to 2 s, and never gives up. A connection that broke within 2 s does not reset the backoff. The end of
a connection does not tell what became of the node. If a later attempt finds that the node's port refuses connections,
that run of its process seems to be over, and `turned_away` is called, once for each connection. It is no proof: a
firewall may refuse in the node's place. Attempts that fail for the same reason as the last one are not logged.

Not here: the list of members (`node.cluster.agent`), what goes over a connection (`broker.links`).
"""

import asyncio
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from warren.admin.background import BackgroundTasks
from warren.admin.ports import LinkFacts
from warren.broker.cluster.addresses import PeerAddress, parse_address
from warren.broker.cluster.hello import (
    ASK,
    JOIN,
    KNOCK,
    LINK,
    NONCE_BYTES,
    AcceptHello,
    DialHello,
    Hello,
    KnownPeers,
    PeerIdentity,
)
from warren.broker.model.effects import DropPeer, Effect, SendToPeer
from warren.broker.model.events import PeerConnected, PeerLost
from warren.node.config.cluster_settings import ClusterSettings
from warren.node.listeners import bind, bound_address
from warren.node.logs import Log
from warren.node.peers.connection import GOODBYE_PATIENCE_S, PeerConnection
from warren.node.peers.handshake import (
    ConnectionTaker,
    DialFailed,
    PeerHandshake,
    PeerListener,
    ThrottledLog,
    dial,
    socket_error_text,
)
from warren.node.peers.requests import AnswerQuestion, JoinExchange, PeerConversation, PeerQueryClient, PeerQueryServer
from warren.node.tls import peer_tls_contexts
from warren.node.turn_loop import TurnLoop

PAUSE_MIN_S = 0.1
PAUSE_MAX_S = 2.0


class PeerDialer:
    """Tries to `reach` a member while there is no connection to it."""

    def __init__(
        self,
        name: str,
        address: PeerAddress,
        loop: asyncio.AbstractEventLoop,
        log: Log,
        reach: Callable[["PeerDialer"], Awaitable[None]],
        turned_away: Callable[[str, str], None],
        tasks: BackgroundTasks,
    ) -> None:
        self.name = name
        self.address = address
        self.last_failure = ""
        self._loop = loop
        self._log = log
        self._reach = reach
        self._turned_away = turned_away
        self._linked_since = 0.0
        self._missing = asyncio.Event()
        self._missing.set()
        self._hurried = asyncio.Event()
        self._pause_s = PAUSE_MIN_S
        # whether it is unknown what became of the node after a connection ended
        self._fate_open = False
        self._task = tasks.start(f"connection to {name}", self._keep)

    def stop(self) -> None:
        self._task.cancel()

    def linked(self) -> None:
        """There is a connection, dialled by either side."""
        self.last_failure = ""
        self._fate_open = False
        self._linked_since = self._loop.time()
        self._missing.clear()

    def lost(self) -> None:
        """The connection is lost."""
        self._fate_open = True
        if self._loop.time() - self._linked_since >= PAUSE_MAX_S:
            self._pause_s = PAUSE_MIN_S
        self._missing.set()

    def hurry(self) -> None:
        """The node is known to be there: do not wait."""
        self._hurried.set()

    async def _keep(self) -> None:
        while True:
            await self._missing.wait()
            self._hurried.clear()
            try:
                await self._reach(self)
            except DialFailed as failure:
                self._failed(failure)
            if not self._missing.is_set():
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause_s):
                    await self._hurried.wait()
            self._pause_s = min(PAUSE_MAX_S, self._pause_s * 2)

    def _failed(self, failure: DialFailed) -> None:
        if failure.connection_refused and self._fate_open and self._missing.is_set():
            self._fate_open = False
            self._turned_away(self.name, failure.reason)
        if failure.reason != self.last_failure and self._missing.is_set():
            self.last_failure = failure.reason
            self._complain(failure)

    def _complain(self, failure: DialFailed) -> None:
        log, name, where, reason = self._log, self.name, self.address, failure.reason
        if failure.by_peer:
            log.warning("refusal.received", node=name, address=where, reason=reason)
        elif failure.refused:
            log.warning("peer.refused", node=name, address=where, reason=reason)
        else:
            log.warning("peer.unreachable", node=name, address=where, reason=reason)


_CHOOSE = "choose another with --peer HOST:PORT (port 0 picks a free one)"

KNOCK_LATE_S = 1.0
"""A knock within this time after a connection may have been sent before it."""

Members = Callable[[], Mapping[str, str]]
"""The cluster's nodes: by name, the address `HOST:PORT` of each; with or without this one."""

AnswerJoin = Callable[[PeerIdentity, bytes], Awaitable[bytes]]
"""Answers a node that wants to become a member; its `PeerIdentity` is proved."""


class PeerConnections(KnownPeers):
    """Keeps a connection to every member, and answers at the peer port, which the constructor binds."""

    def __init__(
        self,
        settings: ClusterSettings,
        own: PeerIdentity,
        cookie: bytes,
        log: Log,
        members: Members,
        answer_join: AnswerJoin,
        tasks: BackgroundTasks,
    ) -> None:
        """`own` without an address gets the one the node listens on. Raises `ConfigError` if that cannot be bound."""
        self.links: dict[str, PeerConnection] = {}
        self.own = own
        self._settings = settings
        self._cookie = cookie
        self._log = log
        self._members = members
        self._answer_join = answer_join
        self._tasks = tasks
        self._contexts = peer_tls_contexts(settings.tls)
        self.sockets = bind(settings.peer_listener, _CHOOSE)
        if not own.address:
            own.address = _reachable(self.sockets[0], own.name)
        self._keepers: dict[str, PeerDialer] = {}
        # the IP addresses of each member's host, as of the last attempt to dial it
        self._resolved: dict[str, set[str]] = {}
        self._ending: set[PeerConnection] = set()
        self._answering: set[asyncio.Task[None]] = set()
        self._closed = False
        # admin requests to other nodes, and theirs to this one
        self._asker = PeerQueryClient(self._converse)
        self._answerer = PeerQueryServer()
        self._door: PeerListener | None = None
        self._complaints: ThrottledLog | None = None

    def turn_away(self) -> None:
        """Until `start`, refuse connections at once, so that other nodes do not wait for an answer."""
        for bound in self.sockets:
            asyncio.get_running_loop().add_reader(bound.fileno(), _close_refused, bound)

    def start(self, turns: TurnLoop) -> None:
        """Accept and dial; the turns must carry out `orders`."""
        for bound in self.sockets:
            turns.loop.remove_reader(bound.fileno())
        self._turns = turns
        self._loop = turns.loop
        self._complaints = ThrottledLog(self._loop, self._log)
        self._door = PeerListener(
            self.sockets, self._contexts.listening, self._accepting, self._complaints, self._member_addresses
        )
        self._door.open(self._loop)
        self.members_changed()

    def orders(self) -> Mapping[type[Effect], Callable[[Any], None]]:
        return {SendToPeer: self._send, DropPeer: self._drop}

    def members_changed(self) -> None:
        """Keep connections to the members, and to no other node; `start` does so itself."""
        if self._closed or self._door is None:
            return
        wanted = self._addresses()
        for name in [name for name in self._keepers if name not in wanted]:
            self._keepers.pop(name).stop()
            self._resolved.pop(name, None)
            if name in self.links:
                self.links[name].end(f"{name} is no longer a member", goodbye=True)
        for name, address in wanted.items():
            if name in self._keepers:
                self._keepers[name].address = address
            else:
                self._keepers[name] = PeerDialer(
                    name, address, self._loop, self._log, self._reach, self._turned_away, self._tasks
                )

    async def ask_to_join(self, address: PeerAddress, request: bytes, meant: str = "") -> tuple[PeerIdentity, bytes]:
        """The node at that address, and its answer; `DialFailed` says why there is none, or another node answers. Works
        before `start`, too."""
        exchanges: list[JoinExchange] = []

        def taken(hello: Hello, transport: asyncio.Transport) -> None:
            assert hello.peer is not None
            exchanges.append(JoinExchange(asyncio.get_running_loop(), hello.peer))
            exchanges[0].take_over(transport, hello.rest)
            exchanges[0].send(request)

        await dial(address, self._contexts.dialling, self._greeting(JOIN, meant, taken))
        try:
            return exchanges[0].facts, await exchanges[0].receive()
        except OSError as error:
            raise DialFailed(socket_error_text(error)) from error
        finally:
            exchanges[0].close()

    async def close(self, reason: str = "the node stops") -> None:
        """Say goodbye to all nodes, and close the port."""
        if self._closed:
            return
        self._closed = True
        if self._door is None or self._complaints is None:
            for bound in self.sockets:
                asyncio.get_running_loop().remove_reader(bound.fileno())
                bound.close()
            return
        self._asker.close()
        self._answerer.close()
        for keeper in self._keepers.values():
            keeper.stop()
        for link in list(self.links.values()):
            link.end(reason, goodbye=True)
        for task in self._answering:
            task.cancel()
        if self._ending:
            await asyncio.wait([link.gone for link in self._ending], timeout=GOODBYE_PATIENCE_S)
        await self._door.close()
        self._complaints.close()

    def is_member(self, name: str) -> bool:
        return name in self._members()

    def connected(self, name: str) -> PeerIdentity | None:
        link = self.links.get(name)
        return None if link is None else link.facts

    def failures(self) -> dict[str, str]:
        """Why there is no connection, for every unconnected member with a known reason."""
        return {name: keeper.last_failure for name, keeper in self._keepers.items() if name not in self.links}

    def _addresses(self) -> dict[str, PeerAddress]:
        """The addresses of the other members; members without a valid address are skipped."""
        found: dict[str, PeerAddress] = {}
        for name, where in self._members().items():
            if name == self.own.name:
                continue
            try:
                found[name] = parse_address(where)
            except ValueError as error:
                self._log.warning("peer.unreachable", node=name, address=where, reason=f"its address must be {error}")
        return found

    async def ask(self, node: str, question: bytes) -> bytes:
        """A member's answer to an admin request; raises `OSError` if there is none."""
        return await self._asker.ask(node, question)

    def answers(self, answer: AnswerQuestion) -> None:
        """Answer other nodes' requests with this function from here on."""
        self._answerer.answer = answer

    def standing(self) -> list[LinkFacts]:
        """The current connections."""
        found = [(name, link, *link.endpoints()) for name, link in sorted(self.links.items())]
        return [LinkFacts(name, *own, *peer, link.sent_bytes, link.received_bytes) for name, link, own, peer in found]

    async def _reach(self, keeper: PeerDialer) -> None:
        """Dial, or make the other side dial."""
        dials = self.own.name < keeper.name
        greeting = self._greeting(LINK if dials else KNOCK, keeper.name, self._begin if dials else _hang_up)
        await dial(keeper.address, self._contexts.dialling, greeting, partial(self._resolved.__setitem__, keeper.name))

    def _member_addresses(self) -> set[str]:
        return set().union(*self._resolved.values())

    async def _converse(self, conversation: PeerConversation) -> None:
        """Open a socket to its node."""
        if self._closed or conversation.node not in self._keepers:
            raise DialFailed(f"{conversation.node} is not a member")

        def taken(hello: Hello, transport: asyncio.Transport) -> None:
            conversation.take_over(transport, hello.rest)

        address = self._keepers[conversation.node].address
        await dial(address, self._contexts.dialling, self._greeting(ASK, conversation.node, taken))

    def _greeting(self, purpose: str, meant: str, taken: ConnectionTaker) -> PeerHandshake:
        def hello(channel: bytes) -> Hello:
            nonce = secrets.token_bytes(NONCE_BYTES)
            return DialHello(self.own, self._cookie, nonce, purpose, meant, channel)

        return PeerHandshake(asyncio.get_running_loop(), hello, taken)

    def _accepting(self) -> PeerHandshake:
        def hello(channel: bytes) -> Hello:
            return AcceptHello(self.own, self._cookie, secrets.token_bytes(NONCE_BYTES), self, channel)

        return PeerHandshake(self._loop, hello, self._let_in)

    def _let_in(self, hello: Hello, transport: asyncio.Transport) -> None:
        assert hello.peer is not None
        if hello.purpose == LINK:
            self._begin(hello, transport)
        elif hello.purpose == JOIN:
            task = self._loop.create_task(self._answer(hello.peer, transport, hello.rest))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
        elif hello.purpose == ASK:
            self._answerer.let_in(hello.peer.name, transport, hello.rest)
        else:
            if hello.purpose == KNOCK:
                self._knocked(hello.peer)
            transport.close()

    def _knocked(self, facts: PeerIdentity) -> None:
        """A knocking node has no connection. If this side has one, it is lost, unless it has only just begun."""
        link = self.links.get(facts.name)
        if link is not None and (not facts.is_same_incarnation(link.facts) or link.age_s() > KNOCK_LATE_S):
            link.end("it knocked, without a link")
        if facts.name in self._keepers:
            self._keepers[facts.name].hurry()

    def _begin(self, hello: Hello, transport: asyncio.Transport) -> None:
        facts = hello.peer
        assert facts is not None
        name = facts.name
        if name not in self._keepers:
            # it was a member during the handshake; the list may not have arrived yet
            self.members_changed()
        if self._closed or name not in self._keepers:
            transport.abort()
            return
        if name in self.links:
            self.links[name].end("it dialled again")
        link = PeerConnection(facts, self._settings.silence_s, self._loop, self._turns.add, self._ended)
        self.links[name] = link
        self._keepers[name].linked()
        self._log.info("peer.connected", node=name, address=facts.address, incarnation=facts.incarnation)
        self._turns.add(PeerConnected(name, facts.incarnation))
        link.take_over(transport, hello.rest)

    def _ended(self, link: PeerConnection, reason: str) -> None:
        name = link.facts.name
        if not link.gone.done():
            self._ending.add(link)
            link.gone.add_done_callback(lambda gone: self._ending.discard(link))
        del self.links[name]
        if not self._closed:
            self._log.warning("peer.lost", node=name, reason=reason)
        self._turns.add(PeerLost(name, reason, refused=False))
        if name in self._keepers:
            self._keepers[name].lost()

    def _turned_away(self, name: str, reason: str) -> None:
        self._log.info("peer.died", node=name, reason=reason)
        self._turns.add(PeerLost(name, reason, refused=True))

    def _send(self, effect: SendToPeer) -> None:
        link = self.links.get(effect.node)
        if link is not None:
            link.send(effect.pieces)

    def _drop(self, effect: DropPeer) -> None:
        link = self.links.get(effect.node)
        if link is not None:
            link.end(effect.reason, goodbye=True)

    async def _answer(self, facts: PeerIdentity, transport: asyncio.Transport, rest: bytes) -> None:
        exchange = JoinExchange(self._loop, facts)
        exchange.take_over(transport, rest)
        try:
            exchange.send(await self._answer_join(facts, await exchange.receive()))
        except OSError as error:
            self._log.warning("peer.refused", node=facts.name, address=facts.address, reason=socket_error_text(error))
        finally:
            exchange.close()


def _hang_up(hello: Hello, transport: asyncio.Transport) -> None:
    """A knock is over once it was heard."""
    transport.close()


def _close_refused(bound: socket.socket) -> None:
    with suppress(OSError):
        bound.accept()[0].close()


def _reachable(bound: socket.socket, name: str) -> str:
    """The address that other nodes dial: where this node listens, or the host of its name if that is everywhere."""
    where = bound_address(bound)
    host = name.partition("@")[2] if where.host in ("0.0.0.0", "::") else where.host
    return str(PeerAddress(host, where.port))
