"""What nodes tell each other besides the business of queues: how far each has come, whether it is short of room, and
how many clients it has of those who may have only so many.

    applied   1, eight octets: the revision up to which everything is made there
    alarm     2, text: why publishers of the whole cluster must wait; none: they need not on its account
    counts    3, what has moved (`broker.cluster.peer_notices`)

Publishers wait wherever they are connected, as in RabbitMQ: what they publish may be bound for the node that has no
room. A node that is lost takes its alarm and its counts with it.

Not here: the links (`broker.links.link`), when a node is short of room (`broker.alarms`).

What nodes tell each other of the connections and channels they have, so that limits count those of all nodes.

Only those who have a limit are told of; where nobody has one, nothing is sent. A count is told when it moves, once for
all that moved in a turn, and by its value. A limit that is cleared is a count of none.

A node that is lost takes its counts with it; one that is linked anew begins with all it has.

    count     one octet: what is counted; eight: how many; a long string: of whom

Not here: what the counts are for (`broker.connections`), how they travel (`broker.cluster.peer_notices`).
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
    """One node's, of itself and of those it is connected to."""

    def __init__(self, connection_limits: ConnectionLimits, vhosts: dict[str, Vhost], stats: NodeStats) -> None:
        self._connection_limits: ConnectionLimits = connection_limits
        self._vhosts: dict[str, Vhost] = vhosts
        self._figures: NodeStats = stats
        self._channel_moves: i64 = 0
        # what every connected node knows of this one; those with limits who are here, or were
        self._told: dict[CountKey, int] = {}
        connection_limits.watch()

    # -- this node's

    def news(self) -> bytes:
        """What others do not know yet; nothing if they know all."""
        connection_limits = self._connection_limits
        moves = self._figures.channels_created + self._figures.channels_closed
        if moves != self._channel_moves:
            self._channel_moves = moves
            for kind, name in self._told:
                if kind == CHANNELS_OF:
                    connection_limits.user_changed(name)
        if not connection_limits.changed_users and not connection_limits.changed_vhosts:
            return b""
        news: dict[CountKey, int] = {}
        for name in connection_limits.changed_vhosts:
            vhost = self._vhosts.get(name)
            self._look((CONNECTIONS_IN, name), None if vhost is None else vhost.limits, MAX_CONNECTIONS, news)
        for name in connection_limits.changed_users:
            user = connection_limits.catalog.users.get(name)
            limits = None if user is None else user.limits
            self._look((CONNECTIONS_OF, name), limits, MAX_CONNECTIONS, news)
            self._look((CHANNELS_OF, name), limits, MAX_CHANNELS, news)
        connection_limits.changed_vhosts = {}
        connection_limits.changed_users = {}
        return _encoded(news)

    def everything(self) -> bytes:
        """What every other node knows, for one that comes."""
        return _encoded(self._told)

    def _look(self, what: CountKey, limits: dict[str, int] | None, limit: str, news: dict[CountKey, int]) -> None:
        if limits is None or limit_of(limits, limit) == UNLIMITED:
            if self._told.pop(what, 0):
                news[what] = 0
            return
        count = self._connection_limits.count(what)
        if count != self._told.get(what, 0):
            news[what] = count
        self._told[what] = count

    # -- the others'

    def heard(self, node: str, data: bytes) -> None:
        """What has moved there; `PeerFault` if it makes no sense."""
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
    """One node's, to and from all it is connected to."""

    def __init__(self, links: NodeLinks, shared: SharedMetadataBackend, cluster_counts: ClusterCounts) -> None:
        self._links: NodeLinks = links
        self._shared: SharedMetadataBackend = shared
        self._cluster_counts: ClusterCounts = cluster_counts
        self.own_alarm: str = ""
        # of connected nodes that have one
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
        applied = self._shared.take_untold()
        if applied:
            self._tell_all(_applied(applied))
        counts = self._cluster_counts.news()
        if counts:
            self._tell_all(_counts(counts))

    def alarmed(self, reason: str) -> str:
        """Whether this node itself is short of room; why publishers must wait, here or elsewhere."""
        if reason != self.own_alarm:
            self.own_alarm = reason
            self._tell_all(_alarm(reason))
        if reason or not self.alarms:
            return reason
        return self.alarms[min(self.alarms)]

    def arrived(self, node: str, data: bytes) -> None:
        kind = data[0] if data else 0
        if kind == APPLIED:
            self._shared.peer_applied(node, int.from_bytes(data[1 : 1 + REVISION_BYTES], "big"))
        elif kind == COUNTS:
            self._cluster_counts.heard(node, data[1:])
        elif kind == ALARM:
            reason = data[1:].decode(errors="replace")
            if reason:
                self.alarms[node] = reason
            else:
                self.alarms.pop(node, None)

    def _tell_all(self, notice: bytes) -> None:
        for node in self._links.nodes():
            self._links.notify(node, notice)


def _applied(revision: int) -> bytes:
    return bytes([APPLIED]) + revision.to_bytes(REVISION_BYTES, "big")


def _alarm(reason: str) -> bytes:
    return bytes([ALARM]) + reason.encode()


def _counts(counts: bytes) -> bytes:
    return bytes([COUNTS]) + counts
