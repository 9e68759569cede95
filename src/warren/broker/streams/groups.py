"""Consumer groups at one stream: of each group one member is served, and everybody knows who.

A consumer that names a group (`x-stream-group`) is a member of it, under a name of its own (`x-stream-member`). Of the
members, in the order of their names, the one at the partition's number modulo their count is *chosen*: partition 0 is
for the first, partition 1 for the second, and so on, round and round. A stream without partitions is partition 0. Each
partition's home decides by itself, from nothing but the members it has, and as these attach themselves to every
partition, they come to share them evenly without anybody's having to agree to anything.

The *active* member is the one that is served. When another is chosen, because somebody came or went, it retires: it
gets nothing more, and as soon as it has acked what it holds, or is gone, the chosen one is active. So two members never
work on messages of one partition at the same time, and those of one routing key are dealt with in their order. ::

    joins ──► chosen ──► active ──► retiring ──► waits, until it is chosen again
                           └──────────┴──► gone

Who becomes active begins behind what the group has acked without a gap.

Invariants: `active` is a member; without members a group is forgotten.

Not here: where a group is (`broker.streams.stored_offsets`), what a member is given (`stream.readers`).
"""

from typing import Final, final

from warren.broker.model.ports import ConsumerPort
from warren.errors import PRECONDITION_FAILED, ChannelFault

GROUP: Final = "x-stream-group"
MEMBER: Final = "x-stream-member"


@final
class ConsumerGroup:
    """The members of one group at one partition."""

    def __init__(self, name: str, partition: int) -> None:
        self.name: str = name
        self.partition: int = partition
        # who is served, or has been and still holds something
        self.active: ConsumerPort | None = None
        # by name; among equal names in the order in which they came
        self._members: list[ConsumerPort] = []

    def members(self) -> list[ConsumerPort]:
        return list(self._members)

    def chosen(self) -> ConsumerPort | None:
        members = self._members
        return members[self.partition % len(members)] if members else None

    def is_retiring(self) -> bool:
        """Whether the active member is to give way to another."""
        return self.active is not None and self.active is not self.chosen()

    def join(self, consumer: ConsumerPort) -> None:
        self._members.append(consumer)
        self._members.sort(key=member_name)

    def leave(self, consumer: ConsumerPort) -> None:
        """It is gone, whatever it holds."""
        self._members.remove(consumer)
        if self.active is consumer:
            self.active = None

    def retired(self) -> None:
        """The active member holds nothing any more."""
        if self.is_retiring():
            self.active = None

    def activate(self) -> ConsumerPort | None:
        """Who becomes active now; nobody if somebody is, or there is nobody."""
        if self.active is not None:
            return None
        self.active = self.chosen()
        return self.active


@final
class ConsumerGroups:
    """All groups at one stream."""

    def __init__(self, partition: int) -> None:
        self._partition: int = partition
        self._groups: dict[str, ConsumerGroup] = {}

    def join(self, consumer: ConsumerPort) -> ConsumerGroup | None:
        """The group that the consumer is a member of from here on; none if it names none."""
        name = group_name(consumer)
        if not name:
            return None
        group = self._groups.get(name)
        if group is None:
            group = ConsumerGroup(name, self._partition)
            self._groups[name] = group
        group.join(consumer)
        return group

    def of(self, consumer: ConsumerPort) -> ConsumerGroup | None:
        """The group that the consumer is a member of, if any."""
        group = self._groups.get(group_name(consumer))
        return group if group is not None and consumer in group.members() else None

    def leave(self, consumer: ConsumerPort) -> ConsumerGroup | None:
        """The group that it was a member of."""
        group = self.of(consumer)
        if group is not None:
            group.leave(consumer)
            if not group.members():
                del self._groups[group.name]
        return group

    def any(self) -> bool:
        return len(self._groups) > 0

    def all(self) -> list[ConsumerGroup]:
        return [self._groups[name] for name in sorted(self._groups)]

    def clear(self) -> None:
        self._groups = {}


def group_name(consumer: ConsumerPort) -> str:
    """The group it names; empty for none."""
    name = consumer.arguments.get(GROUP)
    return name if isinstance(name, str) else ""


def member_name(consumer: ConsumerPort) -> str:
    """What it is called in its group: its tag, unless it says otherwise."""
    name = consumer.arguments.get(MEMBER)
    return name if isinstance(name, str) else consumer.tag


def check_group(consumer: ConsumerPort, where: str) -> None:
    """Raise a `ChannelFault` if what it says about a group makes no sense."""
    for argument in (GROUP, MEMBER):
        value = consumer.arguments.get(argument)
        if value is not None and (not isinstance(value, str) or not value):
            text = f"invalid arg '{argument}' for {where}: not a name"
            raise ChannelFault(PRECONDITION_FAILED, text)
