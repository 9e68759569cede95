"""Consumer groups at one stream: each group has one active member.

A consumer that names a group (`x-stream-group`) is a member of it, under its own member name (`x-stream-member`). The
members are sorted by name, and the one at the partition's number modulo their count is *chosen*: partition 0 is for the
first, partition 1 for the second, and so on. A stream without partitions is partition 0. Each partition's home decides
alone, from the members attached to it. As every member attaches to every partition, the members share the partitions
evenly without a protocol between the homes.

The *active* member gets messages. When another member is chosen, because a member joined or left, the active one
retires: it gets no more messages, and once it has acked everything or left, the chosen one becomes active. So two
members never work on messages of one partition at the same time, and messages of one routing key are processed in
order. ::

    joins ──► chosen ──► active ──► retiring ──► waits until it is chosen again
                           └──────────┴──► gone

A new active member begins behind the messages that the group has acked without a gap.

Invariants: `active` is a member; a group without members is dropped.

Not here: the offset of a group (`broker.streams.stored_offsets`), deliveries (`broker.streams.stream_readers`).
"""

from typing import Final, final

from warren.broker.model.ports import ConsumerPort
from warren.errors import PRECONDITION_FAILED, ChannelFault, InvariantBroken

GROUP: Final = "x-stream-group"
MEMBER: Final = "x-stream-member"


@final
class ConsumerGroup:
    """The members of one group at one partition."""

    def __init__(self, name: str, partition: int) -> None:
        self.name: str = name
        self.partition: int = partition
        # the member that gets messages, or that still has to ack some
        self.active: ConsumerPort | None = None
        # sorted by name, equal names in the order of joining
        self._members: list[ConsumerPort] = []

    def members(self) -> list[ConsumerPort]:
        return list(self._members)

    def chosen(self) -> ConsumerPort | None:
        members = self._members
        return members[self.partition % len(members)] if members else None

    def is_retiring(self) -> bool:
        """Whether the active member has to give way to another."""
        return self.active is not None and self.active is not self.chosen()

    def join(self, consumer: ConsumerPort) -> None:
        assert consumer not in self._members, "a consumer joins once"
        self._members.append(consumer)
        self._members.sort(key=member_name)

    def leave(self, consumer: ConsumerPort) -> None:
        """The member is gone, with or without unacked messages."""
        self._members.remove(consumer)
        if self.active is consumer:
            self.active = None

    def retired(self) -> None:
        """The active member has acked everything."""
        if self.is_retiring():
            self.active = None

    def activate(self) -> ConsumerPort | None:
        """The member that becomes active; None if there is an active one, or no member."""
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
        """Join the group that the consumer names; None if it names none."""
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
        """The consumer's group, if any."""
        group = self._groups.get(group_name(consumer))
        return group if group is not None and consumer in group.members() else None

    def leave(self, consumer: ConsumerPort) -> ConsumerGroup | None:
        """Leave the consumer's group, if any."""
        group = self.of(consumer)
        if group is not None:
            group.leave(consumer)
            if not group.members():
                del self._groups[group.name]
        return group

    def check(self) -> None:
        """Raise `InvariantBroken` if a group is empty, or its active consumer is no member."""
        for group in self._groups.values():
            members = group.members()
            if not members or (group.active is not None and group.active not in members):
                raise InvariantBroken(f"group '{group.name}' has {len(members)} members, and an active one elsewhere")

    def any(self) -> bool:
        return len(self._groups) > 0

    def all(self) -> list[ConsumerGroup]:
        return [self._groups[name] for name in sorted(self._groups)]

    def clear(self) -> None:
        self._groups = {}


def group_name(consumer: ConsumerPort) -> str:
    """The group that the consumer names; empty for none."""
    name = consumer.arguments.get(GROUP)
    return name if isinstance(name, str) else ""


def member_name(consumer: ConsumerPort) -> str:
    """The consumer's name in its group: its tag, unless an argument names it."""
    name = consumer.arguments.get(MEMBER)
    return name if isinstance(name, str) else consumer.tag


def check_group(consumer: ConsumerPort, where: str) -> None:
    """Raise a `ChannelFault` for invalid group arguments."""
    for argument in (GROUP, MEMBER):
        value = consumer.arguments.get(argument)
        if value is not None and (not isinstance(value, str) or not value):
            text = f"invalid arg '{argument}' for {where}: not a name"
            raise ChannelFault(PRECONDITION_FAILED, text)
