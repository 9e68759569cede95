"""Events: the facts that a node learns, and with `now_ms` the only input of `Broker.handle`; and operators' commands.

An event is coarse: a whole socket read, not a frame. A turn handles a list of events.

A command is a plain value. It arrives as the event `CommandReceived`, and is answered once, by `CompleteCommand`. It is
checked as a whole before anything changes; a refused command gets the reason (`errors.CommandRefused`). The commands of
a `CommandBatch`, such as a definitions file, are checked together.

Not here: the orders that a node gives (`broker.model.effects`), the commands (`broker.commands.requests`), who may give
them (`admin`), how they are carried out (`broker.commands.control`).
"""

from typing import final

from warren.broker.model.identity import Identity
from warren.broker.model.journal import MetadataChange


class Command:
    """An operator's command."""


@final
class CommandBatch(Command):
    """Several commands: if one is invalid none is carried out, else all are, in order.

    A single node carries them out in one turn, so the batch is atomic. A cluster commits many changes in several
    transactions (`broker.metadata.proposal`). If the metadata store fails between two of them, the committed ones stay;
    the refusal says how many, and the same batch again completes the rest.
    """

    def __init__(self, commands: list[Command]) -> None:
        self.commands = commands


MetadataSnapshot = dict[str, tuple[int, int, bytes]]
"""The metadata store: for each key its create revision, its last revision, and its value."""


class Event:
    """A fact from outside the core."""


@final
class ConnectionOpened(Event):
    """A client's socket was accepted, and its TLS handshake, if any, is complete."""

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
        identity: Identity | None = None,
    ) -> None:
        self.connection_id = connection_id
        self.peer_host = peer_host
        self.peer_port = peer_port
        self.local_host = local_host
        self.local_port = local_port
        self.tls = tls
        # the name in the client's verified certificate; empty without one
        self.certificate_name = certificate_name
        # the negotiated protocol and cipher suite, in OpenSSL's names
        self.tls_protocol = tls_protocol
        self.tls_suite = tls_suite
        # a connection within the process: it is this identity or internal user without a login, or the node itself if
        # neither is given; an internal connection is neither listed nor counted, a direct one is like any client
        self.internal = internal
        self.trusted_user = trusted_user
        self.identity = identity
        self.direct = direct
        self.trusted = internal or direct
        self.by_the_node = self.trusted and not trusted_user and identity is None


@final
class BytesReceived(Event):
    """One read of a client's socket."""

    def __init__(self, connection_id: int, data: bytes) -> None:
        self.connection_id = connection_id
        self.data = data


@final
class ConnectionDropped(Event):
    """The socket was closed, by either side."""

    def __init__(self, connection_id: int, reason: str = "") -> None:
        self.connection_id = connection_id
        self.reason = reason


@final
class WritesPaused(Event):
    """The client's socket buffer is full: the client reads too slowly."""

    def __init__(self, connection_id: int) -> None:
        self.connection_id = connection_id


@final
class WritesResumed(Event):
    """The client's socket buffer has space again."""

    def __init__(self, connection_id: int) -> None:
        self.connection_id = connection_id


@final
class MemoryMeasured(Event):
    """The process uses `used_bytes` of memory, `buffered_bytes` of them for HTTP requests that are being received or
    handled; the high watermark is `limit_bytes`."""

    def __init__(self, used_bytes: int, limit_bytes: int, buffered_bytes: int = 0) -> None:
        self.used_bytes = used_bytes
        self.limit_bytes = limit_bytes
        self.buffered_bytes = buffered_bytes


@final
class StopRequested(Event):
    """The operator stops the node: connections get connection.close, then `StopNode` follows."""


@final
class FlushCompleted(Event):
    """Every batch up to `written_no` is written, and every batch up to `flushed_no` is flushed."""

    def __init__(self, written_no: int, flushed_no: int) -> None:
        self.written_no = written_no
        self.flushed_no = flushed_no


@final
class IndexRead(Event):
    """The result of `ReadIndex`: the rows of one queue, or an error."""

    def __init__(self, ticket: int, rows: bytes, error: str = "") -> None:
        self.ticket = ticket
        self.rows = rows
        self.error = error


@final
class JournalRead(Event):
    """The result of `ReadJournal`: the requested extents, or an error."""

    def __init__(self, ticket: int, blocks: list[bytes], error: str = "") -> None:
        self.ticket = ticket
        self.blocks = blocks
        self.error = error


@final
class DiskMeasured(Event):
    """The data directory's disk has `free_bytes` free; below `limit_bytes` the disk alarm blocks publishers."""

    def __init__(self, free_bytes: int, limit_bytes: int) -> None:
        self.free_bytes = free_bytes
        self.limit_bytes = limit_bytes


@final
class DiskFull(Event):
    """A write failed because the disk is full, and is retried; with an empty reason, the retry succeeded."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


@final
class ArchiveWritten(Event):
    """The data of `WriteArchive` is flushed."""

    def __init__(self, ticket: int) -> None:
        self.ticket = ticket


@final
class ArchiveRead(Event):
    """The result of `ReadArchive`: the data, or an error."""

    def __init__(self, ticket: int, data: bytes, error: str = "") -> None:
        self.ticket = ticket
        self.data = data
        self.error = error


@final
class CommandReceived(Event):
    """An operator gave a command; `CompleteCommand` with the same ticket follows, in this turn or later."""

    def __init__(self, ticket: int, command: Command) -> None:
        self.ticket = ticket
        self.command = command


@final
class PasswordVerified(Event):
    """The result of `VerifyPassword`."""

    def __init__(self, ticket: int, good: bool) -> None:
        self.ticket = ticket
        self.good = good


@final
class TokenVerified(Event):
    """The result of `VerifyToken`: the claims of a good token; None if it is not good, for this reason.

    `lives_ms` is the time until the token expires; 0 if it does not. `awaits_keys`: its key is not known, and
    `SigningKeysFetched` follows.
    """

    def __init__(
        self,
        ticket: int,
        claims: dict[str, object] | None,
        reason: str = "",
        lives_ms: int = 0,
        awaits_keys: bool = False,
    ) -> None:
        self.ticket = ticket
        self.claims = claims
        self.reason = reason
        self.lives_ms = lives_ms
        self.awaits_keys = awaits_keys


@final
class SigningKeysFetched(Event):
    """The issuer's keys were fetched, or could not be; `changed` if the known keys are others than before."""

    def __init__(self, changed: bool) -> None:
        self.changed = changed


@final
class WebServerAnswered(Event):
    """The answer to `AskWebServer`, in lower case; empty if there was none, for the reason in `fault`."""

    def __init__(self, ticket: int, about: str, answer: str, fault: str = "") -> None:
        self.ticket = ticket
        self.about = about
        self.answer = answer
        self.fault = fault


class ClusterEvent(Event):
    """A fact about another node or the cluster's metadata store."""


@final
class TransactionDecided(ClusterEvent):
    """The outcome of `ProposeTransaction`.

    `agreed`: it was committed with `revision`. `outdated`: a condition failed, so nothing changed; the node knows the
    cause when it has seen `revision`. `unknown`: it may or may not have been committed, and `reason` says why.
    """

    def __init__(self, ticket: int, outcome: str, revision: int, reason: str = "") -> None:
        self.ticket = ticket
        self.outcome = outcome
        self.revision = revision
        self.reason = reason


@final
class DefinitionsChanged(ClusterEvent):
    """The metadata store was changed, by this node or another: all changes up to `revision`, in order.

    Changes of one revision come in one event, in the order of their transaction.
    """

    def __init__(self, revision: int, changes: list[MetadataChange]) -> None:
        self.revision = revision
        self.changes = changes


@final
class DefinitionsReplaced(ClusterEvent):
    """The whole metadata store as of `revision`: at the start, and after changes were missed."""

    def __init__(self, revision: int, snapshot: MetadataSnapshot) -> None:
        self.revision = revision
        self.snapshot = snapshot


@final
class DefinitionsCurrent(ClusterEvent):
    """At `asked_ms` the newest revision of the metadata store was `revision`, and this node has all changes up to it.

    The shell sends it about once a second.
    """

    def __init__(self, revision: int, asked_ms: int) -> None:
        self.revision = revision
        self.asked_ms = asked_ms


@final
class PeerConnected(ClusterEvent):
    """A new link to this incarnation of another cluster node is open, and unused so far."""

    def __init__(self, node: str, incarnation: int) -> None:
        self.node = node
        self.incarnation = incarnation


@final
class PeerReceived(ClusterEvent):
    """Bytes of a link to another node, in order; usually everything that it sent in one turn."""

    def __init__(self, node: str, data: bytes) -> None:
        self.node = node
        self.data = data


@final
class PeerLost(ClusterEvent):
    """The link to a node was lost, with all bytes in flight; pending output must not be sent on the next link.

    The event comes at once, when the state of the node is unknown. If a new connection to the node's port is then
    refused (by its host, or by a firewall), the event comes again with `refused`.
    """

    def __init__(self, node: str, reason: str, refused: bool) -> None:
        self.node = node
        self.reason = reason
        self.refused = refused


@final
class PeerWritesPaused(ClusterEvent):
    """The link's buffer is full: the other node reads too slowly."""

    def __init__(self, node: str) -> None:
        self.node = node


@final
class PeerWritesResumed(ClusterEvent):
    """The link's buffer has space again."""

    def __init__(self, node: str) -> None:
        self.node = node


@final
class MetadataMigrated(ClusterEvent):
    """The definitions of this node, which was not clustered, are in the metadata store: this is its content."""

    def __init__(self, revision: int, snapshot: MetadataSnapshot) -> None:
        self.revision = revision
        self.snapshot = snapshot


@final
class MetadataMigrationFailed(ClusterEvent):
    """The definitions could not be moved to the metadata store: the node stays unclustered."""
