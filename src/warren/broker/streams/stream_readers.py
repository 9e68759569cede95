"""Everybody who reads one stream.

Readers get what they can take one after another, in the order in which they came; one that takes much takes it from
its own connection's room, not from that of others.

Of a group only the active member has a reader; the others wait. A member that retires keeps its reader until it holds
nothing, and is given nothing more. Where a group begins is written down before anything of it is read, so that its
next member begins there, too.

At a new master of a mirrored stream no group is served until its members, who were at the one before, have had time to
come: the first to come would be served, and another one holds what it was given there. And no master serves a group
while another may do so, who was made master without it or has not heard of it: groups are handed things out as queues
hand out (`QueueLog.serves`). Whoever reads for itself is served by any master: what is settled stays what it is.

Not here: what kind of reader a consumer is (`opening`), when they are served (`broker.streams.stream`), who is active
(`broker.streams.groups`).

What a consumer's arguments make of it: which kind of reader, and where it begins.

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

Not here: what a queue asks of every consumer (`broker.sessions.consumers`), and a stream of every reader
(`broker.streams.stream`).

Readers whose clients take nothing: what they have in memory is let go when that is tight, and read again later.

A reader that stands still for a whole look, and whose client has no room, is idle. One that goes on slowly is not: it
would read its chunk anew for every message.

Not here: what a reader has in memory (`reader`), when memory is tight (`broker.model.turn`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.message import Entry
from warren.broker.model.ports import ConsumerPort, QueueLog
from warren.broker.model.reader_positions import NAMES_MAX
from warren.broker.model.stream_partitions import partition_index
from warren.broker.model.turn import TimerTarget, Turn
from warren.broker.streams.groups import ConsumerGroup, ConsumerGroups, check_group
from warren.broker.streams.offsets import FIRST, OFFSET_ARGUMENT, StartOffset, start_offset_of
from warren.broker.streams.reader import (
    CHUNKS_ARGUMENT,
    PROBE_ARGUMENT,
    BuiltChunk,
    ChunkReader,
    MessageReader,
    OffsetProbe,
    Reader,
    ReaderSource,
    StreamFilter,
)
from warren.broker.streams.stored_offsets import StoredOffsets
from warren.broker.streams.tail import StreamTail
from warren.errors import PRECONDITION_FAILED, ChannelFault

GROUP_ARGUMENT: Final = "x-stream-group"
NAME_ARGUMENT: Final = "x-stream-consumer-name"
DEFAULT_ARGUMENT: Final = "x-stream-offset-default"
STORE_ARGUMENT: Final = "x-stream-store"
STORED: Final = "stored"
NAME_BYTES_MAX: Final = 255
FORGET: Final = -1
"""Instead of an offset: nothing is to be known of a name any more."""


@final
class ReaderOptions:
    """Makes the readers of one stream."""

    def __init__(self, source: ReaderSource, stored_offsets: StoredOffsets) -> None:
        self._source: ReaderSource = source
        self._stored_offsets: StoredOffsets = stored_offsets
        self._built: BuiltChunk = BuiltChunk()

    def reader(self, consumer: ConsumerPort) -> Reader:
        """A reader as the consumer wants it; a `ChannelFault` if that makes no sense."""
        stream, where = self._source.stream, self._where()
        arguments = consumer.arguments
        name = self._name(consumer, where)
        message_filter = StreamFilter(consumer, where)
        start = self._start(consumer, name, where)
        if arguments.get(PROBE_ARGUMENT) is True:
            if self._store(consumer, name, where):
                start = self._start(consumer, name, where)
            return OffsetProbe(consumer, start, self._source, stream.name)
        reader: Reader
        if arguments.get(CHUNKS_ARGUMENT) is True:
            reader = ChunkReader(consumer, start, self._source, stream.name, self._built)
        else:
            reader = MessageReader(consumer, start, self._source, message_filter)
        if name:
            self._stored_offsets.enter(name, reader)
        return reader

    def check_room(self, consumer: ConsumerPort) -> None:
        """Raise a `ChannelFault` if it has a name that is one too many to be kept."""
        arguments, where = consumer.arguments, self._where()
        name = self._name(consumer, where)
        keeps = arguments.get(PROBE_ARGUMENT) is not True or arguments.get(STORE_ARGUMENT, FORGET) != FORGET
        if name and keeps and not self._stored_offsets.has_room(name):
            text = f"{where} keeps the offsets of {NAMES_MAX} names, and has no room for '{name}'"
            raise ChannelFault(PRECONDITION_FAILED, text)

    def _where(self) -> str:
        stream = self._source.stream
        return f"queue '{stream.name}' in vhost '{stream.vhost}'"

    def _name(self, consumer: ConsumerPort, where: str) -> str:
        """Under which name its progress is kept; empty for none."""
        name = consumer.arguments.get(GROUP_ARGUMENT, consumer.arguments.get(NAME_ARGUMENT))
        if name is None:
            return ""
        if not isinstance(name, str) or not 0 < len(name.encode("utf-8", "surrogateescape")) <= NAME_BYTES_MAX:
            raise _invalid(NAME_ARGUMENT, where, f"not a string of 1 to {NAME_BYTES_MAX} octets")
        return name

    def _store(self, consumer: ConsumerPort, name: str, where: str) -> bool:
        """Write down what a probe says, if it says something; whether it does."""
        offset = consumer.arguments.get(STORE_ARGUMENT)
        if offset is None:
            return False
        if not isinstance(offset, int) or isinstance(offset, bool) or offset < FORGET:
            raise _invalid(STORE_ARGUMENT, where, "not an offset")
        if not name:
            raise _invalid(STORE_ARGUMENT, where, f"there is no {NAME_ARGUMENT}")
        if offset == FORGET:
            self._stored_offsets.forget(name)
        else:
            self._stored_offsets.store(name, offset - 1)
        return True

    def _start(self, consumer: ConsumerPort, name: str, where: str) -> StartOffset:
        arguments, now_ms = consumer.arguments, self._source.turn.now_ms
        value = arguments.get(OFFSET_ARGUMENT)
        grouped = GROUP_ARGUMENT in arguments
        if value != STORED and not grouped:
            return start_offset_of(value, where, now_ms)
        if not name:
            raise _invalid(OFFSET_ARGUMENT, where, f"there is no {NAME_ARGUMENT}")
        default = arguments.get(DEFAULT_ARGUMENT, FIRST) if value in (None, STORED) else value
        start = start_offset_of(default, where, now_ms)
        # a group is in one place, wherever its members say that it begins
        end = self._stored_offsets.end(name)
        return StartOffset(offset=end) if end >= 0 else start


def _invalid(argument: str, where: str, reason: str) -> ChannelFault:
    return ChannelFault(PRECONDITION_FAILED, f"invalid arg '{argument}' for {where}: {reason}")


IDLE_CHECK_MS: Final[i64] = 2_000


@final
class IdleReaders(TimerTarget):
    """Those of one stream."""

    def __init__(self, turn: Turn) -> None:
        self._turn: Turn = turn
        # each, and where it was
        self._watched: dict[Reader, int] = {}
        self._timer_set: bool = False

    def watch(self, reader: Reader) -> None:
        """It has something in memory that its client has no room for."""
        if reader not in self._watched:
            self._watched[reader] = int(reader.offset)
            if not self._timer_set:
                self._timer_set = True
                self._turn.set_timer(self._turn.now_ms + IDLE_CHECK_MS, self)

    def timer_fired(self) -> None:
        self._timer_set = False
        watched, self._watched = self._watched, {}
        for reader, offset in watched.items():
            idle = offset >= 0 and reader.offset == offset
            if idle and self._turn.tight and not reader.consumer.able():
                reader.close()
            elif reader.has_blocks():
                self.watch(reader)


REJOIN_MS: Final[i64] = 2_000
"""How long it may take until the members of all nodes have come to a new master."""


@final
class StreamReaders(TimerTarget):
    """The readers of one stream, by their consumers."""

    def __init__(self, source: ReaderSource, log: QueueLog) -> None:
        self.stored_offsets: StoredOffsets = StoredOffsets(log, source.turn)
        self.groups: ConsumerGroups = ConsumerGroups(max(partition_index(source.stream), 0))
        self._where: str = f"queue '{source.stream.name}' in vhost '{source.stream.vhost}'"
        self._source: ReaderSource = source
        self._log: QueueLog = log
        self._options: ReaderOptions = ReaderOptions(source, self.stored_offsets)
        # no group is served before
        self._rejoined_at_ms: i64 = 0
        # some group has nobody who is served, because another master may be serving it
        self._held_back: bool = False
        self._idle_readers: IdleReaders = IdleReaders(source.turn)
        self._readers: dict[ConsumerPort, Reader] = {}
        # members of groups that have no reader
        self._waiting: dict[ConsumerPort, None] = {}
        # members of groups that are served no more, and hold something
        self._retiring: dict[ConsumerPort, ConsumerGroup] = {}
        # readers of groups of which nothing is written down
        self._unstored: dict[Reader, str] = {}

    def mirror(self, log: QueueLog) -> None:
        """Others hold the stream, too, from here on."""
        self._log = log
        self.stored_offsets.mirror(log)

    def __len__(self) -> int:
        return len(self._readers) + len(self._waiting)

    def consumers(self) -> list[tuple[ConsumerPort, bool]]:
        """Each, and whether it is served."""
        served = [(consumer, consumer not in self._retiring) for consumer in self._readers]
        return served + [(consumer, False) for consumer in self._waiting]

    def add(self, consumer: ConsumerPort, tail: StreamTail | None) -> None:
        """A `ChannelFault` if what it wants makes no sense. The tail is not there before it is read."""
        check_group(consumer, self._where)
        self._options.check_room(consumer)
        reader = self._options.reader(consumer)
        group = None if consumer.arguments.get(PROBE_ARGUMENT) is True else self.groups.join(consumer)
        if group is not None:
            self._end(reader)
            self._waiting[consumer] = None
            self._update_group(group)
            return
        if tail is not None:
            # the end is where it is now, not where it will be when the reader's turn comes
            reader.find(tail)
        self._readers[consumer] = reader

    def begins_at(self, consumer: ConsumerPort) -> i64:
        """The offset that it gets first; -1 if that is not known."""
        reader = self._readers.get(consumer)
        return -1 if reader is None else reader.offset

    def remove(self, consumer: ConsumerPort) -> None:
        self._waiting.pop(consumer, None)
        self._retiring.pop(consumer, None)
        reader = self._readers.pop(consumer, None)
        if reader is not None:
            self._end(reader)
        group = self.groups.leave(consumer)
        if group is not None:
            self._update_group(group)

    def dismiss(self) -> list[ConsumerPort]:
        """All of them; whoever calls this tells them."""
        gone = list(self._readers) + list(self._waiting)
        for reader in self._readers.values():
            self._end(reader)
        self._readers = {}
        self._waiting = {}
        self._retiring = {}
        self.groups.clear()
        return gone

    def _end(self, reader: Reader) -> None:
        self._unstored.pop(reader, None)
        self.stored_offsets.leave(reader)
        reader.close()

    # -- groups

    def await_rejoin(self) -> None:
        """Whoever reads was with another master."""
        turn = self._source.turn
        self._rejoined_at_ms = turn.now_ms + REJOIN_MS
        turn.set_timer(self._rejoined_at_ms, self)

    def timer_fired(self) -> None:
        self._update_groups()
        self._source.stream.wake()

    def _update_groups(self) -> None:
        self._held_back = False
        for group in self.groups.all():
            self._update_group(group)

    def _may_activate(self) -> bool:
        """Whether members may become active."""
        if self._source.turn.now_ms < self._rejoined_at_ms:
            return False
        if not self._log.serves():
            self._held_back = True
            return False
        return True

    def _update_group(self, group: ConsumerGroup) -> None:
        """Let whoever is chosen take over, if the member before it holds nothing."""
        active = group.active
        if active is not None and not group.is_retiring():
            self._retiring.pop(active, None)
        elif active is not None:
            if self.stored_offsets.holds_something(self._readers[active]):
                self._retiring[active] = group
                return
            self._retiring.pop(active, None)
            self._end(self._readers.pop(active))
            self._waiting[active] = None
            group.retired()
        chosen = group.activate() if self._may_activate() else None
        if chosen is not None:
            del self._waiting[chosen]
            reader = self._options.reader(chosen)
            self.stored_offsets.disown(group.name)
            self._readers[chosen] = reader
            self._unstored[reader] = group.name

    def _store_beginnings(self, tail: StreamTail) -> None:
        unstored, self._unstored = self._unstored, {}
        for reader, name in unstored.items():
            if not reader.find(tail):
                self._unstored[reader] = name
            elif self.stored_offsets.end(name) < 0:
                self.stored_offsets.store(name, reader.offset - 1)

    # -- what they get and deal with

    def serve(self, tail: StreamTail) -> list[Reader]:
        """Everybody gets what is there for them, and they have room for; those for whom that cannot be read."""
        damaged: list[Reader] = []
        grouped = self.groups.any()
        alone = not grouped or self._log.serves()
        if alone and self._held_back:
            self._update_groups()
        if self._unstored:
            self._store_beginnings(tail)
        for consumer, reader in list(self._readers.items()):
            if grouped and (consumer in self._retiring or (not alone and self.groups.of(consumer) is not None)):
                continue
            while consumer.able() and reader.find(tail):
                before = reader.offset
                entry = reader.entry(tail)
                if entry is None:
                    self.stored_offsets.passed(reader, before)
                    break
                self.stored_offsets.delivered(reader, entry, before)
                consumer.deliver(entry)
                # else a client that acks nothing would have the node keep whatever it reads
                entry.drop_message()
            if reader.damage:
                damaged.append(reader)
            elif reader.has_blocks():
                self._idle_readers.watch(reader)
        return damaged

    def acked(self, entry: Entry) -> None:
        self.stored_offsets.released(entry, back=False)
        self._finish_retirements()

    def returned(self, entries: list[Entry]) -> None:
        """Nobody gets them again; but whoever had them has not dealt with them."""
        for entry in entries:
            self.stored_offsets.released(entry, back=True)
        self._finish_retirements()

    def _finish_retirements(self) -> None:
        if self._retiring:
            for group in list(self._retiring.values()):
                self._update_group(group)
