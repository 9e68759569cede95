"""What an operator does to the membership of a node whose core is stopped.

::

    alone ──join──► member ──reset──► alone, with nothing        force_reset: the same, and nobody is asked
                      │
                      ├── change_kind    gets a part of the store, or gives it up; keeps its queues
                      ├── forget         with `offline`: goes on with the store alone, and removes those that are lost
                      └── rename         its entry and its queues get another name

Each of them may be interrupted anywhere: what was begun is either finished by the next start, or by giving the same
order again. In the cluster's list it is `cluster.json` that decides what this node is.

Not here: members that run (`node.cluster.life`), how orders come in (`node.cluster.control_room`).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from warren.cluster.addresses import PeerAddress, parse_address, parse_node
from warren.cluster.hello_messages import Facts
from warren.errors import ConfigError
from warren.model.events import SharedSnapshot
from warren.model.settings import DISC, RAM
from warren.node.cluster.cluster_file import ClusterFacts, ClusterFile
from warren.node.cluster.joining import Joining, NobodyThere, new_store
from warren.node.cluster.refusal import MembershipRefused, nobody_online, not_in_the_cluster, only_disc_node
from warren.node.cluster.renaming import refuse_taken_name, rename_in_store
from warren.node.cluster.shared_store import SharedStore
from warren.node.cluster.witness import ram_witness
from warren.node.config.settings import NodeSettings
from warren.node.disk.directory import DataDirectory
from warren.node.listeners import settled
from warren.node.logs import Log
from warren.node.peers.cookie import read_cookie
from warren.node.peers.links import Links
from warren.store.cluster_definitions import NODES, NodeDefinition
from warren.store.definition_kinds import decode_definition

STORE_PATIENCE_S = 20.0
JOIN_PATIENCE_S = 5.0
DIAL_PATIENCE_S = 2.0
PAUSE_S = 0.2


class StoppedMember:
    """One node's, between two runs; `directory` is locked, and nothing in it is open."""

    def __init__(self, settings: NodeSettings, directory: DataDirectory, log: Log) -> None:
        self._settings = settings
        self._directory = directory
        self._file = ClusterFile(directory.path)
        self._log = log

    @property
    def _name(self) -> str:
        return self._settings.broker.node_name

    # -- joining

    async def join(self, node: str, kind: str) -> None:
        """Become a member of that node's cluster, with nothing of what this node had."""
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
            joining = Joining(self._settings, self._directory.path, links, self._log)
            try:
                _name, answer = await joining.ask([address], meant, JOIN_PATIENCE_S)
            except NobodyThere as error:
                raise MembershipRefused("nodedown", str(error)) from error
            await self._discard(links)
            facts, shared = await joining.enter(answer)
            try:
                await self._enlist(shared, facts, links.own.address)
            finally:
                await shared.close()

    async def _enlist(self, shared: SharedStore, facts: ClusterFacts, peer: str) -> None:
        """Let everybody know what this node is; where it listens they hear when it starts."""
        witness = self._settings.cluster.witness
        definition = NodeDefinition(self._name, facts.kind, peer, store=shared.address, witness=witness)
        async with asyncio.timeout(STORE_PATIENCE_S):
            await _until_begun(shared)
            await shared.enlist(definition)
        self._file.write(replace(facts, enlisted=True))

    # -- leaving

    async def reset(self) -> None:
        """Leave the cluster, and have nothing."""
        facts = self._file.read()
        if facts is not None:
            await self._leave(facts)
        async with self._links(DISC) as links:
            await self._discard(links)
        self._log.info("node.reset", forced=False)

    async def force_reset(self) -> None:
        """Have nothing, whatever the others think."""
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

    async def _discard(self, links: Links) -> None:
        """Its part of the store ends before its data is deleted."""
        await new_store(self._settings, links.own.address, self._directory.path, self._log).discard()
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
            raise ram_witness()

    async def _become_ram(self, facts: ClusterFacts, links: Links) -> None:
        async with self._store(facts, links) as shared:
            known = await self._known(shared)
            if not any(node.kind == DISC for name, node in _nodes(known).items() if name != self._name):
                raise only_disc_node()
            changed = replace(facts, kind=RAM)
            # from here on a start would finish it
            self._file.write(changed)
            await shared.part(_without(facts, self._name))
            await self._enlist(shared, changed, links.own.address)

    async def _become_disc(self, facts: ClusterFacts, links: Links) -> None:
        async with self._store(facts, links) as shared:
            await self._known(shared)
            changed = replace(facts, kind=DISC)
            await shared.join(facts.cluster_id, facts.store_addresses())
            self._file.write(changed)
            await self._enlist(shared, changed, links.own.address)

    # -- others that are lost

    async def forget(self, name: str, offline: bool) -> None:
        """Go on without a majority that is gone for good; every other disc node is removed with it."""
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
            shared = new_store(self._settings, links.own.address, self._directory.path, self._log)
            try:
                await shared.resume_alone(facts)
                await self._forget_lost(shared, facts, name)
            finally:
                await shared.close()

    async def _forget_lost(self, shared: SharedStore, facts: ClusterFacts, name: str) -> None:
        nodes = _nodes(await self._known(shared))
        lost = [other for other, node in nodes.items() if other != self._name and (node.kind == DISC or other == name)]
        async with asyncio.timeout(STORE_PATIENCE_S):
            for other in lost:
                while not await _delisted(shared, other):
                    # until the lease of its last run has ended
                    await asyncio.sleep(PAUSE_S)
        self._file.write(_without(facts, *lost))
        self._log.warning("members.forgotten", nodes=",".join(lost))

    # -- another name

    async def rename(self, old: str, new: str) -> str:
        """The name that this node has from now on."""
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
            # it has its name among its arguments, and gets the new one when it is started again
            await shared.end_member()

    # -- the store

    @asynccontextmanager
    async def _links(self, kind: str) -> AsyncIterator[Links]:
        """The port for other nodes, taken: where it is decides where this node's part of the store is."""
        cluster = self._settings.cluster
        own = Facts(self._name, 1, "", "", kind, int(cluster.silence_s * 1000))
        links = Links(cluster, own, read_cookie(cluster), self._log, dict, _refuse_join)
        cluster.peer_listener = settled(cluster.peer_listener, links.sockets)
        try:
            yield links
        finally:
            await links.close()

    @asynccontextmanager
    async def _store(self, facts: ClusterFacts, links: Links) -> AsyncIterator[SharedStore]:
        shared = new_store(self._settings, links.own.address, self._directory.path, self._log)
        try:
            await shared.resume_if_there(facts)
            yield shared
        finally:
            await shared.close()

    async def _known(self, shared: SharedStore) -> SharedSnapshot:
        """What a majority says; a `MembershipRefused` if there is none."""
        try:
            async with asyncio.timeout(STORE_PATIENCE_S):
                await _until_begun(shared)
                return (await shared.snapshot())[1]
        except (TimeoutError, ConnectionError) as error:
            raise nobody_online(str(error) or "nobody answers") from error


async def _until_begun(shared: SharedStore) -> None:
    while True:
        try:
            await shared.begun()
            return
        except ConnectionError:
            await asyncio.sleep(PAUSE_S)


async def _delisted(shared: SharedStore, name: str) -> bool:
    try:
        await shared.delist(name)
    except MembershipRefused:
        return False
    return True


async def _answers(address: str) -> bool:
    """Whether anybody listens there."""
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


async def _refuse_join(facts: Facts, data: bytes) -> bytes:
    raise ConfigError("a node that is stopped takes nobody in")


def _node_at(text: str) -> tuple[str, PeerAddress]:
    """The name that is meant, if one is, and where it is."""
    try:
        if "@" not in text:
            return "", parse_address(text)
        node = parse_node(text)
    except ValueError as error:
        raise MembershipRefused("", f"{text} is not {error}") from error
    return node.name, node.address


def _peers(facts: ClusterFacts) -> list[str]:
    return [where.peer for where in facts.members.values()]


def _nodes(known: SharedSnapshot) -> dict[str, NodeDefinition]:
    found = [decode_definition(key, kept[2]) for key, kept in known.items() if key.startswith(f"{NODES}/")]
    return {node.name: node for node in found if isinstance(node, NodeDefinition)}


def _without(facts: ClusterFacts, *names: str) -> ClusterFacts:
    return replace(facts, members={name: where for name, where in facts.members.items() if name not in names})
