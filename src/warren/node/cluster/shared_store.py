"""This node's access to the store of its cluster: its own part of it, if it has one, and the way to the others.

::

    disc node                                   ram node, or a store that somebody else runs
    found / join / resume its etcd member       ─┐
    ask its own member first, then the others   ─┴─► ask whichever answers

Not here: etcd (`node.etcd`), what passes between core and store (`node.cluster.store_pump`).
"""

from warren.cluster.addresses import parse_address
from warren.node.cluster.cluster_file import DISC, ClusterFacts
from warren.node.config.etcd_settings import EtcdSettings
from warren.node.etcd.connection import EtcdAddress, EtcdConnection
from warren.node.etcd.holding import Holding
from warren.node.etcd.identity import cluster_files
from warren.node.etcd.member import EtcdMember
from warren.node.etcd.program import MemberSettings
from warren.node.etcd.store import EtcdStore
from warren.node.logs import Log
from warren.node.tls import TlsFiles
from warren.store.cluster_definitions import AliveDefinition, NodeDefinition, node_key
from warren.store.metadata import AGREED, OUTDATED, SharedSnapshot, Snapshot

IDENTITY_SUFFIX = "-identity"
LIFE_S = 5
"""How long others take a silent node to be alive."""


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
        self.use(facts)

    def use(self, facts: ClusterFacts) -> None:
        """Ask the parts of the store that these members have."""
        self._connect(facts.cluster_id, facts.store_addresses())

    async def begun(self) -> None:
        """A `ConnectionError` while nobody can tell that this is the store of a cluster."""
        assert self.store is not None
        if not await self.store.begun():
            raise ConnectionError("nobody has begun this cluster in the store")

    async def move_in(self, revision: int, snapshot: Snapshot) -> None:
        assert self.store is not None
        await self.store.move_in(revision, snapshot)

    async def snapshot(self) -> tuple[int, SharedSnapshot]:
        """Everything there is; a `ConnectionError` while there is no majority."""
        assert self.store is not None
        return await self.store.snapshot()

    async def enlist(self, definition: NodeDefinition) -> None:
        """Have this node among the members, with the addresses it has in this run."""
        assert self.store is not None
        value = definition.value()
        while True:
            _revision, known = await self.store.snapshot()
            found = known.get(node_key(definition.name))
            if found is not None and found[2] == value:
                return
            modified = 0 if found is None else found[1]
            decision = await self.store.commit([(definition.key(), modified)], [(definition.key(), value)], [], [])
            if decision.outcome == AGREED:
                return
            if decision.outcome != OUTDATED:
                raise ConnectionError(decision.reason)

    async def live(self, incarnation: int) -> None:
        """Be known to be alive from here on."""
        assert self.store is not None
        definition = AliveDefinition(self._name, incarnation)
        self._life = self.store.hold(definition.key(), definition.value(), LIFE_S)
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
        if self._connection is not None:
            await self._connection.close()
        if self._member is not None:
            await self._member.abandon()

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
