"""A process's life in a cluster, or alone with a door open for the first who wants to join.

::

    cluster.json? ──no──► told to join? ──no──► alone ──somebody asks to join──► founds a cluster, as it runs
         │ yes                 │ yes
         │                     └──► asks members in turn until one takes it in ──► cluster.json
         └──► resumes its part of the store ──► waits for a majority ──► a member, from its first turn on

When nodes that are configured as a cluster start for the first time, and all at once, they ask one another, and one of
them has to be there first: the first that is configured. It is alone if nobody has answered for a while; the others ask
on until somebody answers.

A member starts with what the store holds. What it says of itself (its addresses, that it lives) is in the store before
its core is made, so that the core finds itself among the others.

Founding happens under the eyes of clients: the core keeps its plans back, its definitions move, `cluster.json` is
written, and the core goes on with the store it shares. Until the file is there, all of it can be undone, and is, if
anything fails or the process dies: at once, at the next start, or, in a store that somebody else runs, by the next
founding.

Not here: the file (`node.cluster.cluster_file`), the store (`node.cluster.shared_store`), links (`node.peers`).
"""

import asyncio
import os
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from warren.admin.desk import Desk
from warren.broker.broker import Broker
from warren.broker.commands import BeginSharing
from warren.broker.sharing.moving_in import PassingDefinitions, shared_snapshot
from warren.cluster.addresses import PeerAddress
from warren.cluster.hello_messages import Facts
from warren.errors import ConfigError, StoreError
from warren.model.effects import KeepMembers
from warren.model.events import SharingGivenUp, SharingReady
from warren.model.settings import DISC, RAM
from warren.node.cluster.cluster_file import ClusterFacts, ClusterFile, FoundingFile, MemberAddresses
from warren.node.cluster.counting import count_run
from warren.node.cluster.join_messages import JoinAnswer, JoinRefused, JoinRequest
from warren.node.cluster.refusal import lives, nobody_online, not_in_the_cluster
from warren.node.cluster.witness import refuse_held, refuse_lone_witness
from warren.node.config.settings import NodeSettings
from warren.node.disk.disk import Disk
from warren.node.disk.names import ETCD
from warren.node.listeners import settled
from warren.node.logs import Log
from warren.node.peers.cookie import read_cookie
from warren.node.peers.discovery import comes_first, discover
from warren.node.peers.links import Links
from warren.node.turns import Turns
from warren.store.cluster_definitions import NodeDefinition, RunDefinition
from warren.store.recovery import Found
from warren.store.topology_definitions import EXCHANGES, QUEUES

if TYPE_CHECKING:
    from warren.node.cluster.shared_store import SharedStore
    from warren.node.cluster.store_pump import StorePump

PAUSE_S = 1.0
SAY_EVERY_S = 10.0
FIRST_PATIENCE_S = 3.0
CLEARED_WITHIN_S = 30.0
CLEARED_PAUSE_S = 0.02
LEFTOVERS_PATIENCE_S = 10.0
_REMOVED = (
    "{name} was removed from its cluster while it was down; start it with an empty --data instead of {data}, or with "
    "--stopped and then use 'warren ctl reset' or 'warren ctl force_reset'"
)
_HALF_RENAMED = (
    "{name} was about to be called {new} when it was interrupted; start it with --stopped, and finish that with "
    "'warren ctl rename_cluster_node {name} {new}'"
)


class ClusterLife:
    """From before there is a core until after its end."""

    def __init__(self, settings: NodeSettings, disk: Disk, log: Log) -> None:
        self._settings = settings
        self._disk = disk
        self._log = log
        self._file = ClusterFile(disk.path)
        self._founding = FoundingFile(disk.path)
        self._facts: ClusterFacts | None = None
        self._links: Links | None = None
        self._shared: SharedStore | None = None
        self._pump: StorePump | None = None
        self._admitting = asyncio.Lock()
        self._peers: dict[str, str] = {}

    @property
    def name(self) -> str:
        return self._settings.broker.node_name

    @property
    def cookie(self) -> bytes:
        """What operators of this node have to know while it has no users; nobody does if it has none."""
        try:
            return read_cookie(self._settings.cluster)
        except ConfigError:
            return os.urandom(32)

    @property
    def peer_address(self) -> str:
        """Where other nodes reach this one; empty if they cannot."""
        return "" if self._links is None else self._links.own.address

    @property
    def links(self) -> Links | None:
        """The links to other nodes; none if this one cannot be reached."""
        return self._links

    # -- before there is a core

    async def begin(self, now_ms: int, http: str, amqp: str) -> Found:
        """What the core is to start with."""
        incarnation = self._disk.begin_incarnation()
        self._facts = self._file.read()
        self._refuse_half_a_name()
        self._open_links(incarnation)
        if self._facts is None:
            await self._clear_up()
            await self._join_if_told()
        if self._facts is None and self._settings.cluster.witness:
            refuse_lone_witness(self.name)
        found = self._disk.found(incarnation, now_ms)
        if self._facts is not None:
            self._founding.remove()
            await self._take_part(self._facts, found, http, amqp)
        return found

    def _refuse_half_a_name(self) -> None:
        facts = self._facts
        if facts is not None and facts.renaming not in ("", self.name):
            raise StoreError(_HALF_RENAMED.format(name=self.name, new=facts.renaming))

    async def _clear_up(self) -> None:
        """Founding or joining may have been interrupted."""
        if self._links is not None and os.path.isdir(os.path.join(self._disk.path, ETCD)):
            await self._new_store().clear_up("")

    async def _join_if_told(self) -> None:
        cluster = self._settings.cluster
        if cluster.join:
            await self._join(cluster.join, None)
        elif not self._disk.recorded():
            addresses = await discover(cluster, self.name)
            if addresses:
                first = not (cluster.ram or cluster.witness) and await comes_first(cluster, self.name)
                await self._join(addresses, FIRST_PATIENCE_S if first else None)

    def _open_links(self, incarnation: int) -> None:
        cluster = self._settings.cluster
        kind = RAM if cluster.ram else DISC
        cluster_id = ""
        if self._facts is not None:
            kind, cluster_id = self._facts.kind, self._facts.cluster_id
        own = Facts(self.name, incarnation, cluster_id, "", kind, int(cluster.silence_s * 1000))
        try:
            cookie = read_cookie(cluster)
            self._links = Links(cluster, own, cookie, self._log, lambda: self._peers, self._answer_join)
            self._links.turn_away()
            cluster.peer_listener = settled(cluster.peer_listener, self._links.sockets)
        except ConfigError as error:
            if cluster.peer_asked_for or self._facts is not None or cluster.join:
                raise
            self._log.warning("peers.refused", reason=str(error), effect="no other node can join this one")

    async def _join(self, addresses: list[PeerAddress], patience_s: float | None) -> None:
        """Become a member of the cluster of whoever answers first; stay alone if nobody does for so long."""
        if any(key.startswith((f"{QUEUES}/", f"{EXCHANGES}/")) for key in self._disk.recorded()):
            raise ConfigError(
                f"--data {self._settings.data_dir} has exchanges and queues of a node that was alone, which it would "
                "lose by joining; start with an empty directory, or without --join"
            )
        assert self._links is not None
        # a node that is alone does without the libraries
        from warren.node.cluster.joining import Joining, NobodyThere

        joining = Joining(self._settings, self._disk.path, self._links, self._log)
        try:
            _name, answer = await joining.ask(addresses, patience_s=patience_s)
        except NobodyThere as error:
            self._log.info("cluster.awaited", reason=str(error), effect="alone until other nodes join")
            return
        self._disk.forget_messages()
        self._facts, self._shared = await joining.enter(answer)
        self._links.own.cluster_id = answer.cluster_id

    async def _take_part(self, facts: ClusterFacts, found: Found, http: str, amqp: str) -> None:
        assert self._links is not None
        if self._shared is None:
            self._shared = await self._resumed(facts)
        shared = self._shared
        peer, witness = self._links.own.address, self._settings.cluster.witness
        self._definition = NodeDefinition(self.name, facts.kind, peer, http, amqp, shared.address, witness)
        await self._with_patience(shared.begun)
        if witness:
            refuse_held(self.name, facts, (await self._with_patience(shared.snapshot))[1])
        if not await self._with_patience(lambda: shared.enlist(self._definition, facts.enlisted)):
            raise StoreError(_REMOVED.format(name=self.name, data=self._settings.data_dir))
        if not facts.enlisted:
            self._facts = replace(facts, enlisted=True)
            self._file.write(self._facts)
        await self._with_patience(lambda: count_run(shared, self._disk, found, self._log))
        self._links.own.incarnation = found.incarnation
        await self._with_patience(lambda: shared.live(found.incarnation))
        revision, snapshot = await self._with_patience(shared.snapshot)
        found.share(revision, snapshot)

    async def _resumed(self, facts: ClusterFacts) -> "SharedStore":
        shared = self._new_store()
        if shared.has_lost_its_part(facts):
            self._log.warning("store.lost", effect="asking the other nodes for what was in it")
            await self._with_patience(lambda: shared.regain(facts))
        else:
            await shared.resume(facts)
        return shared

    async def _with_patience(self, ask: Any) -> Any:
        """Ask until there is a majority to answer."""
        loop = asyncio.get_running_loop()
        said_at = 0.0
        while True:
            try:
                return await ask()
            except ConnectionError as error:
                if self._shared is not None and self._shared.trouble:
                    removed = _REMOVED.format(name=self.name, data=self._settings.data_dir)
                    raise StoreError(f"{self._shared.trouble}: {removed}") from error
                if loop.time() - said_at >= SAY_EVERY_S:
                    said_at = loop.time()
                    self._log.warning("store.awaited", reason=str(error), effect="waiting for a majority of disc nodes")
                await asyncio.sleep(PAUSE_S)

    def _new_store(self) -> "SharedStore":
        # a node that is alone does without the libraries
        from warren.node.cluster.joining import new_store

        assert self._links is not None
        return new_store(self._settings, self._links.own.address, self._disk.path, self._log)

    # -- with a core

    def attach(self, core: Broker, turns: Turns, desk: Desk, http: str, amqp: str) -> None:
        """Let the core meet the others."""
        self._core, self._turns, self._desk = core, turns, desk
        self._addresses = (http, amqp)
        turns.attach({KeepMembers: self._keep_members})
        if self._facts is not None:
            assert core.clustering is not None
            self._start_pump(core.clustering.shared.applied)
        if self._links is not None:
            if not self._links.own.cluster_id:
                self._links.own.cluster_id = core.cluster_id()
            turns.attach(self._links.orders())
            self._links.start(turns)

    async def cleared(self) -> None:
        """Wait until what earlier runs left is gone, or for a while: a client that found any of it would lose it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LEFTOVERS_PATIENCE_S):
                while self._core.clustering is not None and not self._core.clustering.leftovers.clear:
                    await asyncio.sleep(CLEARED_PAUSE_S)

    def _start_pump(self, after: int) -> None:
        assert self._shared is not None
        assert self._shared.store is not None
        from warren.node.cluster.store_pump import StorePump

        self._pump = StorePump(self._shared.store, self._turns, self._log, self._store_failed)
        self._turns.attach(self._pump.orders())
        self._pump.start(after)

    def _store_failed(self, error: StoreError) -> None:
        self._log.critical("store.failed", reason=str(error))
        self._turns.halt()

    def _keep_members(self, effect: KeepMembers) -> None:
        """The cluster has these nodes from now on."""
        self._peers = {name: peer for name, peer, _store in effect.members}
        if self._links is not None:
            self._links.members_changed()
        if self._facts is None or self._shared is None:
            return
        if self.name not in self._peers:
            self._log.critical("node.removed", reason=_REMOVED.format(name=self.name, data=self._settings.data_dir))
            self._turns.halt()
            return
        members = {name: MemberAddresses(peer, store) for name, peer, store in effect.members}
        if members != self._facts.members:
            self._facts = replace(self._facts, members=members)
            self._file.write(self._facts)
            self._shared.use(self._facts)

    def pause(self) -> None:
        """Do not claim to be alive."""
        if self._shared is not None:
            self._changing_life = asyncio.ensure_future(self._shared.rest())

    def resume(self) -> None:
        if self._shared is not None and self._links is not None:
            self._changing_life = asyncio.ensure_future(self._shared.live(self._links.own.incarnation))

    # -- others who want to join

    async def _answer_join(self, facts: Facts, data: bytes) -> bytes:
        try:
            request = JoinRequest.decode(data)
            if request.name != facts.name:
                raise JoinRefused(f"it is not {request.name} that asks")
            self._refuse_taken_name(request)
            async with self._admitting:
                if self._facts is None:
                    await self._found()
            assert self._facts is not None
            return JoinAnswer(self._facts.cluster_id, self._facts.members).encode()
        except (JoinRefused, StoreError, ConfigError, ConnectionError) as refusal:
            self._log.warning("join.refused", node=facts.name, reason=str(refusal))
            return JoinAnswer(refused=str(refusal)).encode()

    def _refuse_taken_name(self, request: JoinRequest) -> None:
        """Of a node that lost its data the name is known, too; but then it does not live, or lived at that address."""
        lives = self._core.clustering is not None and self._core.clustering.membership.members.incarnation(request.name)
        if lives and self._peers.get(request.name) != request.peer:
            raise JoinRefused(f"a node called {request.name} lives at {self._peers.get(request.name)}")

    async def forget(self, name: str) -> None:
        """Remove a member that does not run, with all its queues."""
        if self._shared is None or name not in self._peers:
            raise not_in_the_cluster()
        if name == self.name:
            raise lives(name)
        try:
            async with asyncio.timeout(CLEARED_WITHIN_S):
                await self._shared.expel(name, self._patience_with(name))
                clustering = self._core.clustering
                while clustering is not None and clustering.shared.homes.count(name):
                    await asyncio.sleep(CLEARED_PAUSE_S)
        except (ConnectionError, StoreError, TimeoutError) as error:
            raise nobody_online(str(error) or "not all of it was agreed upon in time") from error

    def _patience_with(self, name: str) -> float:
        """How long a member may be said to live before it is believed: one that was killed is for a while."""
        from warren.node.cluster.shared_store import DEATH_TOLD_WITHIN_S

        reached = self._links is not None and self._links.connected(name) is not None
        return 0.0 if reached else DEATH_TOLD_WITHIN_S

    async def _found(self) -> None:
        """Be the first node of a cluster."""
        if self._links is None or self._links.own.kind == RAM:
            raise JoinRefused(f"{self.name} is a RAM node that is alone: a cluster begins with a disc node")
        cluster_id = self._core.cluster_id()
        self._shared = shared = self._new_store()
        try:
            await shared.found(cluster_id)
            http, amqp = self._addresses
            own = NodeDefinition(self.name, DISC, self._links.own.address, http, amqp, shared.address)
            passing = await self._desk.carry_out(BeginSharing())
            assert isinstance(passing, PassingDefinitions)
            self._disk.keep_asked_run(self._links.own.incarnation)
            run = RunDefinition(self.name, self._links.own.incarnation, 0, self._disk.identity())
            definitions = [*passing.definitions, own, run]
            moved = shared_snapshot(self._disk.recorded(), definitions, self.name, passing.revision)
            await shared.move_in(passing.revision, moved, self._founding)
            await shared.live(self._links.own.incarnation)
            revision, snapshot = await shared.snapshot()
            addresses = MemberAddresses(self._links.own.address, shared.address)
            facts = ClusterFacts(cluster_id, DISC, {self.name: addresses}, enlisted=True)
            self._file.write(facts)
        except BaseException:
            self._turns.add(SharingGivenUp())
            self._shared = None
            with suppress(OSError):
                self._file.remove()
            await shared.abandon()
            raise
        self._facts = facts
        with suppress(OSError):
            self._founding.remove()
        self._log.info("cluster.founded", cluster=cluster_id)
        self._turns.add(SharingReady(revision, snapshot))
        self._start_pump(revision)

    async def close(self) -> None:
        """After the core's last turn."""
        if self._pump is not None:
            await self._pump.close()
        if self._shared is not None:
            await self._shared.close()
        if self._links is not None:
            await self._links.close()
