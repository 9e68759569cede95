"""The positions of readers: resume points of stream readers, the position header of a delivery, and stored offsets.

A `ResumePoint` is where a stream reader continues after another node became master, or its node came back: the offset
after the last one that it received. Its original request (a time, `first`, `next`) would select another offset now. A
reader with a stored offset, its own or that of its group, continues after the last offset acked: messages that it
holds unacked may be lost with its connection, so it receives them again. If no offset is known, it starts where it
started before.

A consumer with the argument `x-warren-position: true` gets a header of that name with each delivery: the position of
the message in its queue. The position is the same in every delivery of the message, and unique in the queue, so a
consumer that was interrupted before its ack can recognise the message. An entry delivered by another node carries its
position in `expires_at_ms`, marked by `AT_HOME`, because its own node looks after the deadline.

`OffsetTable` has the stored offsets of one queue, by reader name. A queue takes at most `NAMES_MAX` names; the code
that adds readers refuses more. A stored offset is never dropped: its reader would start elsewhere and miss messages.

Not here: stream readers (`broker.streams.reader`), attaching them (`broker.links.mirrored_queue_proxy`,
`broker.streams.partitioned_stream`), how a position travels between nodes (`broker.links.remote_queue`,
`broker.links.host_session`), offsets on disk (`broker.journal.queue_state`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.message import Entry, Message
from warren.broker.model.replica_set import POSITION_BITS
from warren.wire.field_tables import Table
from warren.wire.properties import edit_headers

POSITION: Final = "x-warren-position"
AT_HOME: Final[i64] = 1 << 62


def wants_position(arguments: Table) -> bool:
    return arguments.get(POSITION) is True


def with_position(entry: Entry) -> Message:
    """The message with its position in a header."""
    message = entry.message
    at: i64 = entry.expires_at_ms
    position: i64 = at ^ AT_HOME if at >= AT_HOME else entry.position
    return message.with_header_payload(edit_headers(message.header_payload(), [POSITION], {POSITION: int(position)}))


TYPE: Final = "x-queue-type"
STREAM: Final = "stream"
OFFSET: Final = "x-stream-offset"
DEFAULT: Final = "x-stream-offset-default"
COUNT: Final = "x-stream-count"
CHUNKS: Final = "x-stream-chunks"
NAME: Final = "x-stream-consumer-name"
GROUP: Final = "x-stream-group"
PROBE: Final = "x-stream-probe"
STORED: Final = "stored"
OFFSETS: Final[i64] = (1 << POSITION_BITS) - 1


def is_stream(arguments: Table) -> bool:
    return arguments.get(TYPE) == STREAM


@final
class ResumePoint:
    """Where one stream reader continues."""

    def __init__(self, arguments: Table) -> None:
        self._asked: Table = arguments
        self._chunks: bool = arguments.get(CHUNKS) is True
        # its first offset and its next offset; -1 while unknown
        self._first: i64 = -1
        self._next: i64 = -1
        self._given: bool = False

    def began(self, offset: i64) -> None:
        """A master reported the first offset."""
        if self._next < 0:
            self._first = self._next = offset

    def got(self, entry: Entry) -> None:
        """The reader received this entry from another node."""
        if self._chunks:
            self.headers_received(entry.message.headers())
        else:
            # in every epoch, offset 0 has position 1
            self._passed((entry.expires_at_ms ^ AT_HOME) & OFFSETS, 1)

    def headers_received(self, headers: Table) -> None:
        """The reader received a message with these headers."""
        first, count = headers.get(OFFSET), headers.get(COUNT, 1)
        if isinstance(first, int) and isinstance(count, int):
            self._passed(first + count, count)

    def _passed(self, end: i64, count: i64) -> None:
        self._given = True
        self._next = end
        if self._first < 0:
            self._first = end - count

    def offset(self) -> i64:
        """The next offset; -1 if unknown."""
        return self._next

    def is_over(self) -> bool:
        """Whether the reader received everything: a probe receives one message."""
        return self._given and self._asked.get(PROBE) is True

    def arguments(self) -> Table:
        """The consumer arguments with which the reader continues."""
        if self._next < 0:
            return self._asked
        table: Table = dict(self._asked)
        if NAME in table or GROUP in table:
            table[OFFSET] = STORED
            table[DEFAULT] = int(self._first)
        else:
            table[OFFSET] = int(self._next)
        return table


NAMES_MAX: Final = 1_000

NO_OFFSET: Final = -2
"""Instead of an offset: remove the name. A reader that has acked nothing has the offset -1."""


@final
class OffsetTable:
    """The stored offsets of one queue."""

    def __init__(self) -> None:
        self.by_name: dict[str, int] = {}

    def keep(self, name: str, offset: i64) -> None:
        if offset == NO_OFFSET:
            self.by_name.pop(name, None)
        else:
            self.by_name[name] = int(offset)

    def clear(self) -> None:
        self.by_name = {}
