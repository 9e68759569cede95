"""What a node wants done: orders in the imperative, the only output of `Broker.handle`.

Effects are carried out in order; `AppendRecords`, `SealSegment`, `WriteCheckpoint` and `DropSegments` strictly one
after another, also from turn to turn. They compare by value, so that a test can compare lists of them.

Not here: the facts that caused them (`broker.model.events`).
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
    """Write these bytes to the client's socket: a turn's worth, in one call."""

    def __init__(self, connection_id: int, data: bytes) -> None:
        self.connection_id = connection_id
        self.data = data

    def facts(self) -> tuple[object, ...]:
        return (self.connection_id, self.data)


@final
class CloseConnection(Effect):
    """Close the socket once what was sent has gone out; no event of it is wanted any more but its loss."""

    def __init__(self, connection_id: int) -> None:
        self.connection_id = connection_id

    def facts(self) -> tuple[object, ...]:
        return (self.connection_id,)


@final
class PauseReading(Effect):
    """Stop reading the client's socket: TCP slows it down."""

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
    """Call `handle` at `at_ms` even if nothing happens; replaces the previous order. In the past means at once."""

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms

    def facts(self) -> tuple[object, ...]:
        return (self.at_ms,)


@final
class Note(Effect):
    """Something worth a log line: `connection.opened`, with its facts. Never bodies, never passwords."""

    def __init__(self, level: str, name: str, fields: dict[str, object]) -> None:
        self.level = level
        self.name = name
        self.fields = fields

    def facts(self) -> tuple[object, ...]:
        return (self.level, self.name, tuple(sorted(self.fields.items())))


@final
class StopNode(Effect):
    """Every connection was told and closed; the process may end."""

    def facts(self) -> tuple[object, ...]:
        return ()


@final
class AppendRecords(Effect):
    """Make metadata changes durable, then write a batch into a segment at an offset, then flush it if asked to.

    Answered by `FlushCompleted`. An offset of 0 begins a new segment.
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
    """A segment is complete: flush it, let it end where its last batch does, and keep its index beside it.

    Of a segment in which no batch was found, the size is 0, and it is left as it is.
    """

    def __init__(self, segment: int, index: bytes, size_bytes: int) -> None:
        self.segment = segment
        self.index = index
        self.size_bytes = size_bytes

    def facts(self) -> tuple[object, ...]:
        return (self.segment, self.index, self.size_bytes)


@final
class WriteCheckpoint(Effect):
    """Replace the checkpoint, at once or not at all."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def facts(self) -> tuple[object, ...]:
        return (self.data,)


@final
class DropSegments(Effect):
    """Nothing in these segments is needed any more."""

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
    """Read pieces of a segment, each an offset and a length; answered by `JournalRead`."""

    def __init__(self, ticket: int, segment: int, extents: list[tuple[int, int]]) -> None:
        self.ticket = ticket
        self.segment = segment
        self.extents = extents

    def facts(self) -> tuple[object, ...]:
        return (self.ticket, self.segment, tuple(self.extents))


@final
class WriteArchive(Effect):
    """Let a file of a stream, at 0 a new one, go on with this from here, and flush it; answered by `ArchiveWritten`."""

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
    """Read a piece of a file of a stream; answered by `ArchiveRead`."""

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
    """These files of a stream are needed no more; without any, the stream is gone, and all of them with it."""

    def __init__(self, stream_id: int, segments: list[int]) -> None:
        self.stream_id = stream_id
        self.segments = segments

    def facts(self) -> tuple[object, ...]:
        return (self.stream_id, tuple(self.segments))


@final
class CompleteCommand(Effect):
    """A command was carried out, and what it changed is as safe as it can be; or it was refused and changed nothing.

    `refusal` is the word for the kind of refusal (`errors.Refused`), empty if there is none; `reason` says why, and
    `at` which of several commands is at fault.
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
    """Find out whether a password is the one a slow hash was made of; answered by `PasswordVerified`."""

    def __init__(self, ticket: int, algorithm: str, password_hash: bytes, password: str) -> None:
        self.ticket = ticket
        self.algorithm = algorithm
        self.password_hash = password_hash
        self.password = password

    def facts(self) -> tuple[object, ...]:
        # whoever prints an effect must not print a password
        return (self.ticket, self.algorithm)


@final
class ProposeTransaction(Effect):
    """Change the store that nodes share, all at once or not at all; answered by `TransactionDecided`.

    Only if each key of `compares` was last changed by the revision beside it (0: there is no such key), and nothing
    under a prefix of `unchanged_under` was changed after the revision beside that. `changes` are values, None for
    none; keys in `touched` keep their values, and count as changed.
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
    """Write these bytes to the link to a node: a turn's worth, in one call. Without a link they are dropped.

    What is large, or goes to several nodes, is a piece of its own, which nobody has to copy.
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
    """End the link to a node, which is told why; `PeerLost` follows. A member is dialled again."""

    def __init__(self, node: str, reason: str) -> None:
        self.node = node
        self.reason = reason

    def facts(self) -> tuple[object, ...]:
        return (self.node, self.reason)


@final
class SaveMembers(Effect):
    """The cluster has these nodes: of each its name, its peer address and that of its part of the store, if it has one.

    Links are kept to them, and they are remembered for the next start.
    """

    def __init__(self, members: list[tuple[str, str, str]]) -> None:
        self.members = members

    def facts(self) -> tuple[object, ...]:
        return tuple(self.members)


@final
class PauseService(Effect):
    """This node is cut off from too many others: take no clients, and do not claim to be alive."""

    def facts(self) -> tuple[object, ...]:
        return ()


@final
class ResumeService(Effect):
    """This node is among enough others again: take clients, and be alive."""

    def facts(self) -> tuple[object, ...]:
        return ()


@final
class RestartNode(Effect):
    """Others took this run of the node for dead: end it, and start another one."""

    def facts(self) -> tuple[object, ...]:
        return ()
