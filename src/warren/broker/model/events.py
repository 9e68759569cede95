"""What can happen to a node: facts in the past tense, the only input of `Broker.handle`.

One event is coarse: a whole socket read, not a frame. A turn is a list of them.

Not here: what the node then wants done (`broker.model.effects`); the passing of time, which is `handle`'s `now_ms`.

What an operator may ask of a node: orders that come in, as the event `CommandReceived`, and are answered, each once.

A command is a plain value. It is checked whole before anything changes; a `Refused` says why it was not carried out.
Several that belong together, a file of definitions for one, are checked together.

Not here: the commands themselves (`broker.commands.requests`, `broker.commands.requests`, `broker.commands.requests`),
who may give them (`admin`), how they are carried out (`broker.commands.control`).
"""

from typing import final

from warren.broker.model.journal import MetadataChange


class Command:
    """An operator's order."""


@final
class CommandBatch(Command):
    """Several commands: none is carried out unless all are found good; then all are, in order.

    A node alone carries them out in one turn, so all or none. The nodes of a cluster agree on many changes in several
    steps (`broker.metadata.proposal`). If the store is lost between two of them, what was agreed upon stays; the
    refusal says how much that is, and the same command again brings about the rest.
    """

    def __init__(self, commands: list[Command]) -> None:
        self.commands = commands


MetadataSnapshot = dict[str, tuple[int, int, bytes]]
"""Of each key in the store that nodes share the revision that created it, the one that last changed it, its value."""


class Event:
    """Something that happened outside the core."""


@final
class ConnectionOpened(Event):
    """A client's socket was accepted (and its TLS handshake, if any, is complete)."""

    def __init__(
        self,
        connection_id: int,
        peer_host: str,
        peer_port: int,
        local_host: str,
        local_port: int,
        tls: bool = False,
        certificate_name: str = "",
        tls_protocol: str = "",
        tls_suite: str = "",
        internal: bool = False,
        trusted_user: str = "",
        direct: bool = False,
    ) -> None:
        self.connection_id = connection_id
        self.peer_host = peer_host
        self.peer_port = peer_port
        self.local_host = local_host
        self.local_port = local_port
        self.tls = tls
        # the name the client's verified certificate gives it; empty without one
        self.certificate_name = certificate_name
        # what the TLS handshake agreed upon, in OpenSSL's names
        self.tls_protocol = tls_protocol
        self.tls_suite = tls_suite
        # a link within the process: it is this user without further proof, and without a user it is the node itself;
        # an internal one is nobody's client to list or to count, a direct one is a client like others
        self.internal = internal
        self.trusted_user = trusted_user
        self.direct = direct
        self.trusted = internal or direct
        self.by_the_node = self.trusted and not trusted_user


@final
class BytesReceived(Event):
    """One read of a client's socket."""

    def __init__(self, connection_id: int, data: bytes) -> None:
        self.connection_id = connection_id
        self.data = data


@final
class ConnectionDropped(Event):
    """The socket is gone, whoever closed it."""

    def __init__(self, connection_id: int, reason: str = "") -> None:
        self.connection_id = connection_id
        self.reason = reason


@final
class WritesPaused(Event):
    """The client reads slower than we write; its socket buffer is full."""

    def __init__(self, connection_id: int) -> None:
        self.connection_id = connection_id


@final
class WritesResumed(Event):
    """The client caught up; its socket buffer drained."""

    def __init__(self, connection_id: int) -> None:
        self.connection_id = connection_id


@final
class MemoryMeasured(Event):
    """The process holds `used_bytes` of the `limit_bytes` its watermark allows."""

    def __init__(self, used_bytes: int, limit_bytes: int) -> None:
        self.used_bytes = used_bytes
        self.limit_bytes = limit_bytes


@final
class StopRequested(Event):
    """The operator wants the node down: connections are told, then closed."""


@final
class FlushCompleted(Event):
    """Every batch up to `written_no` is written, every one up to `flushed_no` is certain to survive."""

    def __init__(self, written_no: int, flushed_no: int) -> None:
        self.written_no = written_no
        self.flushed_no = flushed_no


@final
class IndexRead(Event):
    """The rows of one queue in a sealed segment; `error` says why they cannot be had."""

    def __init__(self, ticket: int, rows: bytes, error: str = "") -> None:
        self.ticket = ticket
        self.rows = rows
        self.error = error


@final
class JournalRead(Event):
    """The pieces of a segment that were asked for; `error` says why they cannot be had."""

    def __init__(self, ticket: int, blocks: list[bytes], error: str = "") -> None:
        self.ticket = ticket
        self.blocks = blocks
        self.error = error


@final
class DiskMeasured(Event):
    """The data directory's disk has `free_bytes`; below `limit_bytes` publishers are held back."""

    def __init__(self, free_bytes: int, limit_bytes: int) -> None:
        self.free_bytes = free_bytes
        self.limit_bytes = limit_bytes


@final
class DiskFull(Event):
    """A write found no room and is tried again; with an empty reason: it succeeded."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


@final
class ArchiveWritten(Event):
    """What `WriteArchive` ordered is on disk."""

    def __init__(self, ticket: int) -> None:
        self.ticket = ticket


@final
class ArchiveRead(Event):
    """What `ReadArchive` asked for; or nothing, and why."""

    def __init__(self, ticket: int, data: bytes, error: str = "") -> None:
        self.ticket = ticket
        self.data = data
        self.error = error


@final
class CommandReceived(Event):
    """An operator asks for something; `Answered` with the same ticket follows, in this turn or later."""

    def __init__(self, ticket: int, command: Command) -> None:
        self.ticket = ticket
        self.command = command


@final
class PasswordVerified(Event):
    """Whether it was the password that `VerifyPassword` asked about."""

    def __init__(self, ticket: int, good: bool) -> None:
        self.ticket = ticket
        self.good = good


class ClusterEvent(Event):
    """Something that happened between this node and others, or the store that they share."""


@final
class TransactionDecided(ClusterEvent):
    """What became of what `ProposeTransaction` proposed.

    `agreed`: it came about with `revision`. `outdated`: it did not, because something was not as it was thought to be,
    and is to be seen once `revision` is. `unknown`: nobody can tell, and `reason` says why.
    """

    def __init__(self, ticket: int, outcome: str, revision: int, reason: str = "") -> None:
        self.ticket = ticket
        self.outcome = outcome
        self.revision = revision
        self.reason = reason


@final
class DefinitionsChanged(ClusterEvent):
    """The store that nodes share was changed, by whomever: every change there was, in order, up to `revision`.

    Changes of one revision come together and in the order in which they were proposed.
    """

    def __init__(self, revision: int, changes: list[MetadataChange]) -> None:
        self.revision = revision
        self.changes = changes


@final
class DefinitionsReplaced(ClusterEvent):
    """Everything in the store that nodes share, as of `revision`; for the start, and when changes were missed."""

    def __init__(self, revision: int, snapshot: MetadataSnapshot) -> None:
        self.revision = revision
        self.snapshot = snapshot


@final
class DefinitionsCurrent(ClusterEvent):
    """The store was asked at `asked_ms`, and every change up to `revision`, its newest then, was told before.

    Comes about every second.
    """

    def __init__(self, revision: int, asked_ms: int) -> None:
        self.revision = revision
        self.asked_ms = asked_ms


@final
class PeerConnected(ClusterEvent):
    """There is a link to another node of the cluster, in that run of its process; nothing has gone over it yet."""

    def __init__(self, node: str, incarnation: int) -> None:
        self.node = node
        self.incarnation = incarnation


@final
class PeerReceived(ClusterEvent):
    """One read of a link: the other node's bytes, in order, cut anywhere."""

    def __init__(self, node: str, data: bytes) -> None:
        self.node = node
        self.data = data


@final
class PeerLost(ClusterEvent):
    """The link to a node is gone, and what was on its way with it; bytes gathered for it must not go over the next one.

    Told at once, while nobody knows what became of the node. If the node's port is then found to refuse connections
    (nobody listens, and the host says so, or a firewall in its name), it is told once more, `refused`.
    """

    def __init__(self, node: str, reason: str, refused: bool) -> None:
        self.node = node
        self.reason = reason
        self.refused = refused


@final
class PeerWritesPaused(ClusterEvent):
    """The node reads slower than we write; the link's buffer is full."""

    def __init__(self, node: str) -> None:
        self.node = node


@final
class PeerWritesResumed(ClusterEvent):
    """The node caught up; the link's buffer drained."""

    def __init__(self, node: str) -> None:
        self.node = node


@final
class MetadataMigrated(ClusterEvent):
    """The definitions of this node, which was alone, are in the store that nodes share: this is all of it."""

    def __init__(self, revision: int, snapshot: MetadataSnapshot) -> None:
        self.revision = revision
        self.snapshot = snapshot


@final
class MetadataMigrationFailed(ClusterEvent):
    """They could not be moved there: the node stays alone."""
