"""The readers of one stream: made from consumer arguments, served in turn, and grouped.

| argument | |
|---|---|
| `x-stream-offset` | `first`, `last`, `next` (the default), an offset, a time, an interval like `5m`, or `stored` |
| `x-stream-offset-default` | the same, for `stored` when nothing is stored; `first` by default |
| `x-stream-consumer-name` | store the reader's offset under this name |
| `x-stream-group` | join this group, which has a stored offset; `x-stream-offset` counts while nothing is stored |
| `x-stream-filter`, `x-stream-match-unfiltered` | deliver only some messages (`StreamFilter`) |
| `x-stream-chunks`, `x-stream-bodies` | deliver chunks instead of messages |
| `x-stream-probe` | one answer instead of messages |
| `x-stream-store` | of a probe with a name: store that all messages before this offset are processed; -1: forget it |

Readers are served in the order in which they came. Each is limited by the room of its own connection.

Only the active member of a group has a reader; the others wait. A retiring member keeps its reader until it has acked
everything, and gets no more messages. The start offset of a group is stored before the first read, so that its next
member begins there, too.

After a promotion the new master serves no group until the members have had time to reattach. Otherwise the first
member to come would be served while another still holds messages from the old master. And a master serves a group only
while no other master can be serving it, as queues do (`QueueLog.serves`). Readers outside groups are served by any
master, because committed messages do not change.

A reader whose client has no room for a whole check interval is idle; when memory is low, its blocks are released and
read again later. A slow reader keeps them, because it would read its chunk again for every message.

Invariants: `check`.

Not here: checks of every consumer (`broker.sessions.consumers`), when readers are served (`broker.streams.stream`),
which member is active (`broker.streams.groups`).
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
from warren.errors import PRECONDITION_FAILED, ChannelFault, InvariantBroken

GROUP_ARGUMENT: Final = "x-stream-group"
NAME_ARGUMENT: Final = "x-stream-consumer-name"
DEFAULT_ARGUMENT: Final = "x-stream-offset-default"
STORE_ARGUMENT: Final = "x-stream-store"
STORED: Final = "stored"
NAME_BYTES_MAX: Final = 255
FORGET: Final = -1
"""Instead of an offset: forget the name."""


@final
class ReaderOptions:
    """Makes the readers of one stream."""

    def __init__(self, source: ReaderSource, stored_offsets: StoredOffsets) -> None:
        self._source: ReaderSource = source
        self._stored_offsets: StoredOffsets = stored_offsets
        self._built: BuiltChunk = BuiltChunk()

    def reader(self, consumer: ConsumerPort) -> Reader:
        """The reader that the consumer's arguments ask for; a `ChannelFault` if they are invalid."""
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
        """Raise a `ChannelFault` if the consumer has a name and there is no room for another one."""
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
        """The name that its offset is stored under; empty for none."""
        name = consumer.arguments.get(GROUP_ARGUMENT, consumer.arguments.get(NAME_ARGUMENT))
        if name is None:
            return ""
        if not isinstance(name, str) or not 0 < len(name.encode("utf-8", "surrogateescape")) <= NAME_BYTES_MAX:
            raise _invalid(NAME_ARGUMENT, where, f"not a string of 1 to {NAME_BYTES_MAX} octets")
        return name

    def _store(self, consumer: ConsumerPort, name: str, where: str) -> bool:
        """Store the offset that a probe gives; whether it gives one."""
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
        # the stored offset of a group wins over the start that its members ask for
        end = self._stored_offsets.end(name)
        return StartOffset(offset=end) if end >= 0 else start


def _invalid(argument: str, where: str, reason: str) -> ChannelFault:
    return ChannelFault(PRECONDITION_FAILED, f"invalid arg '{argument}' for {where}: {reason}")


IDLE_CHECK_MS: Final[i64] = 2_000


@final
class IdleReaders(TimerTarget):
    """Watches the readers of one stream that have blocks in memory."""

    def __init__(self, turn: Turn) -> None:
        self._turn: Turn = turn
        # each, and its offset at the last check
        self._watched: dict[Reader, int] = {}
        self._timer_set: bool = False

    def watch(self, reader: Reader) -> None:
        """The reader has blocks in memory."""
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
            if idle and self._turn.memory_low and not reader.consumer.able():
                reader.close()
            elif reader.has_blocks():
                self.watch(reader)

    def check(self) -> None:
        """Raise `InvariantBroken` if readers are watched and no timer is set."""
        if self._watched and not self._timer_set:
            raise InvariantBroken(f"{len(self._watched)} readers are watched, and no timer is set")


REJOIN_MS: Final[i64] = 2_000
"""The time that members on all nodes have to reattach to a new master."""


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
        # no group is served before this time
        self._rejoined_at_ms: i64 = 0
        # a group has no active member, because another master may be serving it
        self._held_back: bool = False
        self._idle_readers: IdleReaders = IdleReaders(source.turn)
        self._readers: dict[ConsumerPort, Reader] = {}
        # group members without a reader
        self._waiting: dict[ConsumerPort, None] = {}
        # group members that give way and have not acked everything
        self._retiring: dict[ConsumerPort, ConsumerGroup] = {}
        # readers of groups without a stored offset
        self._unstored: dict[Reader, str] = {}

    def mirror(self, log: QueueLog) -> None:
        """The stream is mirrored from here on."""
        self._log = log
        self.stored_offsets.mirror(log)

    def __len__(self) -> int:
        return len(self._readers) + len(self._waiting)

    def consumers(self) -> list[tuple[ConsumerPort, bool]]:
        """Each consumer, and whether it is active."""
        served = [(consumer, consumer not in self._retiring) for consumer in self._readers]
        return served + [(consumer, False) for consumer in self._waiting]

    def add(self, consumer: ConsumerPort, tail: StreamTail | None) -> None:
        """Raises a `ChannelFault` for invalid arguments. The tail is None until it is read from the journal."""
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
            # `next` is the end of the stream now, not when the reader is served first
            reader.find(tail)
        self._readers[consumer] = reader

    def begins_at(self, consumer: ConsumerPort) -> i64:
        """The first offset that the consumer gets; -1 if it is unknown."""
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

    def remove_all_consumers(self) -> list[ConsumerPort]:
        """Remove all consumers. The caller informs them."""
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
        """This node became the master: readers come from the old one."""
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
        """Whether group members may become active."""
        if self._source.turn.now_ms < self._rejoined_at_ms:
            return False
        if not self._log.serves():
            self._held_back = True
            return False
        return True

    def _update_group(self, group: ConsumerGroup) -> None:
        """Activate the chosen member once the previous one has acked everything."""
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

    # -- deliveries and acks

    def serve(self, tail: StreamTail) -> list[Reader]:
        """Deliver to every reader as much as it has room for; the readers that met damage."""
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
                # otherwise a client that acks nothing would keep all its messages in memory
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
        """Entries are not delivered again, but the stored offset does not pass them."""
        for entry in entries:
            self.stored_offsets.released(entry, back=True)
        self._finish_retirements()

    def _finish_retirements(self) -> None:
        if self._retiring:
            for group in list(self._retiring.values()):
                self._update_group(group)

    def check(self) -> None:
        """Raise `InvariantBroken` if a consumer is served and waits, or retires without a reader."""
        self.groups.check()
        self.stored_offsets.check()
        self._idle_readers.check()
        for consumer, reader in self._readers.items():
            reader.check()
            if consumer in self._waiting:
                raise InvariantBroken(f"consumer '{consumer.tag}' has a reader and waits")
        for consumer in self._retiring:
            if consumer not in self._readers:
                raise InvariantBroken(f"consumer '{consumer.tag}' retires without a reader")
