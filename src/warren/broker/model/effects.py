"""Effects: the orders that a node gives to the shell, and the only output of `Broker.handle`.

The shell carries out effects in order. `AppendRecords`, `SealSegment`, `WriteCheckpoint` and `DropSegments` run
strictly one after another, also across turns. Effects compare by value, so tests compare lists of them.

Not here: the events that cause them (`broker.model.events`).
"""

from abc import abstractmethod
from typing import final

from warren.broker.model.journal import MetadataChange


class Effect:
    """An order to the shell."""

    @abstractmethod
    def facts(self) -> tuple[object, ...]: ...

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Effect) and self.facts() == other.facts()

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.facts()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self.facts()!r}"


@final
class SendBytes(Effect):
    """Write all output of a turn to the client's socket, in one call."""

    def __init__(self, connection_id: int, data: bytes) -> None:
        self.connection_id = connection_id
        self.data = data

    def facts(self) -> tuple[object, ...]:
        return (self.connection_id, self.data)


@final
class CloseConnection(Effect):
    """Close the socket after the output is written. Of its events only `ConnectionDropped` may follow."""

    def __init__(self, connection_id: int) -> None:
        self.connection_id = connection_id

    def facts(self) -> tuple[object, ...]:
        return (self.connection_id,)


@final
class PauseReading(Effect):
    """Stop reading the client's socket, so that TCP slows the client down."""

    def __init__(self, connection_id: int) -> None:
        self.connection_id = connection_id

    def facts(self) -> tuple[object, ...]:
        return (self.connection_id,)


@final
class ResumeReading(Effect):
    """Read the client's socket again."""

    def __init__(self, connection_id: int) -> None:
        self.connection_id = connection_id

    def facts(self) -> tuple[object, ...]:
        return (self.connection_id,)


@final
class SetTimer(Effect):
    """Call `handle` at `at_ms`, even without an event; in the past means at once. Replaces the last `SetTimer`."""

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms

    def facts(self) -> tuple[object, ...]:
        return (self.at_ms,)


@final
class Note(Effect):
    """A log line: an event name such as `connection.opened`, and its fields. Never message bodies or passwords."""

    def __init__(self, level: str, name: str, fields: dict[str, object]) -> None:
        self.level = level
        self.name = name
        self.fields = fields

    def facts(self) -> tuple[object, ...]:
        return (self.level, self.name, tuple(sorted(self.fields.items())))


@final
class StopNode(Effect):
    """End the process: every connection was closed with connection.close."""

    def facts(self) -> tuple[object, ...]:
        return ()


@final
class AppendRecords(Effect):
    """Flush metadata changes, then write a batch into a segment at an offset, then flush it if `flush`.

    Answered by `FlushCompleted`. An offset of 0 starts a new segment.
    """

    def __init__(
        self, batch_no: int, changes: list[MetadataChange], segment: int, offset: int, data: bytes, flush: bool
    ) -> None:
        self.batch_no = batch_no
        self.changes = changes
        self.segment = segment
        self.offset = offset
        self.data = data
        self.flush = flush

    def facts(self) -> tuple[object, ...]:
        return (self.batch_no, tuple(self.changes), self.segment, self.offset, self.data, self.flush)


@final
class SealSegment(Effect):
    """Seal a complete segment: flush it, truncate it after its last batch, and write its index file.

    A size of 0 means that no batch was found in the segment: it is not truncated.
    """

    def __init__(self, segment: int, index: bytes, size_bytes: int) -> None:
        self.segment = segment
        self.index = index
        self.size_bytes = size_bytes

    def facts(self) -> tuple[object, ...]:
        return (self.segment, self.index, self.size_bytes)


@final
class WriteCheckpoint(Effect):
    """Replace the checkpoint atomically."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def facts(self) -> tuple[object, ...]:
        return (self.data,)


@final
class DropSegments(Effect):
    """Delete these journal segments."""

    def __init__(self, segments: list[int]) -> None:
        self.segments = segments

    def facts(self) -> tuple[object, ...]:
        return (tuple(self.segments),)


@final
class ReadIndex(Effect):
    """Read the rows of one queue in a sealed segment's index; answered by `IndexRead`."""

    def __init__(self, ticket: int, segment: int, queue_id: int) -> None:
        self.ticket = ticket
        self.segment = segment
        self.queue_id = queue_id

    def facts(self) -> tuple[object, ...]:
        return (self.ticket, self.segment, self.queue_id)


@final
class ReadJournal(Effect):
    """Read extents of a segment, each an offset and a length; answered by `JournalRead`."""

    def __init__(self, ticket: int, segment: int, extents: list[tuple[int, int]]) -> None:
        self.ticket = ticket
        self.segment = segment
        self.extents = extents

    def facts(self) -> tuple[object, ...]:
        return (self.ticket, self.segment, tuple(self.extents))


@final
class WriteArchive(Effect):
    """Truncate a segment of a stream at `offset`, append the data and flush; answered by `ArchiveWritten`.

    An offset of 0 starts a new segment.
    """

    def __init__(self, ticket: int, stream_id: int, segment: int, offset: int, data: bytes) -> None:
        self.ticket = ticket
        self.stream_id = stream_id
        self.segment = segment
        self.offset = offset
        self.data = data

    def facts(self) -> tuple[object, ...]:
        return (self.ticket, self.stream_id, self.segment, self.offset, self.data)


@final
class ReadArchive(Effect):
    """Read a piece of a stream's segment; answered by `ArchiveRead`."""

    def __init__(self, ticket: int, stream_id: int, segment: int, offset: int, length: int) -> None:
        self.ticket = ticket
        self.stream_id = stream_id
        self.segment = segment
        self.offset = offset
        self.length = length

    def facts(self) -> tuple[object, ...]:
        return (self.ticket, self.stream_id, self.segment, self.offset, self.length)


@final
class DropArchive(Effect):
    """Delete these segments of a stream; an empty list deletes all: the stream was deleted."""

    def __init__(self, stream_id: int, segments: list[int]) -> None:
        self.stream_id = stream_id
        self.segments = segments

    def facts(self) -> tuple[object, ...]:
        return (self.stream_id, tuple(self.segments))


@final
class CompleteCommand(Effect):
    """Answer a command: it was carried out and its changes are durable, or it was refused and changed nothing.

    `refusal` is the kind of `errors.CommandRefused`, empty if the command was carried out; `reason` says why it was
    refused, and `at` which command of a batch is at fault.
    """

    def __init__(self, ticket: int, result: object = None, refusal: str = "", reason: str = "", at: int = 0) -> None:
        self.ticket = ticket
        self.result = result
        self.refusal = refusal
        self.reason = reason
        self.at = at

    def facts(self) -> tuple[object, ...]:
        return (self.ticket, self.result, self.refusal, self.reason, self.at)


@final
class VerifyPassword(Effect):
    """Compare a password with a slow hash; answered by `PasswordVerified`."""

    def __init__(self, ticket: int, algorithm: str, password_hash: bytes, password: str) -> None:
        self.ticket = ticket
        self.algorithm = algorithm
        self.password_hash = password_hash
        self.password = password

    def facts(self) -> tuple[object, ...]:
        # without the password: effects are printed
        return (self.ticket, self.algorithm)


@final
class VerifyToken(Effect):
    """Verify the signature and the lifetime of an access token (JWT); answered by `TokenVerified`."""

    def __init__(self, ticket: int, token: str) -> None:
        self.ticket = ticket
        self.token = token

    def facts(self) -> tuple[object, ...]:
        # without the token: effects are printed
        return (self.ticket,)


@final
class AskWebServer(Effect):
    """Ask the web server of the authentication backend `http`; answered by `WebServerAnswered`.

    `about` is `user`, `vhost`, `resource` or `topic`. Logins (`user`) and permissions (the others) number their tickets
    for themselves.
    """

    def __init__(self, ticket: int, about: str, parameters: list[tuple[str, str]]) -> None:
        self.ticket = ticket
        self.about = about
        self.parameters = parameters

    def facts(self) -> tuple[object, ...]:
        # without the password: effects are printed
        return (self.ticket, self.about, *[value for value in self.parameters if value[0] != "password"])


@final
class ProposeTransaction(Effect):
    """Commit a transaction to the cluster's metadata store; answered by `TransactionDecided`.

    The transaction is conditional: each key of `compares` must have its revision as its last one (0: the key must not
    exist), and no key under a prefix of `unchanged_under` may have changed after the prefix's revision. `changes` are
    new values, None to delete; keys in `touched` keep their values but get the new revision.
    """

    def __init__(
        self,
        ticket: int,
        compares: list[tuple[str, int]],
        changes: list[tuple[str, bytes | None]],
        touched: list[str],
        unchanged_under: list[tuple[str, int]],
    ) -> None:
        self.ticket = ticket
        self.compares = compares
        self.changes = changes
        self.touched = touched
        self.unchanged_under = unchanged_under

    def facts(self) -> tuple[object, ...]:
        return (
            self.ticket,
            tuple(self.compares),
            tuple(self.changes),
            tuple(self.touched),
            tuple(self.unchanged_under),
        )


@final
class SendToPeer(Effect):
    """Write all output of a turn to the link to a node, in one call. Without a link it is dropped.

    Data that is large, or goes to several nodes, is a piece of its own, so that it need not be copied.
    """

    def __init__(self, node: str, *pieces: bytes) -> None:
        self.node = node
        self.pieces = pieces

    @property
    def data(self) -> bytes:
        return self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)

    def facts(self) -> tuple[object, ...]:
        return (self.node, self.data)


@final
class DropPeer(Effect):
    """Close the link to a node, with a reason; `PeerLost` follows. The link to a member is opened again."""

    def __init__(self, node: str, reason: str) -> None:
        self.node = node
        self.reason = reason

    def facts(self) -> tuple[object, ...]:
        return (self.node, self.reason)


@final
class SaveMembers(Effect):
    """Save the cluster's members for the next start, and keep links to them.

    Each member has a name, a peer address, and the address of its metadata store member, if it has one.
    """

    def __init__(self, members: list[tuple[str, str, str]]) -> None:
        self.members = members

    def facts(self) -> tuple[object, ...]:
        return tuple(self.members)


@final
class PauseService(Effect):
    """Close the AMQP listeners and stop reporting this node as alive: it is cut off from too many others."""

    def facts(self) -> tuple[object, ...]:
        return ()


@final
class ResumeService(Effect):
    """Open the AMQP listeners and report this node as alive again: it reaches enough others."""

    def facts(self) -> tuple[object, ...]:
        return ()


@final
class RestartNode(Effect):
    """Restart the node: the other nodes have declared this incarnation dead."""

    def facts(self) -> tuple[object, ...]:
        return ()
