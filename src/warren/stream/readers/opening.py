"""What a consumer's arguments make of it: which kind of reader, and where it begins.

| argument | |
|---|---|
| `x-stream-offset` | `first`, `last`, `next` (as without it), an offset, a time, an interval like `5m`, or `stored` |
| `x-stream-offset-default` | the same, for `stored` when nothing is stored; `first` without it |
| `x-stream-consumer-name` | keep its progress under this name |
| `x-stream-group` | take part in this group, whose progress is kept; where it begins counts while nothing is stored |
| `x-stream-filter`, `x-stream-match-unfiltered` | only some messages (`wish`) |
| `x-stream-chunks`, `x-stream-bodies` | chunks instead of messages |
| `x-stream-probe` | one answer instead of anything |
| `x-stream-store` | of a probe with a name: everything before this offset is dealt with, from here on; -1: forget it |

Not here: what a queue asks of every consumer (`session.consuming`), and a stream of every reader (`stream.stream`).
"""

from typing import Final, final

from warren.errors import PRECONDITION_FAILED, ChannelFault
from warren.model.ports import Consumer
from warren.model.stored_offsets import NAMES_MAX
from warren.stream.offsets import FIRST, OFFSET_ARGUMENT, Start, start_of
from warren.stream.readers.bookmarks import Bookmarks
from warren.stream.readers.chunks import CHUNKS_ARGUMENT, ChunkReader, MadeChunk
from warren.stream.readers.messages import MessageReader
from warren.stream.readers.probe import PROBE_ARGUMENT, Probe
from warren.stream.readers.reader import Reader, Source
from warren.stream.readers.wish import Wish

GROUP_ARGUMENT: Final = "x-stream-group"
NAME_ARGUMENT: Final = "x-stream-consumer-name"
DEFAULT_ARGUMENT: Final = "x-stream-offset-default"
STORE_ARGUMENT: Final = "x-stream-store"
STORED: Final = "stored"
NAME_BYTES_MAX: Final = 255
FORGET: Final = -1
"""Instead of an offset: nothing is to be known of a name any more."""


@final
class Opening:
    """Makes the readers of one stream."""

    def __init__(self, source: Source, bookmarks: Bookmarks) -> None:
        self._source: Source = source
        self._bookmarks: Bookmarks = bookmarks
        self._made: MadeChunk = MadeChunk()

    def reader(self, consumer: Consumer) -> Reader:
        """A reader as the consumer wants it; a `ChannelFault` if that makes no sense."""
        stream, where = self._source.stream, self._where()
        arguments = consumer.arguments
        name = self._name(consumer, where)
        wish = Wish(consumer, where)
        start = self._start(consumer, name, where)
        if arguments.get(PROBE_ARGUMENT) is True:
            if self._store(consumer, name, where):
                start = self._start(consumer, name, where)
            return Probe(consumer, start, self._source, stream.name)
        reader: Reader
        if arguments.get(CHUNKS_ARGUMENT) is True:
            reader = ChunkReader(consumer, start, self._source, stream.name, self._made)
        else:
            reader = MessageReader(consumer, start, self._source, wish)
        if name:
            self._bookmarks.enter(name, reader)
        return reader

    def check_room(self, consumer: Consumer) -> None:
        """Raise a `ChannelFault` if it has a name that is one too many to be kept."""
        arguments, where = consumer.arguments, self._where()
        name = self._name(consumer, where)
        keeps = arguments.get(PROBE_ARGUMENT) is not True or arguments.get(STORE_ARGUMENT, FORGET) != FORGET
        if name and keeps and not self._bookmarks.has_room(name):
            text = f"{where} keeps the offsets of {NAMES_MAX} names, and has no room for '{name}'"
            raise ChannelFault(PRECONDITION_FAILED, text)

    def _where(self) -> str:
        stream = self._source.stream
        return f"queue '{stream.name}' in vhost '{stream.vhost}'"

    def _name(self, consumer: Consumer, where: str) -> str:
        """Under which name its progress is kept; empty for none."""
        name = consumer.arguments.get(GROUP_ARGUMENT, consumer.arguments.get(NAME_ARGUMENT))
        if name is None:
            return ""
        if not isinstance(name, str) or not 0 < len(name.encode("utf-8", "surrogateescape")) <= NAME_BYTES_MAX:
            raise _invalid(NAME_ARGUMENT, where, f"not a string of 1 to {NAME_BYTES_MAX} octets")
        return name

    def _store(self, consumer: Consumer, name: str, where: str) -> bool:
        """Write down what a probe says, if it says something; whether it does."""
        offset = consumer.arguments.get(STORE_ARGUMENT)
        if offset is None:
            return False
        if not isinstance(offset, int) or isinstance(offset, bool) or offset < FORGET:
            raise _invalid(STORE_ARGUMENT, where, "not an offset")
        if not name:
            raise _invalid(STORE_ARGUMENT, where, f"there is no {NAME_ARGUMENT}")
        if offset == FORGET:
            self._bookmarks.forget(name)
        else:
            self._bookmarks.store(name, offset - 1)
        return True

    def _start(self, consumer: Consumer, name: str, where: str) -> Start:
        arguments, now_ms = consumer.arguments, self._source.turn.now_ms
        value = arguments.get(OFFSET_ARGUMENT)
        grouped = GROUP_ARGUMENT in arguments
        if value != STORED and not grouped:
            return start_of(value, where, now_ms)
        if not name:
            raise _invalid(OFFSET_ARGUMENT, where, f"there is no {NAME_ARGUMENT}")
        default = arguments.get(DEFAULT_ARGUMENT, FIRST) if value in (None, STORED) else value
        start = start_of(default, where, now_ms)
        # a group is in one place, wherever its members say that it begins
        end = self._bookmarks.end(name)
        return Start(offset=end) if end >= 0 else start


def _invalid(argument: str, where: str, reason: str) -> ChannelFault:
    return ChannelFault(PRECONDITION_FAILED, f"invalid arg '{argument}' for {where}: {reason}")
