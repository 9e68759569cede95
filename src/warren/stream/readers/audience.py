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

Not here: what kind of reader a consumer is (`opening`), when they are served (`stream.stream`), who is active
(`stream.groups`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.model.message import Entry
from warren.model.partitions import partition_index
from warren.model.ports import Consumer, QueueLog
from warren.model.turn import Timed
from warren.stream.groups import Group, Groups, check_group
from warren.stream.readers.bookmarks import Bookmarks
from warren.stream.readers.idling import Idling
from warren.stream.readers.opening import Opening
from warren.stream.readers.probe import PROBE_ARGUMENT
from warren.stream.readers.reader import Reader, Source
from warren.stream.tail import Tail

REUNION_MS: Final[i64] = 2_000
"""How long it may take until the members of all nodes have come to a new master."""


@final
class Audience(Timed):
    """The readers of one stream, by their consumers."""

    def __init__(self, source: Source, log: QueueLog) -> None:
        self.bookmarks: Bookmarks = Bookmarks(log, source.turn)
        self.groups: Groups = Groups(max(partition_index(source.stream), 0))
        self._where: str = f"queue '{source.stream.name}' in vhost '{source.stream.vhost}'"
        self._source: Source = source
        self._log: QueueLog = log
        self._opening: Opening = Opening(source, self.bookmarks)
        # no group is served before
        self._reunited_at_ms: i64 = 0
        # some group has nobody who is served, because another master may be serving it
        self._held_back: bool = False
        self._idling: Idling = Idling(source.turn)
        self._readers: dict[Consumer, Reader] = {}
        # members of groups that have no reader
        self._waiting: dict[Consumer, None] = {}
        # members of groups that are served no more, and hold something
        self._retiring: dict[Consumer, Group] = {}
        # readers of groups of which nothing is written down
        self._unmarked: dict[Reader, str] = {}

    def mirror(self, log: QueueLog) -> None:
        """Others hold the stream, too, from here on."""
        self._log = log
        self.bookmarks.mirror(log)

    def __len__(self) -> int:
        return len(self._readers) + len(self._waiting)

    def consumers(self) -> list[tuple[Consumer, bool]]:
        """Each, and whether it is served."""
        served = [(consumer, consumer not in self._retiring) for consumer in self._readers]
        return served + [(consumer, False) for consumer in self._waiting]

    def add(self, consumer: Consumer, tail: Tail | None) -> None:
        """A `ChannelFault` if what it wants makes no sense. The tail is not there before it is read."""
        check_group(consumer, self._where)
        self._opening.check_room(consumer)
        reader = self._opening.reader(consumer)
        group = None if consumer.arguments.get(PROBE_ARGUMENT) is True else self.groups.join(consumer)
        if group is not None:
            self._end(reader)
            self._waiting[consumer] = None
            self._look_at(group)
            return
        if tail is not None:
            # the end is where it is now, not where it will be when the reader's turn comes
            reader.find(tail)
        self._readers[consumer] = reader

    def begins_at(self, consumer: Consumer) -> i64:
        """The offset that it gets first; -1 if that is not known."""
        reader = self._readers.get(consumer)
        return -1 if reader is None else reader.offset

    def remove(self, consumer: Consumer) -> None:
        self._waiting.pop(consumer, None)
        self._retiring.pop(consumer, None)
        reader = self._readers.pop(consumer, None)
        if reader is not None:
            self._end(reader)
        group = self.groups.leave(consumer)
        if group is not None:
            self._look_at(group)

    def dismiss(self) -> list[Consumer]:
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
        self._unmarked.pop(reader, None)
        self.bookmarks.leave(reader)
        reader.close()

    # -- groups

    def await_reunion(self) -> None:
        """Whoever reads was with another master."""
        turn = self._source.turn
        self._reunited_at_ms = turn.now_ms + REUNION_MS
        turn.set_timer(self._reunited_at_ms, self)

    def timer_fired(self) -> None:
        self._look_at_all()
        self._source.stream.wake()

    def _look_at_all(self) -> None:
        self._held_back = False
        for group in self.groups.all():
            self._look_at(group)

    def _may_begin(self) -> bool:
        """Whether members may become active."""
        if self._source.turn.now_ms < self._reunited_at_ms:
            return False
        if not self._log.serves():
            self._held_back = True
            return False
        return True

    def _look_at(self, group: Group) -> None:
        """Let whoever is chosen take over, if the member before it holds nothing."""
        active = group.active
        if active is not None and not group.is_retiring():
            self._retiring.pop(active, None)
        elif active is not None:
            if self.bookmarks.holds_something(self._readers[active]):
                self._retiring[active] = group
                return
            self._retiring.pop(active, None)
            self._end(self._readers.pop(active))
            self._waiting[active] = None
            group.retired()
        chosen = group.activate() if self._may_begin() else None
        if chosen is not None:
            del self._waiting[chosen]
            reader = self._opening.reader(chosen)
            self.bookmarks.disown(group.name)
            self._readers[chosen] = reader
            self._unmarked[reader] = group.name

    def _mark_beginnings(self, tail: Tail) -> None:
        unmarked, self._unmarked = self._unmarked, {}
        for reader, name in unmarked.items():
            if not reader.find(tail):
                self._unmarked[reader] = name
            elif self.bookmarks.end(name) < 0:
                self.bookmarks.store(name, reader.offset - 1)

    # -- what they get and deal with

    def serve(self, tail: Tail) -> list[Reader]:
        """Everybody gets what is there for them, and they have room for; those for whom that cannot be read."""
        damaged: list[Reader] = []
        grouped = self.groups.any()
        alone = not grouped or self._log.serves()
        if alone and self._held_back:
            self._look_at_all()
        if self._unmarked:
            self._mark_beginnings(tail)
        for consumer, reader in list(self._readers.items()):
            if grouped and (consumer in self._retiring or (not alone and self.groups.of(consumer) is not None)):
                continue
            while consumer.able() and reader.find(tail):
                before = reader.offset
                entry = reader.entry(tail)
                if entry is None:
                    self.bookmarks.passed(reader, before)
                    break
                self.bookmarks.delivered(reader, entry, before)
                consumer.deliver(entry)
                # else a client that acks nothing would have the node keep whatever it reads
                entry.drop_message()
            if reader.damage:
                damaged.append(reader)
            elif reader.has_blocks():
                self._idling.stands(reader)
        return damaged

    def acked(self, entry: Entry) -> None:
        self.bookmarks.settled(entry, back=False)
        self._go_on_without_retired()

    def returned(self, entries: list[Entry]) -> None:
        """Nobody gets them again; but whoever had them has not dealt with them."""
        for entry in entries:
            self.bookmarks.settled(entry, back=True)
        self._go_on_without_retired()

    def _go_on_without_retired(self) -> None:
        if self._retiring:
            for group in list(self._retiring.values()):
                self._look_at(group)
