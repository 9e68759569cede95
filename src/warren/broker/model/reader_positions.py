"""Where a reader of a stream goes on when another node is master, or its home is back: behind what it was given last.

It asked for a place once, by a name, a time or a number; asked again it would be somewhere else. So it asks for the
offset behind the last one that came; or, if nothing came, for the one where it was told that it begins.

One whose progress is kept goes on behind what it has acked, or its group has: what it holds it may lose with its
connection, and nobody would be given it again. So it gets that twice. If nothing of that is known, it begins where it
began.

Not here: readers (`stream.readers`), attaching them (`broker.links.mirrored_queue_proxy`,
`broker.streams.partitioned`).

Where in its queue a message stands, for a consumer that wants to be told.

A consumer with the argument `x-warren-position: true` gets with each delivery a header of that name. It is the same
whenever the message is delivered, and no other message of the queue has it: so a consumer that was interrupted between
doing something and its ack knows the message again.

An entry that another node has lent says where it stands at home in the place of its deadline, which its home looks
after: marked so that no deadline can be mistaken for it.

Not here: how the place comes over a link (`broker.links.remote_queue`, `broker.links.host_session`).

How far readers have come who want their queue to know it: an offset for each name.

A queue is to know at most `NAMES_MAX` names; whoever takes readers in refuses new ones then. What is told is always
kept: a reader whose place was forgotten would be somewhere else the next time, and might miss something.

Not here: who tells (`stream`), where it is written down (`broker.journal.queue_state`).
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
    """The message with a header that says where it stands."""
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
    """One reader's place."""

    def __init__(self, arguments: Table) -> None:
        self._asked: Table = arguments
        self._chunks: bool = arguments.get(CHUNKS) is True
        # where it began, and the offset that comes next; -1 while nobody has said
        self._first: i64 = -1
        self._next: i64 = -1
        self._given: bool = False

    def began(self, offset: i64) -> None:
        """A master said where it begins."""
        if self._next < 0:
            self._first = self._next = offset

    def got(self, entry: Entry) -> None:
        """It was given this, which another node lent."""
        if self._chunks:
            self.told(entry.message.headers())
        else:
            # the position of offset 0 is 1, in whichever epoch
            self._passed((entry.expires_at_ms ^ AT_HOME) & OFFSETS, 1)

    def told(self, headers: Table) -> None:
        """It was given something with these headers."""
        first, count = headers.get(OFFSET), headers.get(COUNT, 1)
        if isinstance(first, int) and isinstance(count, int):
            self._passed(first + count, count)

    def _passed(self, end: i64, count: i64) -> None:
        self._given = True
        self._next = end
        if self._first < 0:
            self._first = end - count

    def offset(self) -> i64:
        """What comes next; -1 if nobody has said."""
        return self._next

    def is_over(self) -> bool:
        """Whether it was given all that it will get."""
        return self._given and self._asked.get(PROBE) is True

    def arguments(self) -> Table:
        """With which it is to go on."""
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
"""Instead of an offset: the name is to be forgotten. One that has dealt with nothing is at -1."""


@final
class OffsetTable:
    """Those of one queue."""

    def __init__(self) -> None:
        self.by_name: dict[str, int] = {}

    def keep(self, name: str, offset: i64) -> None:
        if offset == NO_OFFSET:
            self.by_name.pop(name, None)
        else:
            self.by_name[name] = int(offset)

    def clear(self) -> None:
        self.by_name = {}
