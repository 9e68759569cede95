"""The consumers of a queue, and whose turn it is.

Among those able to take, the highest `x-priority` goes first; within a priority they take turns. With a single
active consumer only the eldest takes anything, whatever the priorities, and the next eldest follows it when it
goes.

`sole` is the short road: set whenever one consumer alone may be given messages, so that a drain need not choose.

Invariants: `members` is in the order they came; an exclusive member is alone; every level is non-empty and levels
go from the highest priority down.

Not here: what is handed out (`queue.queue`), whether one is able (`model.ports.Consumer`).
"""

from typing import final

from mypy_extensions import i64

from warren.errors import InvariantBroken
from warren.model.ports import Consumer


@final
class PriorityLevel:
    """The consumers of one priority, taking turns."""

    def __init__(self, priority: i64) -> None:
        self.priority: i64 = priority
        self.members: list[Consumer] = []
        self._next: i64 = 0

    def pick(self) -> Consumer | None:
        """The first able one, beginning with whoever waited longest."""
        members = self.members
        size: i64 = len(members)
        index = self._next
        tried: i64 = 0
        while tried < size:
            if index >= size:
                index = 0
            consumer = members[index]
            index += 1
            if consumer.able():
                self._next = index
                return consumer
            tried += 1
        return None

    def add(self, consumer: Consumer) -> None:
        """A newcomer is last in the round, right behind whoever was served last."""
        self.members.insert(self._next, consumer)
        self._next += 1

    def remove(self, consumer: Consumer) -> None:
        index: i64 = self.members.index(consumer)
        del self.members[index]
        if index < self._next:
            self._next -= 1


@final
class Consumers:
    """Everyone subscribed to one queue."""

    def __init__(self, single_active: bool) -> None:
        self.members: list[Consumer] = []
        self.sole: Consumer | None = None
        self._single_active: bool = single_active
        # made when a second consumer comes
        self._levels: list[PriorityLevel] | None = None

    def accepts(self, exclusive: bool) -> bool:
        """Whether one more may come."""
        if exclusive:
            return not self.members and not self._single_active
        return not self.held_exclusively()

    def held_exclusively(self) -> bool:
        return len(self.members) == 1 and self.members[0].exclusive

    def add(self, consumer: Consumer) -> None:
        self.members.append(consumer)
        self._settle(consumer, True)

    def remove(self, consumer: Consumer) -> bool:
        """Whether it was there."""
        if consumer not in self.members:
            return False
        self.members.remove(consumer)
        self._settle(consumer, False)
        return True

    def clear(self) -> list[Consumer]:
        """Everyone goes; who it was."""
        gone = self.members
        self.members = []
        self.sole = None
        self._levels = None
        return gone

    def pick(self) -> Consumer | None:
        """Who takes the next message."""
        if self.sole is not None:
            return self.sole if self.sole.able() else None
        if self._levels is not None:
            for level in self._levels:
                consumer = level.pick()
                if consumer is not None:
                    return consumer
        return None

    def any_able(self) -> bool:
        """Whether anybody could take a message; changes nobody's turn."""
        if self.sole is not None:
            return self.sole.able()
        return any(member.able() for member in self.members)

    def is_active(self, consumer: Consumer) -> bool:
        """Whether messages may go to it: everyone, unless only one may be active."""
        return not self._single_active or consumer is self.sole

    def check(self) -> None:
        if self.sole is not None and self.sole is not self.members[0]:
            raise InvariantBroken("the sole consumer is not the eldest")
        if self.sole is None and len(self.members) == 1:
            raise InvariantBroken("a consumer that is alone is not the sole one")
        if len(self.members) > 1 and any(member.exclusive for member in self.members):
            raise InvariantBroken("an exclusive consumer is not alone")
        if self._levels is not None and sum([len(level.members) for level in self._levels]) != len(self.members):
            raise InvariantBroken("the levels of consumers do not add up")

    def _settle(self, consumer: Consumer, came: bool) -> None:
        if self._single_active or len(self.members) <= 1:
            self.sole = self.members[0] if self.members else None
            self._levels = None
            return
        self.sole = None
        if self._levels is None:
            self._levels = []
            for member in self.members:
                self._join(self._levels, member)
        elif came:
            self._join(self._levels, consumer)
        else:
            self._part(self._levels, consumer)

    def _join(self, levels: list[PriorityLevel], consumer: Consumer) -> None:
        place = 0
        while place < len(levels) and levels[place].priority > consumer.priority:
            place += 1
        if place == len(levels) or levels[place].priority != consumer.priority:
            levels.insert(place, PriorityLevel(consumer.priority))
        levels[place].add(consumer)

    def _part(self, levels: list[PriorityLevel], consumer: Consumer) -> None:
        for level in levels:
            if level.priority == consumer.priority:
                level.remove(consumer)
                if not level.members:
                    levels.remove(level)
                return
