"""This node's access to the metadata store of its cluster, and the pump between the store and the broker.

::

    disc node                                   ram node, or an external store
    found / join / resume its etcd member       ─┐
    ask its own member first, then the others   ─┴─► ask any that answers

`MetadataPump` carries transactions to the store, and outcomes and changes to the broker:

::

    ProposeTransaction ──► commit ──► TransactionDecided
    watch ──► changes and replacements                           in the order of their revisions
    every second: which is the newest revision? ── all told ──► the broker is up to date

An answer of the store is as old as its question. So the broker learns when the question was asked, and only after every
change before that.

A store may decline this node, for example because its password was changed. The operator has to repair that, and the
node need not stop: it is logged and tried again every second. Meanwhile transactions fail with the store's own words,
and the broker, which hears nothing, knows that it may be behind. A store whose revisions went back is unusable:
`failed` is called, and the node stops.

Not here: etcd (`node.etcd`), the broker's side (`broker.metadata.shared_backend`).
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from warren.admin.background import BackgroundTask, BackgroundTasks
from warren.broker.cluster.addresses import parse_address
from warren.broker.membership import all_queues, next_incarnation
from warren.broker.metadata.cluster_definitions import (
    IncarnationDefinition,
    LivenessDefinition,
    NodeDefinition,
    liveness_key,
    node_key,
)
from warren.broker.metadata.store import COMMITTED, OUTDATED, Snapshot
from warren.broker.metadata.topology_definitions import QueueDefinition
from warren.broker.model.effects import Effect, ProposeTransaction
from warren.broker.model.events import (
    DefinitionsChanged,
    DefinitionsCurrent,
    DefinitionsReplaced,
    MetadataSnapshot,
    TransactionDecided,
)
from warren.broker.model.settings import DISC
from warren.errors import StoreError
from warren.node.cluster.cluster_file import ClusterFacts, FoundingFile
from warren.node.cluster.refusals import still_running
from warren.node.config.cluster_settings import EtcdSettings
from warren.node.etcd import member as quorum
from warren.node.etcd import store
from warren.node.etcd.connection import EtcdAddress, EtcdConnection, EtcdDeclined
from warren.node.etcd.keys import LeasedKey
from warren.node.etcd.member import EtcdMember
from warren.node.etcd.program import EtcdMemberSettings, issue_certificates
from warren.node.etcd.store import EtcdStore
from warren.node.etcd.watch import MetadataReplaced
from warren.node.logs import Log
from warren.node.parameter_cipher import ParameterCipher
from warren.node.tls import TlsFiles
from warren.node.turn_loop import TurnLoop

IDENTITY_SUFFIX = "-identity"
STORE_PAUSE_S = 0.2
ASK_PATIENCE_S = 3.0
"""Interval of log lines while waiting for a majority."""
MEMBER_LEASE_S = 5
"""How long a silent node counts as alive."""
DEATH_NOTICE_S = 3.0 * MEMBER_LEASE_S
"""Longer than a killed node counts as alive: its lease starts anew when etcd gets another leader, and the store takes a
moment to expire it."""


class ClusterMetadataStore:
    """The access of one node. `found`, `join` or `resume` comes first, then `open`."""

    def __init__(
        self,
        settings: EtcdSettings,
        peer_address: str,
        directory: str,
        name: str,
        cookie: bytes,
        log: Log,
        tasks: BackgroundTasks,
    ) -> None:
        """`peer_address` is where other nodes reach this one, and its etcd member unless configured otherwise.

        Clients of the store must have the cookie, unless other certificates are configured.
        """
        self._settings = settings
        self._cookie = cookie
        self._peer_address = parse_address(peer_address)
        self._directory = directory
        self._name = name
        self._log = log
        self._tasks = tasks
        self._member: EtcdMember | None = None
        self._connection: EtcdConnection | None = None
        self._life: LeasedKey | None = None
        self._living_run = 0
        self.store: EtcdStore | None = None

    @property
    def address(self) -> str:
        """Where other nodes reach this node's etcd member; empty if it has none."""
        return "" if self._member is None else self._member.endpoint

    async def found(self, cluster_id: str) -> None:
        """Be the first member of an empty store."""
        if not self._settings.endpoints:
            self._member = self._new_member(cluster_id)
            await self._member.abandon()
            await self._member.found()
        self._connect(cluster_id, [])

    async def join(self, cluster_id: str, others: list[str]) -> None:
        """Become a member of an existing store."""
        if not self._settings.endpoints:
            self._member = self._new_member(cluster_id)
            await self._member.abandon()
            await self._member.join(others)
        self._connect(cluster_id, others)

    async def resume(self, facts: ClusterFacts) -> None:
        """Continue in the node's role in the cluster."""
        if facts.kind == DISC and not self._settings.endpoints:
            self._member = self._new_member(facts.cluster_id)
            await self._member.resume()
        else:
            await self.clear_up(facts.cluster_id)
        self.use(facts)

    async def regain(self, facts: ClusterFacts) -> None:
        """Replace an etcd member whose data is lost, unless the other nodes have removed this node.

        Raises `ConnectionError` while they do not answer.
        """
        others = [member.store for name, member in facts.members.items() if name != self._name and member.store]
        if not others:
            raise StoreError(
                f"{self._directory} holds no data of an etcd member, and no other node has the definitions of this "
                "cluster; take the directory from a backup, or reset the node"
            )
        self._connect(facts.cluster_id, others)
        await self.begun()
        _revision, known = await self.snapshot()
        if node_key(self._name) in known or not facts.enlisted:
            await self.join(facts.cluster_id, others)

    def has_lost_its_part(self, facts: ClusterFacts) -> bool:
        """Whether the data of this node's etcd member is missing."""
        has_part = facts.kind == DISC and not self._settings.endpoints
        return has_part and not self._new_member(facts.cluster_id).has_data

    async def resume_if_there(self, facts: ClusterFacts) -> None:
        """The same, also for a node that has given up its etcd member and only has to record that."""
        if self.has_lost_its_part(facts):
            self.use(facts)
        else:
            await self.resume(facts)

    async def end_member(self) -> None:
        """End this node's etcd member until it is resumed."""
        if self._member is not None:
            await self._member.stop()

    async def resume_alone(self, facts: ClusterFacts) -> None:
        """Continue as the only member of the store: the others are gone for good."""
        self._member = self._new_member(facts.cluster_id)
        await self._member.resume_alone()
        self._connect(facts.cluster_id, [])

    async def clear_up(self, cluster_id: str) -> None:
        """Undo an unfinished attempt to get an etcd member, or to give it up."""
        if os.path.isdir(self._directory):
            await self._new_member(cluster_id).abandon()

    async def part(self, others: ClusterFacts) -> None:
        """Give up the etcd member: the others remove it, and this node uses theirs."""
        member, self._member = self._member, None
        self.use(others)
        if not self._settings.endpoints:
            assert self._connection is not None
            await quorum.remove_member(self._connection, self._name)
        if member is not None:
            await member.discard()

    async def discard(self) -> None:
        """End this node's etcd member and delete its data, without asking the others."""
        if os.path.isdir(self._directory):
            await self._new_member("").discard()

    def use(self, facts: ClusterFacts) -> None:
        """Use the etcd members of these nodes."""
        self._connect(facts.cluster_id, facts.store_addresses())

    async def begun(self) -> None:
        """Raises `ConnectionError` while it is unknown whether the store holds a cluster."""
        assert self.store is not None
        if not await self.store.begun(ASK_PATIENCE_S):
            raise ConnectionError("the store does not have this cluster yet")

    async def move_in(self, revision: int, snapshot: Snapshot, founding: FoundingFile) -> None:
        """Begin the cluster; the remains of this node's earlier attempt are deleted first."""
        assert self.store is not None
        unfinished = founding.read()
        if unfinished:
            await self.store.take_back(unfinished)
        proof = store.new_migration_id()
        founding.write(proof)
        await self.store.move_in(revision, snapshot, proof)

    async def snapshot(self) -> tuple[int, MetadataSnapshot]:
        """The whole state; raises `ConnectionError` while there is no majority."""
        assert self.store is not None
        return await self.store.snapshot()

    async def enlist(self, definition: NodeDefinition, again: bool = False) -> bool:
        """Add this node to the members, with the addresses of this run.

        False if it is listed `again` but the others have removed it meanwhile. A new node waits until the objects of an
        earlier node of its name are deleted.
        """
        value = definition.value()
        while True:
            _revision, known = await self.snapshot()
            found = known.get(definition.key())
            if found is None and again:
                return False
            if found is not None and found[2] == value:
                return True
            if found is None and queues_of(definition.name, known):
                await asyncio.sleep(STORE_PAUSE_S)
            elif await self.change([(definition.key(), 0 if found is None else found[1])], [(definition.key(), value)]):
                return True

    async def delist(self, name: str) -> None:
        """Remove a node from the members. Raises `MembershipRefused` if it is alive."""
        while True:
            _revision, known = await self.snapshot()
            found = known.get(node_key(name))
            if found is None:
                return
            if liveness_key(name) in known:
                raise still_running(name)
            if await self.change([(node_key(name), found[1]), (liveness_key(name), 0)], [(node_key(name), None)]):
                return

    async def expel(self, name: str, patience_s: float) -> None:
        """Remove a node, and its etcd member, that is not alive or expires within that time."""
        loop = asyncio.get_running_loop()
        end = loop.time() + patience_s
        while liveness_key(name) in (await self.snapshot())[1]:
            if loop.time() >= end:
                raise still_running(name)
            await asyncio.sleep(STORE_PAUSE_S)
        if self._connection is not None and not self._settings.endpoints:
            await quorum.remove_member(self._connection, name)
        await self.delist(name)

    async def change(self, compares: list[tuple[str, int]], changes: list[tuple[str, bytes | None]]) -> bool:
        """Whether the change was committed; False if a key had changed. Raises `ConnectionError` if the outcome is
        unknown."""
        assert self.store is not None
        decision = await self.store.commit(compares, changes)
        if decision.outcome not in (COMMITTED, OUTDATED):
            raise ConnectionError(decision.reason)
        return decision.outcome == COMMITTED

    async def next_incarnation(self, incarnation: int, data: int, asked: int) -> tuple[IncarnationDefinition, int]:
        """The incarnation to register for this run, and the revision at which the previous one was read."""
        _revision, known = await self.snapshot()
        return next_incarnation(self._name, incarnation, data, asked, known)

    async def register_incarnation(self, wanted: IncarnationDefinition, seen_at: int) -> None:
        """Raises `ConnectionError` if it is unknown whether the incarnation was registered."""
        if not await self.change([(wanted.key(), seen_at)], [(wanted.key(), wanted.value())]):
            raise ConnectionError(f"another incarnation of {self._name} was registered at the same time")

    async def live(self, incarnation: int) -> None:
        """Count as alive from here on.

        Raises `ConnectionError` if the store does not confirm in time. The attempt goes on until `rest`, so a second
        call waits for the same.
        """
        assert self.store is not None
        if self._life is None or self._living_run != incarnation:
            await self.rest()
            definition = LivenessDefinition(self._name, incarnation)
            self._life = self.store.hold(definition.key(), definition.value(), MEMBER_LEASE_S, self._tasks)
            self._living_run = incarnation
        await self._life.held()

    async def rest(self) -> None:
        """Count as alive no longer."""
        if self._life is not None:
            life, self._life = self._life, None
            await life.release()

    async def close(self) -> None:
        """End this run's liveness; the etcd member keeps running."""
        await self.rest()
        if self._member is not None:
            await self._member.close()
        if self._connection is not None:
            await self._connection.close()

    async def abandon(self) -> None:
        """Undo an attempt: end the etcd member and delete its data."""
        await self.rest()
        if self._connection is not None:
            await self._connection.close()
        if self._member is not None:
            await self._member.abandon()

    @property
    def trouble(self) -> str:
        """Why this node's etcd member cannot continue; empty if it can."""
        return "" if self._member is None else self._member.trouble

    def _connect(self, cluster_id: str, others: list[str]) -> None:
        own = [self.address] if self._member is not None else []
        endpoints = self._settings.endpoints or [*own, *[other for other in others if other not in own]]
        if self._connection is not None:
            self._connection.use(endpoints)
            return
        settings = self._settings
        address = EtcdAddress(tuple(endpoints), self._tls(), settings.user, settings.password)
        self._connection = EtcdConnection(address)
        cipher = ParameterCipher(self._cookie)
        # before there are clients that would wait for it
        cipher.prepare()
        self.store = EtcdStore(self._connection, cluster_id, self._name, cipher)

    def _tls(self) -> TlsFiles | None:
        settings = self._settings
        if settings.tls is not None or settings.endpoints:
            return settings.tls
        host, _client_port, _peer_port = settings.listens(self._peer_address)
        return issue_certificates(self._directory + IDENTITY_SUFFIX, self._cookie, host)

    def _new_member(self, cluster_id: str) -> EtcdMember:
        settings = self._settings
        host, client_port, peer_port = settings.listens(self._peer_address)
        return EtcdMember(
            EtcdMemberSettings(
                self._directory,
                self._name,
                cluster_id,
                host,
                client_port,
                peer_port,
                settings.binary,
                self._tls(),
            ),
            self._log,
            self._tasks,
        )


def queues_of(name: str, known: MetadataSnapshot) -> list[QueueDefinition]:
    """The queues that live on a node."""
    return [queue for queue in all_queues(known) if queue.node == name]


PUMP_ASK_EVERY_S = 1.0
PUMP_PAUSE_S = 0.1
PUMP_REPORT_WITHIN_S = 2.0


class MetadataPump:
    """Runs from `start` to `close`; `orders` may be given before."""

    def __init__(
        self,
        store: EtcdStore,
        turns: TurnLoop,
        log: Log,
        failed: Callable[[StoreError], None],
        tasks: BackgroundTasks,
    ) -> None:
        self._store = store
        self._turns = turns
        self._log = log
        self._failed = failed
        self._tasks = tasks
        self._loops: list[BackgroundTask] = []
        self._commits: set[asyncio.Task[None]] = set()
        self._reported = 0
        self._reported_more = asyncio.Event()
        self._watching = False
        # why the store declined the last call, if it did
        self._declined = ""

    def orders(self) -> Mapping[type[Effect], Callable[[Any], None]]:
        return {ProposeTransaction: self._propose}

    def start(self, after: int) -> None:
        """Report everything newer than this revision."""
        self._reported = after
        self._loops = [
            self._tasks.start("metadata watch", partial(self._until_store_fails, self._watch)),
            self._tasks.start("metadata age", partial(self._until_store_fails, self._ask)),
        ]

    async def close(self) -> None:
        tasks = [*self._commits, *(loop.task for loop in self._loops)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _until_store_fails(self, loop: Callable[[], Awaitable[None]]) -> None:
        try:
            await loop()
        except StoreError as error:
            self._failed(error)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._commits.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, StoreError):
            self._failed(error)
        elif error is not None:
            raise error

    def _propose(self, effect: ProposeTransaction) -> None:
        task = self._turns.loop.create_task(self._commit(effect))
        self._commits.add(task)
        task.add_done_callback(self._ended)

    async def _commit(self, proposed: ProposeTransaction) -> None:
        decision = await self._store.commit(
            proposed.compares, proposed.changes, proposed.touched, proposed.unchanged_under
        )
        self._turns.add(TransactionDecided(proposed.ticket, decision.outcome, decision.revision, decision.reason))

    async def _watch(self) -> None:
        while True:
            self._watching = True
            try:
                async for change in self._store.watch(self._reported):
                    if isinstance(change, MetadataReplaced):
                        self._turns.add(DefinitionsReplaced(change.revision, change.snapshot))
                    else:
                        self._turns.add(DefinitionsChanged(change.revision, change.changes))
                    self._reported = change.revision
                    self._reported_more.set()
            except EtcdDeclined as declined:
                self._watching = False
                self._was_declined(declined)
            await asyncio.sleep(PUMP_ASK_EVERY_S)

    async def _ask(self) -> None:
        loop = self._turns.loop
        while True:
            next_at = loop.time() + PUMP_ASK_EVERY_S
            try:
                await self._ask_once()
            except (TimeoutError, ConnectionError):
                # the broker notices the silence
                pass
            except EtcdDeclined as declined:
                self._was_declined(declined)
            await asyncio.sleep(max(next_at - loop.time(), PUMP_PAUSE_S))

    async def _ask_once(self) -> None:
        asked_ms = self._turns.now_ms()
        async with asyncio.timeout(PUMP_REPORT_WITHIN_S):
            newest = await self._store.current()
            while self._reported < newest:
                self._reported_more.clear()
                await self._reported_more.wait()
        self._turns.add(DefinitionsCurrent(newest, asked_ms))
        if self._declined and self._watching:
            self._declined = ""
            self._log.warning("store.accepted")

    def _was_declined(self, declined: EtcdDeclined) -> None:
        if str(declined) != self._declined:
            self._declined = str(declined)
            self._log.error(
                "store.declined",
                reason=self._declined,
                effect="definitions cannot be changed here, and this node does not confirm unroutable messages",
            )
