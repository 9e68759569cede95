"""Consumers that share the work: the queue of a group, and readers of streams.

On queues a group is a queue of its own, bound to the exchange: each group gets every message, and of a group one
listener does. Where order matters to more than one process the queue has `x-single-active-consumer`, so that one
listener has them all and the next one takes over when it goes.

On streams a group is a name (Warren's `x-stream-group`): each partition is read by one member at a time, in order, and
the broker keeps how far the group has come.

Which messages a listener wants: by a tag in a header, or by how they were routed.

    Listener(transport, "orders", handler, accepts=tagged("food", "drink"), unwanted="ack")
    Listener(transport, "orders", handler, accepts=routed("orders.*.eu", "orders.test.#"))

A filter is any function from a message to whether it is wanted; these make the usual ones. Of a stream the broker
itself leaves out what is not wanted: see `StreamReading.filter`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from warren.client.transport import BindingLayout, Incoming, Layout, QueueLayout
from warren.wire.field_tables import Table, Timestamp


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


Filter = Callable[[Incoming], bool]

TAG = "x-tag"


def tagged(*tags: str, header: str = TAG) -> Filter:
    """Those whose header has one of these values; a header with a list of tags is asked for each of them."""
    wanted = frozenset(tags)

    def accepts(message: Incoming) -> bool:
        found = message.headers.get(header)
        given = found if isinstance(found, list) else [found]
        return any(isinstance(tag, str) and tag in wanted for tag in given)

    return accepts


def routed(*patterns: str) -> Filter:
    """Those whose routing key fits one of the patterns of a topic exchange: `*` is a word, `#` any number of them."""
    wanted = [pattern.split(".") for pattern in patterns]

    def accepts(message: Incoming) -> bool:
        words = message.routing_key.split(".")
        return any(topic_fits(pattern, words) for pattern in wanted)

    return accepts


def topic_fits(pattern: list[str], words: list[str]) -> bool:
    """Walks the words once, with every place of the pattern that may have been reached so far."""
    reached = _beyond_hashes(pattern, {0})
    for word in words:
        stepped = {at for at in reached if at < len(pattern) and pattern[at] == "#"}
        stepped |= {at + 1 for at in reached if at < len(pattern) and pattern[at] in ("*", word) and pattern[at] != "#"}
        reached = _beyond_hashes(pattern, stepped)
    return len(pattern) in reached


def _beyond_hashes(pattern: list[str], reached: set[int]) -> set[int]:
    """A `#` may stand for nothing."""
    beyond = set(reached)
    for at in range(len(pattern)):
        if at in beyond and pattern[at] == "#":
            beyond.add(at + 1)
    return beyond
