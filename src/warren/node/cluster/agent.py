"""The cluster agent of a process: founding, joining, resuming, and removing members.

::

    cluster.json? ──no──► told to join? ──no──► alone ──a node asks to join──► founds a cluster, while it runs
         │ yes                 │ yes
         │                     └──► asks members in turn until one accepts it ──► cluster.json
         └──► resumes its etcd member ──► waits for a majority ──► a member, from its first turn on

When configured nodes start for the first time, all at once, they ask one another, and one of them has to come first:
the first in the configuration. It starts alone if no node has answered for a while; the others keep asking.

A member starts with the state of the store. Its own entry (addresses, liveness) is in the store before its broker is
made, so that the broker finds itself among the members.

Founding happens while clients work: the broker holds its metadata transactions back, its definitions move to the store,
`cluster.json` is written, and the broker goes on with the shared store. Until the file is written, all of it can be
undone. It is undone if anything fails or the process dies: at once, at the next start, or, in an external store, by the
next founding.

**Incarnations.** Each run of a member gets a number that no run of a node of its name ever had. The disk records the
number before the store counts it. So a disk that knows of the latest run is told apart from an old copy of it: starting
a node, however often, requests no number until a majority can answer. A disk that was found to be an old copy records
nothing until its run is counted; otherwise its own unanswered request would make it look like the latest.

**Discovery.** A node looks for its cluster by `--join`, then by the configured peer discovery. `classic_config` is a
list of nodes. `dns` is a host name, each address of which is a node, on the port this node listens on. Both usually
include this node, which is skipped: in a list by its name, among addresses because it listens there itself. Names may
be known only some time after a machine has started, so DNS is asked ten times within five seconds.

Not here: the file (`node.cluster.cluster_file`), the store (`node.cluster.metadata_store`), peer connections
(`node.peers`), the use of incarnations (`broker.replication.promotion`).
"""

import asyncio
import os
import socket
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from warren.admin.background import BackgroundTasks
from warren.admin.command_queue import CommandQueue
from warren.broker.broker import Broker
from warren.broker.cluster.addresses import PEER_PORT, PeerAddress
from warren.broker.cluster.hello import PeerIdentity
from warren.broker.cluster.join import TransientDefinitions, shared_snapshot
from warren.broker.commands.requests import JoinCluster
from warren.broker.journal.recovery import StartupState
from warren.broker.metadata.cluster_definitions import IncarnationDefinition, NodeDefinition
from warren.broker.metadata.topology_definitions import EXCHANGES, QUEUES
from warren.broker.model.effects import SaveMembers
from warren.broker.model.events import MetadataMigrated, MetadataMigrationFailed
from warren.broker.model.settings import DISC, RAM
from warren.errors import ConfigError, StoreError
from warren.node.cluster.cluster_file import (
    ClusterFacts,
    ClusterFile,
    ClusterJoinAnswer,
    ClusterJoinRequest,
    FoundingFile,
    JoinRefused,
    MemberAddresses,
)
from warren.node.cluster.refusals import (
    no_quorum_online,
    not_in_the_cluster,
    refuse_lone_witness,
    refuse_witness_with_queues,
    still_running,
)
from warren.node.config.cluster_settings import DNS, ClusterSettings
from warren.node.config.settings import NodeSettings
from warren.node.disk.disk import Disk
from warren.node.disk.file_names import ETCD
from warren.node.listeners import ListenAddress, with_bound_port
from warren.node.logs import Log
from warren.node.peers.connections import PeerConnections
from warren.node.peers.cookie import read_cookie
from warren.node.turn_loop import TurnLoop

if TYPE_CHECKING:
    from warren.node.cluster.metadata_store import ClusterMetadataStore, MetadataPump


_WITHOUT_PAST = "its data directory is not the one that a node of its name had, or an old state of it"
_GIVEN_AGAIN = "its replicas of mirrored queues are not trusted, and other nodes send it their messages again"


async def register_incarnation(shared: "ClusterMetadataStore", disk: Disk, found: StartupState, log: Log) -> None:
    """Register this run, in the store and on the disk. Raises `ConnectionError` if the outcome is unknown."""
    try:
        counted, seen_at = await shared.next_incarnation(
            found.incarnation, disk.identity(), disk.requested_incarnation()
        )
        if not counted.without_past():
            # a disk that knew of the latest run must know of this one, even if the answer never comes
            disk.record_requested_incarnation(counted.incarnation)
        await shared.register_incarnation(counted, seen_at)
    except ConnectionError:
        # it may have been counted: the next request is for another run
        found.incarnation = disk.begin_incarnation()
        raise
    # from here on the disk is like any other; a request alone does not change that
    disk.record_requested_incarnation(counted.incarnation)
    if counted.incarnation > found.incarnation:
        disk.raise_incarnation(counted.incarnation)
    if counted.without_past():
        log.warning("node.without_past", reason=_WITHOUT_PAST, incarnation=counted.incarnation, effect=_GIVEN_AGAIN)
    found.incarnation = counted.incarnation


DNS_TRIES = 10
DNS_PAUSE_S = 0.5


async def discover(settings: ClusterSettings, own_name: str) -> list[PeerAddress]:
    """Addresses to try, each once, in order; `ConfigError` if DNS gave no answer."""
    found = [*settings.join]
    if settings.discovery == DNS:
        listener = settings.peer_listener
        hosts = await resolve(settings.discovery_hostname)
        found += [PeerAddress(host, listener.port or PEER_PORT) for host in hosts if not _is_own(host, listener)]
    else:
        found += [node.address for node in settings.discovery_nodes if node.name != own_name]
    return list(dict.fromkeys(found))


async def is_first_configured(settings: ClusterSettings, own_name: str) -> bool:
    """Whether this node is the first in the configuration: the one that others can wait for."""
    if settings.discovery == DNS:
        return _is_own((await resolve(settings.discovery_hostname))[0], settings.peer_listener)
    return bool(settings.discovery_nodes) and settings.discovery_nodes[0].name == own_name


async def resolve(hostname: str) -> list[str]:
    """All addresses of a name, IPv4 first, in an order that is the same on every node."""
    loop = asyncio.get_running_loop()
    for tries_left in reversed(range(DNS_TRIES)):
        try:
            found = await loop.getaddrinfo(hostname, None, type=socket.SOCK_STREAM)
            break
        except OSError as error:
            if not tries_left:
                reason = f"the host {hostname} is unknown: {error.strerror}"
                raise ConfigError(f"cluster_formation.dns.hostname cannot be used: {reason}") from error
            await asyncio.sleep(DNS_PAUSE_S)
    families = {str(where[0]): family for family, _, _, _, where in found}
    return sorted(families, key=lambda host: (families[host] != socket.AF_INET, host))


def _is_own(host: str, listener: ListenAddress) -> bool:
    """Whether dialling that address would lead back here."""
    if listener.host:
        return listener.host == host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            # only an address of this machine can be bound
            probe.bind((host, 0))
        except OSError:
            return False
    return True


PAUSE_S = 1.0
LOG_EVERY_S = 10.0
FIRST_PATIENCE_S = 3.0
CLEARED_WITHIN_S = 30.0
CLEARED_PAUSE_S = 0.02
ORPHANED_QUEUES_PATIENCE_S = 10.0
_REMOVED = (
    "{name} was removed from its cluster while it was down; start it with an empty --data instead of {data}, or with "
    "--stopped and then use 'warren ctl reset' or 'warren ctl force_reset'"
)
_HALF_RENAMED = (
    "{name} was about to be called {new} when it was interrupted; start it with --stopped, and finish that with "
    "'warren ctl rename_cluster_node {name} {new}'"
)


class ClusterAgent:
    """Lives from before there is a broker until after its end."""

    def __init__(self, settings: NodeSettings, disk: Disk, log: Log, tasks: BackgroundTasks) -> None:
        self._settings = settings
        self._disk = disk
        self._log = log
        self._tasks = tasks
        self._file = ClusterFile(disk.path)
        self._founding = FoundingFile(disk.path)
        self._facts: ClusterFacts | None = None
        self._links: PeerConnections | None = None
        self._shared: ClusterMetadataStore | None = None
        self._pump: MetadataPump | None = None
        self._admitting = asyncio.Lock()
        self._peers: dict[str, str] = {}

    @property
    def name(self) -> str:
        return self._settings.broker.node_name

    @property
    def cookie(self) -> bytes:
        """The secret that operators prove while the node has no users; empty if it has none."""
        try:
            return read_cookie(self._settings.cluster)
        except ConfigError:
            return os.urandom(32)

    @property
    def peer_address(self) -> str:
        """Where other nodes reach this one; empty if they cannot."""
        return "" if self._links is None else self._links.own.address

    @property
    def links(self) -> PeerConnections | None:
        """The connections to other nodes; None if this node cannot be reached."""
        return self._links

    # -- before there is a broker

    async def begin(self, now_ms: int, http: str, amqp: str) -> StartupState:
        """The state the broker starts with."""
        incarnation = self._disk.begin_incarnation()
        self._facts = self._file.read()
        self._refuse_half_a_name()
        self._open_links(incarnation)
        if self._facts is None:
            await self._clear_up()
            await self._join_if_configured()
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
        """Undo an interrupted founding or join."""
        if self._links is not None and os.path.isdir(os.path.join(self._disk.path, ETCD)):
            await self._new_store().clear_up("")

    async def _join_if_configured(self) -> None:
        cluster = self._settings.cluster
        if cluster.join:
            await self._join(cluster.join, None)
        elif not self._disk.recorded():
            addresses = await discover(cluster, self.name)
            if addresses:
                first = not (cluster.ram or cluster.witness) and await is_first_configured(cluster, self.name)
                await self._join(addresses, FIRST_PATIENCE_S if first else None)

    def _open_links(self, incarnation: int) -> None:
        cluster = self._settings.cluster
        kind = RAM if cluster.ram else DISC
        cluster_id = ""
        if self._facts is not None:
            kind, cluster_id = self._facts.kind, self._facts.cluster_id
        own = PeerIdentity(self.name, incarnation, cluster_id, "", kind, int(cluster.silence_s * 1000))
        try:
            cookie = read_cookie(cluster)
            self._links = PeerConnections(
                cluster, own, cookie, self._log, lambda: self._peers, self._answer_join, self._tasks
            )
            self._links.turn_away()
            cluster.peer_listener = with_bound_port(cluster.peer_listener, self._links.sockets)
        except ConfigError as error:
            if cluster.peer_asked_for or self._facts is not None or cluster.join:
                raise
            self._log.warning("peers.refused", reason=str(error), effect="no other node can join this one")

    async def _join(self, addresses: list[PeerAddress], patience_s: float | None) -> None:
        """Join the cluster of the first node that answers; stay alone if none does within that time."""
        if any(key.startswith((f"{QUEUES}/", f"{EXCHANGES}/")) for key in self._disk.recorded()):
            raise ConfigError(
                f"--data {self._settings.data_dir} has exchanges and queues of a node that was alone, which it would "
                "lose by joining; start with an empty directory, or without --join"
            )
        assert self._links is not None
        # a node alone does not load these libraries
        from warren.node.cluster.join import JoinAttempt, NoMemberAnswered

        joining = JoinAttempt(self._settings, self._disk.path, self._links, self._log, self._tasks)
        try:
            _name, answer = await joining.ask(addresses, patience_s=patience_s)
        except NoMemberAnswered as error:
            self._log.info("cluster.awaited", reason=str(error), effect="alone until other nodes join")
            return
        self._disk.forget_messages()
        self._facts, self._shared = await joining.enter(answer)
        self._links.own.cluster_id = answer.cluster_id

    async def _take_part(self, facts: ClusterFacts, found: StartupState, http: str, amqp: str) -> None:
        assert self._links is not None
        if self._shared is None:
            self._shared = await self._resumed(facts)
        shared = self._shared
        peer, witness = self._links.own.address, self._settings.cluster.witness
        self._definition = NodeDefinition(self.name, facts.kind, peer, http, amqp, shared.address, witness)
        await self._retry_until_majority(shared.begun)
        if witness:
            refuse_witness_with_queues(self.name, facts, (await self._retry_until_majority(shared.snapshot))[1])
        if not await self._retry_until_majority(lambda: shared.enlist(self._definition, facts.enlisted)):
            raise StoreError(_REMOVED.format(name=self.name, data=self._settings.data_dir))
        if not facts.enlisted:
            self._facts = replace(facts, enlisted=True)
            self._file.write(self._facts)
        await self._retry_until_majority(lambda: register_incarnation(shared, self._disk, found, self._log))
        self._links.own.incarnation = found.incarnation
        await self._retry_until_majority(lambda: shared.live(found.incarnation))
        revision, snapshot = await self._retry_until_majority(shared.snapshot)
        found.share(revision, snapshot)

    async def _resumed(self, facts: ClusterFacts) -> "ClusterMetadataStore":
        shared = self._new_store()
        if shared.has_lost_its_part(facts):
            self._log.warning("store.lost", effect="asking the other nodes for its contents")
            await self._retry_until_majority(lambda: shared.regain(facts))
        else:
            await shared.resume(facts)
        return shared

    async def _retry_until_majority(self, ask: Any) -> Any:
        """Ask until there is a majority to answer."""
        loop = asyncio.get_running_loop()
        logged_at = 0.0
        while True:
            try:
                return await ask()
            except ConnectionError as error:
                if self._shared is not None and self._shared.trouble:
                    removed = _REMOVED.format(name=self.name, data=self._settings.data_dir)
                    raise StoreError(f"{self._shared.trouble}: {removed}") from error
                if loop.time() - logged_at >= LOG_EVERY_S:
                    logged_at = loop.time()
                    self._log.warning("store.awaited", reason=str(error), effect="waiting for a majority of disc nodes")
                await asyncio.sleep(PAUSE_S)

    def _new_store(self) -> "ClusterMetadataStore":
        # a node alone does not load these libraries
        from warren.node.cluster.join import new_metadata_store

        assert self._links is not None
        return new_metadata_store(self._settings, self._links.own.address, self._disk.path, self._log, self._tasks)

    # -- with a broker

    def attach(self, core: Broker, turns: TurnLoop, command_queue: CommandQueue, http: str, amqp: str) -> None:
        """Connect the broker with the peer connections and the store."""
        self._core, self._turns, self._command_queue = core, turns, command_queue
        self._addresses = (http, amqp)
        turns.attach({SaveMembers: self._keep_members})
        if self._facts is not None:
            assert core.cluster is not None
            self._start_pump(core.cluster.shared.applied)
        if self._links is not None:
            if not self._links.own.cluster_id:
                self._links.own.cluster_id = core.cluster_id()
            turns.attach(self._links.orders())
            self._links.start(turns)

    async def cleared(self) -> None:
        """Wait until the objects that earlier runs left behind are deleted, at most for a while: a client that used one
        would lose it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ORPHANED_QUEUES_PATIENCE_S):
                while self._core.cluster is not None and not self._core.cluster.orphaned_queues.clear:
                    await asyncio.sleep(CLEARED_PAUSE_S)

    def _start_pump(self, after: int) -> None:
        assert self._shared is not None
        assert self._shared.store is not None
        from warren.node.cluster.metadata_store import MetadataPump

        self._pump = MetadataPump(self._shared.store, self._turns, self._log, self._store_failed, self._tasks)
        self._turns.attach(self._pump.orders())
        self._pump.start(after)

    def _store_failed(self, error: StoreError) -> None:
        self._log.critical("store.failed", reason=str(error))
        self._turns.halt()

    def _keep_members(self, effect: SaveMembers) -> None:
        """The cluster has these members from now on."""
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

    # -- nodes that ask to join

    async def _answer_join(self, facts: PeerIdentity, data: bytes) -> bytes:
        try:
            request = ClusterJoinRequest.decode(data)
            if request.name != facts.name:
                raise JoinRefused(f"it is not {request.name} that asks")
            self._refuse_taken_name(request)
            async with self._admitting:
                if self._facts is None:
                    await self._found()
            assert self._facts is not None
            return ClusterJoinAnswer(self._facts.cluster_id, self._facts.members).encode()
        except (JoinRefused, StoreError, ConfigError, ConnectionError) as refusal:
            self._log.warning("join.refused", node=facts.name, reason=str(refusal))
            return ClusterJoinAnswer(refused=str(refusal)).encode()

    def _refuse_taken_name(self, request: ClusterJoinRequest) -> None:
        """A node that lost its data has a known name too, but it is not alive, or was alive at that address."""
        lives = self._core.cluster is not None and self._core.cluster.membership.members.incarnation(request.name)
        if lives and self._peers.get(request.name) != request.peer:
            raise JoinRefused(f"a node called {request.name} lives at {self._peers.get(request.name)}")

    async def forget(self, name: str) -> None:
        """Remove a stopped member with all its queues."""
        if self._shared is None or name not in self._peers:
            raise not_in_the_cluster()
        if name == self.name:
            raise still_running(name)
        try:
            async with asyncio.timeout(CLEARED_WITHIN_S):
                await self._shared.expel(name, self._patience_with(name))
                cluster = self._core.cluster
                while cluster is not None and cluster.shared.homes.count(name):
                    await asyncio.sleep(CLEARED_PAUSE_S)
        except (ConnectionError, StoreError, TimeoutError) as error:
            raise no_quorum_online(str(error) or "not all of it was agreed upon in time") from error

    def _patience_with(self, name: str) -> float:
        """How long to wait for a liveness key to expire: a killed member keeps it for a while."""
        from warren.node.cluster.metadata_store import DEATH_NOTICE_S

        reached = self._links is not None and self._links.connected(name) is not None
        return 0.0 if reached else DEATH_NOTICE_S

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
            passing = await self._command_queue.carry_out(JoinCluster())
            assert isinstance(passing, TransientDefinitions)
            self._disk.record_requested_incarnation(self._links.own.incarnation)
            incarnation = IncarnationDefinition(self.name, self._links.own.incarnation, 0, self._disk.identity())
            definitions = [*passing.definitions, own, incarnation]
            moved = shared_snapshot(self._disk.recorded(), definitions, self.name, passing.revision)
            await shared.move_in(passing.revision, moved, self._founding)
            await shared.live(self._links.own.incarnation)
            revision, snapshot = await shared.snapshot()
            addresses = MemberAddresses(self._links.own.address, shared.address)
            facts = ClusterFacts(cluster_id, DISC, {self.name: addresses}, enlisted=True)
            self._file.write(facts)
        except BaseException:
            self._turns.add(MetadataMigrationFailed())
            self._shared = None
            with suppress(OSError):
                self._file.remove()
            await shared.abandon()
            raise
        self._facts = facts
        with suppress(OSError):
            self._founding.remove()
        self._log.info("cluster.founded", cluster=cluster_id)
        self._turns.add(MetadataMigrated(revision, snapshot))
        self._start_pump(revision)

    async def close(self) -> None:
        """After the broker's last turn."""
        if self._pump is not None:
            await self._pump.close()
        if self._shared is not None:
            await self._shared.close()
        if self._links is not None:
            await self._links.close()
