"""Orders about the membership of a node whose broker is stopped.

::

    alone ──join──► member ──reset──► alone, with nothing        force_reset: the same, without asking the others
                      │
                      ├── change_kind    gets an etcd member, or gives it up; keeps its queues
                      ├── forget         with `offline`: continues with the store alone, and removes the lost nodes
                      └── rename         its entry and its queues get another name

Each of them may be interrupted anywhere: the next start finishes it, or the same order given again. `cluster.json`
decides what this node is in the cluster's list.

**Renaming** changes the node's entry in the list, its incarnations, its queues and its places in replica sets. The new
entry comes first and the old one goes last, so a queue never belongs to a node that is no member. An interrupted rename
is repeated; objects with the new name are skipped.

Replica sets with a live master are left to the master: while both names are members, it would add the old one again. It
notices which node is gone and removes it from the in-sync set. A killed node counts as alive until its lease has
expired. So the rename waits for that while a replica set still has the old name in sync, which a live master changes
soon; afterwards no node could change that replica set.

Not here: running members (`node.cluster.agent`), the endpoint (`node.cluster.control_endpoint`).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from warren.admin.background import BackgroundTasks
from warren.broker.cluster.addresses import PeerAddress, parse_address, parse_node
from warren.broker.cluster.hello import PeerIdentity
from warren.broker.membership import all_queues
from warren.broker.metadata.cluster_definitions import (
    NODES,
    IncarnationDefinition,
    LivenessDefinition,
    NodeDefinition,
    incarnation_key,
    liveness_key,
    node_key,
)
from warren.broker.metadata.definition_kinds import decode_definition
from warren.broker.metadata.topology_definitions import QueueDefinition
from warren.broker.model.events import MetadataSnapshot
from warren.broker.model.replica_set import ReplicaSet
from warren.broker.model.settings import DISC, RAM
from warren.errors import ConfigError
from warren.node.cluster.cluster_file import ClusterFacts, ClusterFile
from warren.node.cluster.join import JoinAttempt, NoMemberAnswered, new_metadata_store
from warren.node.cluster.metadata_store import DEATH_NOTICE_S, ClusterMetadataStore
from warren.node.cluster.refusals import (
    MembershipRefused,
    no_quorum_online,
    not_in_the_cluster,
    only_disc_node,
    refuse_ram_witness,
)
from warren.node.config.settings import NodeSettings
from warren.node.disk.directory import DataDirectory
from warren.node.listeners import with_bound_port
from warren.node.logs import Log
from warren.node.peers.connections import PeerConnections
from warren.node.peers.cookie import read_cookie

RENAME_BATCH_MAX = 50
RENAME_PAUSE_S = 0.2


def refuse_taken_name(known: MetadataSnapshot, old: str, new: str, peer: str) -> None:
    """Raises `MembershipRefused` if another node has that name; a dead one at this address is this node."""
    entry, taken = _entry(old, known), _entry(new, known)
    if entry is None and taken is None:
        raise not_in_the_cluster()
    own = (peer, "" if entry is None else entry.peer)
    if taken is not None and (taken.peer not in own or liveness_key(new) in known):
        raise MembershipRefused("", f"another node of the cluster is called {new}")
    last, other = _incarnation(old, known), _incarnation(new, known)
    if last is not None and other is not None and last.data != other.data:
        # its incarnations would count as the other's
        raise MembershipRefused(
            "", f"another node of the cluster was called {new} once; choose a name that is new to it"
        )


async def rename_in_store(shared: ClusterMetadataStore, old: str, new: str, patience_s: float = DEATH_NOTICE_S) -> None:
    """Does nothing if it was done before."""
    _revision, known = await shared.snapshot()
    entry = _entry(old, known)
    if entry is not None:
        places = (entry.peer, entry.http, entry.amqp, entry.store)
        await _rename_incarnations(shared, old, new)
        await shared.enlist(NodeDefinition(new, entry.kind, *places, entry.witness))
        await _rename_queues(shared, old, new, patience_s)
        await shared.delist(old)


async def _rename_incarnations(shared: ClusterMetadataStore, old: str, new: str) -> None:
    """The incarnations of the old name stay: another node that gets the name must not use them again."""
    _revision, known = await shared.snapshot()
    last = _incarnation(old, known)
    if last is not None:
        key = incarnation_key(new)
        seen_at = known[key][1] if key in known else 0
        await shared.change(
            [(key, seen_at)], [(key, IncarnationDefinition(new, last.incarnation, last.born, last.data).value())]
        )


async def _rename_queues(shared: ClusterMetadataStore, old: str, new: str, patience_s: float) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + patience_s
    while True:
        _revision, known = await shared.snapshot()
        queues = _queues_with(old, known)[:RENAME_BATCH_MAX]
        if queues:
            await _rename_some(shared, queues, known, old, new)
        elif _is_counted_on(old, known) and loop.time() < end:
            await asyncio.sleep(RENAME_PAUSE_S)
        else:
            return


async def _rename_some(
    shared: ClusterMetadataStore, queues: list[QueueDefinition], known: MetadataSnapshot, old: str, new: str
) -> None:
    """Skipped if one of them has changed meanwhile."""
    for queue in queues:
        queue.node = new if queue.node == old else queue.node
        queue.replica_set = None if queue.replica_set is None else queue.replica_set.renaming(old, new)
    compares = [(queue.key(), known[queue.key()][1]) for queue in queues]
    await shared.change(compares, [(queue.key(), queue.value()) for queue in queues])


def _is_counted_on(name: str, known: MetadataSnapshot) -> bool:
    return any(
        queue.replica_set is not None and name in queue.replica_set.synced_names() for queue in all_queues(known)
    )


def _queues_with(name: str, known: MetadataSnapshot) -> list[QueueDefinition]:
    """The queues that live on a node or have a replica there, except those with a live master."""
    return [
        queue
        for queue in all_queues(known)
        if queue.node == name or _has_no_live_master(name, queue.replica_set, known)
    ]


def _has_no_live_master(name: str, replica_set: ReplicaSet | None, known: MetadataSnapshot) -> bool:
    """Whether the queue's master is gone, even if its name is alive in another incarnation."""
    if replica_set is None or name not in replica_set.members:
        return False
    key = liveness_key(replica_set.master)
    alive = decode_definition(key, known[key][2]) if key in known else None
    return not isinstance(alive, LivenessDefinition) or alive.incarnation != replica_set.master_incarnation[1]


def _incarnation(name: str, known: MetadataSnapshot) -> IncarnationDefinition | None:
    found = known.get(incarnation_key(name))
    definition = None if found is None else decode_definition(incarnation_key(name), found[2])
    return definition if isinstance(definition, IncarnationDefinition) else None


def _entry(name: str, known: MetadataSnapshot) -> NodeDefinition | None:
    found = known.get(node_key(name))
    definition = None if found is None else decode_definition(node_key(name), found[2])
    return definition if isinstance(definition, NodeDefinition) else None


STORE_PATIENCE_S = 20.0
JOIN_PATIENCE_S = 5.0
DIAL_PATIENCE_S = 2.0
PAUSE_S = 0.2


class StoppedMember:
    """One node between two runs; `directory` is locked, and nothing in it is open."""

    def __init__(self, settings: NodeSettings, directory: DataDirectory, log: Log, tasks: BackgroundTasks) -> None:
        self._settings = settings
        self._directory = directory
        self._file = ClusterFile(directory.path)
        self._log = log
        self._tasks = tasks

    @property
    def _name(self) -> str:
        return self._settings.broker.node_name

    # -- joining

    async def join(self, node: str, kind: str) -> None:
        """Become a member of that node's cluster, without this node's own data."""
        meant, address = _node_at(node)
        if meant == self._name:
            raise MembershipRefused("", f"Error: cannot cluster node with itself: {meant}")
        self._refuse_ram_witness(kind)
        facts = self._file.read()
        if facts is not None and (meant in facts.members or str(address) in _peers(facts)):
            raise MembershipRefused("already_member", "The node is already a member of this cluster")
        if facts is not None:
            if not await _answers(str(address)):
                raise MembershipRefused("nodedown", f"{node} does not answer at {address}")
            await self._leave(facts)
        async with self._links(kind) as links:
            joining = JoinAttempt(self._settings, self._directory.path, links, self._log, self._tasks)
            try:
                _name, answer = await joining.ask([address], meant, JOIN_PATIENCE_S)
            except NoMemberAnswered as error:
                raise MembershipRefused("nodedown", str(error)) from error
            await self._discard(links)
            facts, shared = await joining.enter(answer)
            try:
                await self._enlist(shared, facts, links.own.address)
            finally:
                await shared.close()

    async def _enlist(self, shared: ClusterMetadataStore, facts: ClusterFacts, peer: str) -> None:
        """List this node's kind; its addresses follow when it starts."""
        witness = self._settings.cluster.witness
        definition = NodeDefinition(self._name, facts.kind, peer, store=shared.address, witness=witness)
        async with asyncio.timeout(STORE_PATIENCE_S):
            await _until_begun(shared)
            await shared.enlist(definition)
        self._file.write(replace(facts, enlisted=True))

    # -- leaving

    async def reset(self) -> None:
        """Leave the cluster, and delete everything."""
        facts = self._file.read()
        if facts is not None:
            await self._leave(facts)
        async with self._links(DISC) as links:
            await self._discard(links)
        self._log.info("node.reset", forced=False)

    async def force_reset(self) -> None:
        """Delete everything, without asking the other nodes."""
        async with self._links(DISC) as links:
            await self._discard(links)
        self._log.info("node.reset", forced=True)

    async def _leave(self, facts: ClusterFacts) -> None:
        async with self._links(facts.kind) as links, self._store(facts, links) as shared:
            known = await self._known(shared)
            own = [name for name in (self._name, facts.renaming) if name]
            others = {name: node for name, node in _nodes(known).items() if name not in own}
            if others and facts.kind == DISC and not any(node.kind == DISC for node in others.values()):
                raise only_disc_node()
            if others:
                for name in own:
                    await shared.delist(name)
                await shared.part(_without(facts, self._name))

    async def _discard(self, links: PeerConnections) -> None:
        """Its etcd member ends before the data is deleted."""
        await self._new_store(links).discard()
        self._directory.delete_everything()

    # -- disc and ram

    async def change_kind(self, kind: str) -> None:
        if kind not in (DISC, RAM):
            raise MembershipRefused("", "The node type must be either disc or ram.")
        self._refuse_ram_witness(kind)
        facts = self._file.read()
        if facts is None:
            raise MembershipRefused("not_clustered", "Non-clustered nodes can only be disc nodes.")
        if kind == facts.kind:
            return
        async with self._links(kind) as links:
            if kind == RAM:
                await self._become_ram(facts, links)
            else:
                await self._become_disc(facts, links)

    def _refuse_ram_witness(self, kind: str) -> None:
        if kind == RAM and self._settings.cluster.witness:
            raise refuse_ram_witness()

    async def _become_ram(self, facts: ClusterFacts, links: PeerConnections) -> None:
        async with self._store(facts, links) as shared:
            known = await self._known(shared)
            if not any(node.kind == DISC for name, node in _nodes(known).items() if name != self._name):
                raise only_disc_node()
            changed = replace(facts, kind=RAM)
            # from here on a start would finish it
            self._file.write(changed)
            await shared.part(_without(facts, self._name))
            await self._enlist(shared, changed, links.own.address)

    async def _become_disc(self, facts: ClusterFacts, links: PeerConnections) -> None:
        async with self._store(facts, links) as shared:
            await self._known(shared)
            changed = replace(facts, kind=DISC)
            await shared.join(facts.cluster_id, facts.store_addresses())
            self._file.write(changed)
            await self._enlist(shared, changed, links.own.address)

    # -- lost nodes

    async def forget(self, name: str, offline: bool) -> None:
        """Continue without a majority that is gone for good; every other disc node is removed."""
        facts = self._file.read()
        if facts is None or name not in facts.members or name == self._name:
            raise not_in_the_cluster()
        if not offline:
            raise MembershipRefused(
                "offline_node_no_offline_flag",
                "You are trying to remove a node from an offline node. That is dangerous, but can be done with the "
                "--offline flag.",
            )
        others = [where for other, where in facts.members.items() if other != self._name]
        online = [where.peer for where in others if await _answers(where.peer) or await _answers(where.store)]
        if facts.kind != DISC or self._settings.cluster.etcd.endpoints or online:
            raise MembershipRefused(
                "removing_node_from_offline_node",
                "To remove a node remotely from an offline node, the node you are removing from must be a disc node "
                "and all the other nodes must be offline.",
            )
        async with self._links(DISC) as links:
            shared = self._new_store(links)
            try:
                await shared.resume_alone(facts)
                await self._forget_lost(shared, facts, name)
            finally:
                await shared.close()

    async def _forget_lost(self, shared: ClusterMetadataStore, facts: ClusterFacts, name: str) -> None:
        nodes = _nodes(await self._known(shared))
        lost = [other for other, node in nodes.items() if other != self._name and (node.kind == DISC or other == name)]
        async with asyncio.timeout(STORE_PATIENCE_S):
            for other in lost:
                while not await _delisted(shared, other):
                    # until the lease of its last run has expired
                    await asyncio.sleep(PAUSE_S)
        self._file.write(_without(facts, *lost))
        self._log.warning("members.forgotten", nodes=",".join(lost))

    # -- another name

    async def rename(self, old: str, new: str) -> str:
        """Returns the name that this node has from now on."""
        if old != self._name:
            raise MembershipRefused("", f"{old} is not this node, which is {self._name}: each node renames itself")
        try:
            parse_node(new)
        except ValueError as error:
            raise MembershipRefused("", f"{new} is not {error}") from error
        facts = self._file.read()
        if facts is not None:
            await self._rename_member(facts, old, new)
        self._directory.rename(new)
        if facts is not None:
            members = {new if name == old else name: where for name, where in facts.members.items()}
            self._file.write(replace(facts, members=members, renaming=""))
        self._settings.broker.node_name = new
        self._log.info("node.renamed", name=new)
        return new

    async def _rename_member(self, facts: ClusterFacts, old: str, new: str) -> None:
        if facts.renaming not in ("", old, new):
            raise MembershipRefused("", f"{old} is about to be called {facts.renaming}: finish that first")
        async with self._links(facts.kind) as links, self._store(facts, links) as shared:
            refuse_taken_name(await self._known(shared), old, new, links.own.address)
            # from here on it does not start under the old name
            self._file.write(replace(facts, renaming=new))
            await rename_in_store(shared, old, new)
            # its name is among its arguments; it gets the new one when it starts again
            await shared.end_member()

    # -- the store

    @asynccontextmanager
    async def _links(self, kind: str) -> AsyncIterator[PeerConnections]:
        """Bind the peer port: its address decides where this node's etcd member listens."""
        cluster = self._settings.cluster
        own = PeerIdentity(self._name, 1, "", "", kind, int(cluster.silence_s * 1000))
        links = PeerConnections(cluster, own, read_cookie(cluster), self._log, dict, _refuse_join, self._tasks)
        cluster.peer_listener = with_bound_port(cluster.peer_listener, links.sockets)
        try:
            yield links
        finally:
            await links.close()

    def _new_store(self, links: PeerConnections) -> ClusterMetadataStore:
        return new_metadata_store(self._settings, links.own.address, self._directory.path, self._log, self._tasks)

    @asynccontextmanager
    async def _store(self, facts: ClusterFacts, links: PeerConnections) -> AsyncIterator[ClusterMetadataStore]:
        shared = self._new_store(links)
        try:
            await shared.resume_if_there(facts)
            yield shared
        finally:
            await shared.close()

    async def _known(self, shared: ClusterMetadataStore) -> MetadataSnapshot:
        """The majority's state; raises `MembershipRefused` if there is none."""
        try:
            async with asyncio.timeout(STORE_PATIENCE_S):
                await _until_begun(shared)
                return (await shared.snapshot())[1]
        except (TimeoutError, ConnectionError) as error:
            raise no_quorum_online(str(error) or "no node answers") from error


async def _until_begun(shared: ClusterMetadataStore) -> None:
    while True:
        try:
            await shared.begun()
            return
        except ConnectionError:
            await asyncio.sleep(PAUSE_S)


async def _delisted(shared: ClusterMetadataStore, name: str) -> bool:
    try:
        await shared.delist(name)
    except MembershipRefused:
        return False
    return True


async def _answers(address: str) -> bool:
    """Whether a process listens there."""
    if not address:
        return False
    where = parse_address(address)
    try:
        async with asyncio.timeout(DIAL_PATIENCE_S):
            _reader, writer = await asyncio.open_connection(where.host, where.port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


async def _refuse_join(facts: PeerIdentity, data: bytes) -> bytes:
    raise ConfigError("a stopped node accepts no other node")


def _node_at(text: str) -> tuple[str, PeerAddress]:
    """The wanted name, if one is given, and the address."""
    try:
        if "@" not in text:
            return "", parse_address(text)
        node = parse_node(text)
    except ValueError as error:
        raise MembershipRefused("", f"{text} is not {error}") from error
    return node.name, node.address


def _peers(facts: ClusterFacts) -> list[str]:
    return [where.peer for where in facts.members.values()]


def _nodes(known: MetadataSnapshot) -> dict[str, NodeDefinition]:
    found = [decode_definition(key, kept[2]) for key, kept in known.items() if key.startswith(f"{NODES}/")]
    return {node.name: node for node in found if isinstance(node, NodeDefinition)}


def _without(facts: ClusterFacts, *names: str) -> ClusterFacts:
    return replace(facts, members={name: where for name, where in facts.members.items() if name not in names})
