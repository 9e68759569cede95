"""Notices between nodes besides the traffic of queues: applied revisions, memory alarms, and connection counts.

    applied   1, eight octets: the revision up to which the node has applied all changes
    alarm     2, text: why publishers of the whole cluster must wait; empty: the node has no alarm
    counts    3, the counts that moved, each: one octet for the kind, eight for the count, a long string for the name

As in RabbitMQ, publishers wait on every node, because their messages may be for the node with the alarm.

Counts make connection and channel limits hold for the whole cluster. Only users and virtual hosts with a limit are
counted; without limits nothing is sent. A count is sent when it moves, at most once a turn, as its new value; 0 if its
limit was cleared. A node that connects gets all counts. A lost node takes its alarm and its counts with it.

Not here: the links (`broker.links.link`), alarms (`broker.alarms`), the limits (`broker.connections`).
"""

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.broker.access.limits import MAX_CHANNELS, MAX_CONNECTIONS, UNLIMITED, limit_of
from warren.broker.connections import CHANNELS_OF, CONNECTIONS_IN, CONNECTIONS_OF, ConnectionLimits, CountKey
from warren.broker.links.link import NodeLinks
from warren.broker.metadata.shared_backend import SharedMetadataBackend
from warren.broker.model.stats import NodeStats
from warren.broker.vhost import Vhost
from warren.errors import ConnectionFault, PeerFault
from warren.wire.scalars import write_longlong, write_longstr
from warren.wire.values import ArgumentReader


@final
class ClusterCounts:
    """The counts of this node, and those of connected nodes."""

    def __init__(self, connection_limits: ConnectionLimits, vhosts: dict[str, Vhost], stats: NodeStats) -> None:
        self._connection_limits: ConnectionLimits = connection_limits
        self._vhosts: dict[str, Vhost] = vhosts
        self._stats: NodeStats = stats
        self._channel_moves: i64 = 0
        # the counts that were sent to the connected nodes
        self._sent: dict[CountKey, int] = {}
        connection_limits.watch()

    # -- counts of this node

    def news(self) -> bytes:
        """The counts that moved since the last call; empty if there are none."""
        connection_limits = self._connection_limits
        moves = self._stats.channels_created + self._stats.channels_closed
        if moves != self._channel_moves:
            self._channel_moves = moves
            for kind, name in self._sent:
                if kind == CHANNELS_OF:
                    connection_limits.user_changed(name)
        if not connection_limits.changed_users and not connection_limits.changed_vhosts:
            return b""
        news: dict[CountKey, int] = {}
        for name in connection_limits.changed_vhosts:
            vhost = self._vhosts.get(name)
            self._count((CONNECTIONS_IN, name), None if vhost is None else vhost.limits, MAX_CONNECTIONS, news)
        for name in connection_limits.changed_users:
            user = connection_limits.catalog.users.get(name)
            limits = None if user is None else user.limits
            self._count((CONNECTIONS_OF, name), limits, MAX_CONNECTIONS, news)
            self._count((CHANNELS_OF, name), limits, MAX_CHANNELS, news)
        connection_limits.changed_vhosts = {}
        connection_limits.changed_users = {}
        return _encoded(news)

    def everything(self) -> bytes:
        """All counts, for a node that connects."""
        return _encoded(self._sent)

    def _count(self, what: CountKey, limits: dict[str, int] | None, limit: str, news: dict[CountKey, int]) -> None:
        if limits is None or limit_of(limits, limit) == UNLIMITED:
            if self._sent.pop(what, 0):
                news[what] = 0
            return
        count = self._connection_limits.count(what)
        if count != self._sent.get(what, 0):
            news[what] = count
        self._sent[what] = count

    # -- counts of other nodes

    def counts_received(self, node: str, data: bytes) -> None:
        """The counts that moved on another node; a `PeerFault` if they are malformed."""
        counts = self._connection_limits.remote_counts.setdefault(node, {})
        reader = ArgumentReader(data, 0, len(data))
        try:
            while not reader.at_end():
                kind, count = int(reader.octet()), int(reader.longlong())
                name = reader.longstr().decode("utf-8", "surrogateescape")
                if count:
                    counts[kind, name] = count
                else:
                    counts.pop((kind, name), None)
        except ConnectionFault as fault:
            raise PeerFault("counts that end too soon") from fault

    def lost(self, node: str) -> None:
        self._connection_limits.remote_counts.pop(node, None)


def _encoded(counts: dict[CountKey, int]) -> bytes:
    out = BytesWriter()
    for (kind, name), count in counts.items():
        out.append(kind)
        write_longlong(out, count)
        write_longstr(out, name.encode("utf-8", "surrogateescape"))
    return out.getvalue()


APPLIED: Final = 1
ALARM: Final = 2
COUNTS: Final = 3
REVISION_BYTES: Final = 8


@final
class PeerNotices:
    """Sends and receives the notices of this node."""

    def __init__(self, links: NodeLinks, shared: SharedMetadataBackend, cluster_counts: ClusterCounts) -> None:
        self._links: NodeLinks = links
        self._shared: SharedMetadataBackend = shared
        self._cluster_counts: ClusterCounts = cluster_counts
        self.own_alarm: str = ""
        # by connected node
        self.alarms: dict[str, str] = {}

    def peer_connected(self, node: str) -> None:
        self._links.notify(node, _applied(self._shared.applied))
        if self.own_alarm:
            self._links.notify(node, _alarm(self.own_alarm))
        counts = self._cluster_counts.everything()
        if counts:
            self._links.notify(node, _counts(counts))

    def peer_lost(self, node: str) -> None:
        self.alarms.pop(node, None)
        self._cluster_counts.lost(node)

    def end_turn(self) -> None:
        applied = self._shared.take_unreported()
        if applied:
            self._notify_all(_applied(applied))
        counts = self._cluster_counts.news()
        if counts:
            self._notify_all(_counts(counts))

    def alarmed(self, reason: str) -> str:
        """Set this node's own alarm; the reason why publishers must wait, by any node's alarm."""
        if reason != self.own_alarm:
            self.own_alarm = reason
            self._notify_all(_alarm(reason))
        if reason or not self.alarms:
            return reason
        return self.alarms[min(self.alarms)]

    def arrived(self, node: str, data: bytes) -> None:
        kind = data[0] if data else 0
        if kind == APPLIED:
            self._shared.peer_applied(node, int.from_bytes(data[1 : 1 + REVISION_BYTES], "big"))
        elif kind == COUNTS:
            self._cluster_counts.counts_received(node, data[1:])
        elif kind == ALARM:
            reason = data[1:].decode(errors="replace")
            if reason:
                self.alarms[node] = reason
            else:
                self.alarms.pop(node, None)

    def _notify_all(self, notice: bytes) -> None:
        for node in self._links.nodes():
            self._links.notify(node, notice)


def _applied(revision: int) -> bytes:
    return bytes([APPLIED]) + revision.to_bytes(REVISION_BYTES, "big")


def _alarm(reason: str) -> bytes:
    return bytes([ALARM]) + reason.encode()


def _counts(counts: bytes) -> bytes:
    return bytes([COUNTS]) + counts
