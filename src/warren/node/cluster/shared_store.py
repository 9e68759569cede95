"""This node's access to the store of its cluster: its own part of it, if it has one, and the way to the others.

::

    disc node                                   ram node, or a store that somebody else runs
    found / join / resume its etcd member       ─┐
    ask its own member first, then the others   ─┴─► ask whichever answers

Not here: etcd (`node.etcd`), what passes between core and store (`node.cluster.store_pump`).
"""

import asyncio
import os

from warren.broker.sharing.runs import all_queues, next_run
from warren.cluster.addresses import parse_address
from warren.errors import StoreError
from warren.model.events import SharedSnapshot
from warren.model.settings import DISC
from warren.node.cluster.cluster_file import ClusterFacts, FoundingFile
from warren.node.cluster.refusal import lives
from warren.node.config.etcd_settings import EtcdSettings
from warren.node.etcd import moving, quorum
from warren.node.etcd.connection import EtcdAddress, EtcdConnection
from warren.node.etcd.holding import Holding
from warren.node.etcd.identity import cluster_files
from warren.node.etcd.member import EtcdMember
from warren.node.etcd.program import MemberSettings
from warren.node.etcd.store import EtcdStore
from warren.node.logs import Log
from warren.node.tls import TlsFiles
from warren.store.cluster_definitions import (
    AliveDefinition,
    NodeDefinition,
    RunDefinition,
    alive_key,
    node_key,
)
from warren.store.metadata import AGREED, OUTDATED, Snapshot
from warren.store.topology_definitions import QueueDefinition

IDENTITY_SUFFIX = "-identity"
PAUSE_S = 0.2
ASK_PATIENCE_S = 3.0
"""Whoever waits for a majority says so, and asks again."""
LIFE_S = 5
"""How long others take a silent node to be alive."""
DEATH_TOLD_WITHIN_S = 3.0 * LIFE_S
"""Longer than a node that was killed is said to live: its lease is whole again when etcd gets another leader, and the
store takes a moment to see that it has ended."""


class SharedStore:
    """One node's. `found`, `join` or `resume` comes first, then `open`."""

    def __init__(
        self, settings: EtcdSettings, peer_address: str, directory: str, name: str, cookie: bytes, log: Log
    ) -> None:
        """`peer_address` is where other nodes reach this one: so is its part of the store, unless it is set.

        Whoever has the cookie may speak to the store, and nobody else, unless other certificates are set.
        """
        self._settings = settings
        self._cookie = cookie
        self._peer_address = parse_address(peer_address)
        self._directory = directory
        self._name = name
        self._log = log
        self._member: EtcdMember | None = None
        self._connection: EtcdConnection | None = None
        self._life: Holding | None = None
        self._living_run = 0
        self.store: EtcdStore | None = None

    @property
    def address(self) -> str:
        """Where other nodes reach this one's part; empty if it has none."""
        return "" if self._member is None else self._member.endpoint

    async def found(self, cluster_id: str) -> None:
        """Be the first part of a store that is empty."""
        if not self._settings.endpoints:
            self._member = self._new_member(cluster_id)
            await self._member.abandon()
            await self._member.found()
        self._connect(cluster_id, [])

    async def join(self, cluster_id: str, others: list[str]) -> None:
        """Become a part of the store whose parts are there."""
        if not self._settings.endpoints:
            self._member = self._new_member(cluster_id)
            await self._member.abandon()
            await self._member.join(others)
        self._connect(cluster_id, others)

    async def resume(self, facts: ClusterFacts) -> None:
        """Go on as what this node is in its cluster."""
        if facts.kind == DISC and not self._settings.endpoints:
            self._member = self._new_member(facts.cluster_id)
            await self._member.resume()
        else:
            await self.clear_up(facts.cluster_id)
        self.use(facts)

    async def regain(self, facts: ClusterFacts) -> None:
        """Be a new part of the store in place of one whose data is lost, unless the others have removed this node.

        A `ConnectionError` while they do not answer.
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
        """Whether the data of a part that this node has is not there."""
        has_part = facts.kind == DISC and not self._settings.endpoints
        return has_part and not self._new_member(facts.cluster_id).has_data

    async def resume_if_there(self, facts: ClusterFacts) -> None:
        """The same, also for a node that has given up its part already, and only has to be told so."""
        if self.has_lost_its_part(facts):
            self.use(facts)
        else:
            await self.resume(facts)

    async def end_member(self) -> None:
        """End this node's part until it is resumed."""
        if self._member is not None:
            await self._member.stop()

    async def resume_alone(self, facts: ClusterFacts) -> None:
        """Go on as the only part of the store: the others are gone for good."""
        self._member = self._new_member(facts.cluster_id)
        await self._member.resume_alone()
        self._connect(facts.cluster_id, [])

    async def clear_up(self, cluster_id: str) -> None:
        """A node that has no part of a store may have begun to have one, or not ended; undo that."""
        if os.path.isdir(self._directory):
            await self._new_member(cluster_id).abandon()

    async def part(self, others: ClusterFacts) -> None:
        """Have no part of the store any more: the others remove it, and this node goes on with theirs."""
        member, self._member = self._member, None
        self.use(others)
        if not self._settings.endpoints:
            assert self._connection is not None
            await quorum.remove(self._connection, self._name)
        if member is not None:
            await member.discard()

    async def discard(self) -> None:
        """End this node's part and delete its data, without asking anybody."""
        if os.path.isdir(self._directory):
            await self._new_member("").discard()

    def use(self, facts: ClusterFacts) -> None:
        """Ask the parts of the store that these members have."""
        self._connect(facts.cluster_id, facts.store_addresses())

    async def begun(self) -> None:
        """A `ConnectionError` while nobody can tell that this is the store of a cluster."""
        assert self.store is not None
        if not await self.store.begun(ASK_PATIENCE_S):
            raise ConnectionError("nobody has begun this cluster in the store")

    async def move_in(self, revision: int, snapshot: Snapshot, founding: FoundingFile) -> None:
        """Begin the cluster; what an earlier attempt of this node's left in the store is taken back first."""
        assert self.store is not None
        unfinished = founding.read()
        if unfinished:
            await self.store.take_back(unfinished)
        proof = moving.new_proof()
        founding.write(proof)
        await self.store.move_in(revision, snapshot, proof)

    async def snapshot(self) -> tuple[int, SharedSnapshot]:
        """Everything there is; a `ConnectionError` while there is no majority."""
        assert self.store is not None
        return await self.store.snapshot()

    async def enlist(self, definition: NodeDefinition, again: bool = False) -> bool:
        """Have this node among the members, with the addresses it has in this run.

        False if it is there `again`, and the others have removed it meanwhile. One that is new waits until whatever an
        earlier node of its name had is cleared away.
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
                await asyncio.sleep(PAUSE_S)
            elif await self.change([(definition.key(), 0 if found is None else found[1])], [(definition.key(), value)]):
                return True

    async def delist(self, name: str) -> None:
        """Have a node among the members no more. A `MembershipRefused` if it lives."""
        while True:
            _revision, known = await self.snapshot()
            found = known.get(node_key(name))
            if found is None:
                return
            if alive_key(name) in known:
                raise lives(name)
            if await self.change([(node_key(name), found[1]), (alive_key(name), 0)], [(node_key(name), None)]):
                return

    async def expel(self, name: str, patience_s: float) -> None:
        """A node that does not live, or is not said to any more within that time, is no member and has no part."""
        loop = asyncio.get_running_loop()
        end = loop.time() + patience_s
        while alive_key(name) in (await self.snapshot())[1]:
            if loop.time() >= end:
                raise lives(name)
            await asyncio.sleep(PAUSE_S)
        if self._connection is not None and not self._settings.endpoints:
            await quorum.remove(self._connection, name)
        await self.delist(name)

    async def change(self, compares: list[tuple[str, int]], changes: list[tuple[str, bytes | None]]) -> bool:
        """Whether it came about; False if a key had moved. A `ConnectionError` if nobody can tell."""
        assert self.store is not None
        decision = await self.store.commit(compares, changes)
        if decision.outcome not in (AGREED, OUTDATED):
            raise ConnectionError(decision.reason)
        return decision.outcome == AGREED

    async def next_run(self, run: int, data: int, asked: int) -> tuple[RunDefinition, int]:
        """What is to be counted as this run of its name, and the revision at which what is counted was seen."""
        _revision, known = await self.snapshot()
        return next_run(self._name, run, data, asked, known)

    async def count_run(self, wanted: RunDefinition, seen_at: int) -> None:
        """A `ConnectionError` if nobody can tell whether it was counted."""
        if not await self.change([(wanted.key(), seen_at)], [(wanted.key(), wanted.value())]):
            raise ConnectionError(f"another run of {self._name} was counted at the same time")

    async def live(self, incarnation: int) -> None:
        """Be known to be alive from here on.

        A `ConnectionError` if the store does not say so in time. It is tried on until this node rests, so whoever asks
        again waits for the same.
        """
        assert self.store is not None
        if self._life is None or self._living_run != incarnation:
            await self.rest()
            definition = AliveDefinition(self._name, incarnation)
            self._life = self.store.hold(definition.key(), definition.value(), LIFE_S)
            self._living_run = incarnation
        await self._life.held()

    async def rest(self) -> None:
        """Be known to be alive no longer."""
        if self._life is not None:
            life, self._life = self._life, None
            await life.release()

    async def close(self) -> None:
        """Say that this run is over; the member goes on."""
        await self.rest()
        if self._member is not None:
            await self._member.close()
        if self._connection is not None:
            await self._connection.close()

    async def abandon(self) -> None:
        """What was begun is not wanted: end the member and delete its data."""
        await self.rest()
        if self._connection is not None:
            await self._connection.close()
        if self._member is not None:
            await self._member.abandon()

    @property
    def trouble(self) -> str:
        """Why this node's part will not go on; empty if it will."""
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
        self.store = EtcdStore(self._connection, cluster_id, self._name)

    def _tls(self) -> TlsFiles | None:
        settings = self._settings
        if settings.tls is not None or settings.endpoints:
            return settings.tls
        host, _client_port, _peer_port = settings.listens(self._peer_address)
        return cluster_files(self._directory + IDENTITY_SUFFIX, self._cookie, host)

    def _new_member(self, cluster_id: str) -> EtcdMember:
        settings = self._settings
        host, client_port, peer_port = settings.listens(self._peer_address)
        return EtcdMember(
            MemberSettings(
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
        )


def queues_of(name: str, known: SharedSnapshot) -> list[QueueDefinition]:
    """The queues that live on a node."""
    return [queue for queue in all_queues(known) if queue.node == name]
