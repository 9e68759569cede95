"""Consumers that share the work: the queue of a group, and readers of streams.

On queues a group is a queue of its own, bound to the exchange: each group gets every message, and of a group one
listener does. Where order matters to more than one process the queue has `x-single-active-consumer`, so that one
listener has them all and the next one takes over when it goes.

On streams a group is a name (Warren's `x-stream-group`): each partition is read by one member at a time, in order, and
the broker keeps how far the group has come.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from warren.client.transport import BindingLayout, Layout, QueueLayout
from warren.wire.field_tables import Timestamp
from warren.wire.values import Table


def group_queue(exchange: str, group: str) -> str:
    return f"{exchange}.{group}"


def group_layout(exchange: str, group: str, routing_keys: Sequence[str] = ("",), *, ordered: bool = False) -> Layout:
    """The queue `EXCHANGE.GROUP`, bound with each key; its listeners compete, or if `ordered` stand by."""
    name = group_queue(exchange, group)
    arguments: Table = {"x-single-active-consumer": True} if ordered else {}
    bindings = tuple(BindingLayout(exchange, name, key) for key in routing_keys)
    return Layout(queues=(QueueLayout(name, arguments=arguments),), bindings=bindings)


@dataclass(frozen=True, slots=True)
class StreamReading:
    """How a stream is read.

    `offset` is where to begin: `first`, `last`, `next`, `stored`, a number, a time, or an interval such as `5m`. With
    `name` the broker keeps how far this reader has come, with `group` how far the group has; a group begins at
    `offset` only while there is nothing to go on from. Names and groups are Warren's; of RabbitMQ's streams only the
    offset is asked for. `filter` leaves in what has one of these values in `x-stream-filter-value`.
    """

    offset: str | int | Timestamp = "next"
    name: str = ""
    group: str = ""
    member: str = ""
    filter: tuple[str, ...] = ()
    match_unfiltered: bool = False

    def __post_init__(self) -> None:
        if self.name and self.group:
            raise ValueError("a stream is read under a name of one's own or as a group, not both")
        if self.member and not self.group:
            raise ValueError("who is a member names the group")
        if self.match_unfiltered and not self.filter:
            raise ValueError("without a filter nothing is left out, and match_unfiltered has no meaning")

    @property
    def arguments(self) -> Table:
        """As the broker is told when the subscription begins."""
        table: Table = {"x-stream-offset": self.offset}
        named = {"consumer-name": self.name, "group": self.group, "member": self.member}
        table.update({f"x-stream-{key}": value for key, value in named.items() if value})
        if self.filter:
            table["x-stream-filter"] = list(self.filter)
        if self.match_unfiltered:
            table["x-stream-match-unfiltered"] = True
        return table
