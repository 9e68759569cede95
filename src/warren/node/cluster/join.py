"""Joining an existing cluster: ask a member, get an etcd member, write `cluster.json`.

The order makes it safe to interrupt: `cluster.json` is written when the node's etcd member has its vote, and the node
is added to the list of members after that. A node interrupted before is alone, and cleans up when it next starts or
joins. A node interrupted after is a member, and adds itself to the list when it starts.

Not here: the messages (`node.cluster.cluster_file`), the connections (`node.peers`), the member's side
(`node.cluster.agent`).
"""

import asyncio
import os
from collections.abc import Sequence

from warren.admin.background import BackgroundTasks
from warren.broker.cluster.addresses import PeerAddress
from warren.broker.model.settings import DISC
from warren.errors import ConfigError
from warren.node.cluster.cluster_file import (
    ClusterFacts,
    ClusterFile,
    ClusterJoinAnswer,
    ClusterJoinRequest,
    JoinRefused,
)
from warren.node.cluster.metadata_store import ClusterMetadataStore
from warren.node.config.settings import NodeSettings
from warren.node.disk.file_names import ETCD
from warren.node.logs import Log
from warren.node.peers.connections import PeerConnections
from warren.node.peers.cookie import read_cookie
from warren.node.peers.handshake import DialFailed

JOIN_PAUSE_S = 1.0
JOIN_LOG_EVERY_S = 10.0


class NoMemberAnswered(Exception):
    """No node that could accept this one has answered in time."""


def new_metadata_store(
    settings: NodeSettings, peer_address: str, path: str, log: Log, tasks: BackgroundTasks
) -> ClusterMetadataStore:
    """A node's access to the store of its cluster; `peer_address` is where other nodes reach it."""
    name, cookie = settings.broker.node_name, read_cookie(settings.cluster)
    return ClusterMetadataStore(settings.cluster.etcd, peer_address, os.path.join(path, ETCD), name, cookie, log, tasks)


class JoinAttempt:
    """One attempt of one node."""

    def __init__(
        self, settings: NodeSettings, path: str, links: PeerConnections, log: Log, tasks: BackgroundTasks
    ) -> None:
        self._settings = settings
        self._path = path
        self._links = links
        self._log = log
        self._tasks = tasks

    async def ask(
        self, addresses: Sequence[PeerAddress], meant: str = "", patience_s: float | None = None
    ) -> tuple[str, ClusterJoinAnswer]:
        """The first node that accepts this one, and its answer. Raises `NoMemberAnswered` when the time is over."""
        loop = asyncio.get_running_loop()
        own = self._links.own
        request = ClusterJoinRequest(own.name, own.kind, own.address)
        end = None if patience_s is None else loop.time() + patience_s
        logged_at = -JOIN_LOG_EVERY_S
        self._log.info("join.asking", nodes=",".join(str(address) for address in addresses))
        while True:
            reasons: list[str] = []
            for address in addresses:
                try:
                    facts, data = await self._links.ask_to_join(address, request.encode(), meant)
                    return facts.name, ClusterJoinAnswer.decode(data)
                except DialFailed as failure:
                    if failure.refused:
                        raise ConfigError(f"{address} refuses this node: {failure.reason}") from failure
                    reasons.append(f"{address}: {failure.reason}")
                except JoinRefused as refusal:
                    raise ConfigError(f"{address} refuses this node: {refusal}") from refusal
            if end is not None and loop.time() >= end:
                raise NoMemberAnswered("; ".join(reasons))
            if loop.time() >= logged_at + JOIN_LOG_EVERY_S:
                logged_at = loop.time()
                self._log.warning("join.waiting", reason="; ".join(reasons))
            await asyncio.sleep(JOIN_PAUSE_S)

    async def enter(self, answer: ClusterJoinAnswer) -> tuple[ClusterFacts, ClusterMetadataStore]:
        """Become a member; the node must have no data to lose."""
        shared = new_metadata_store(self._settings, self._links.own.address, self._path, self._log, self._tasks)
        facts = ClusterFacts(answer.cluster_id, self._links.own.kind, answer.members)
        try:
            if facts.kind == DISC:
                await shared.join(facts.cluster_id, facts.store_addresses())
            shared.use(facts)
        except BaseException:
            await shared.close()
            raise
        ClusterFile(self._path).write(facts)
        self._log.info("cluster.joined", cluster=facts.cluster_id, members=",".join(facts.members))
        return facts, shared
