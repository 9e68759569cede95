"""Consumer groups, stream readers, and message filters.

On queues a group is a queue of its own, bound to the exchange: each group gets every message, and one listener of a
group gets it. If several processes need order, the queue has `x-single-active-consumer`: one listener gets all
messages, and the next takes over when it ends.

On streams a group is a name (Warren's `x-stream-group`): one member at a time reads each partition, in order, and the
broker stores the group's offset.

    Listener(transport, "orders", handler, accepts=tagged("food", "drink"), unwanted="ack")
    Listener(transport, "orders", handler, accepts=routed("orders.*.eu", "orders.test.#"))

A filter is any function from a message to a bool; `tagged` and `routed` make the usual ones. The broker filters a
stream itself: see `StreamReading.filter`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from warren.client.transport import BindingLayout, Incoming, Layout, QueueLayout
from warren.wire.field_tables import Table, Timestamp


def group_queue(exchange: str, group: str) -> str:
    return f"{exchange}.{group}"


def group_layout(exchange: str, group: str, routing_keys: Sequence[str] = ("",), *, ordered: bool = False) -> Layout:
    """The queue `EXCHANGE.GROUP`, bound with each key. Its listeners compete; if `ordered`, one is active."""
    name = group_queue(exchange, group)
    arguments: Table = {"x-single-active-consumer": True} if ordered else {}
    bindings = tuple(BindingLayout(exchange, name, key) for key in routing_keys)
    return Layout(queues=(QueueLayout(name, arguments=arguments),), bindings=bindings)


@dataclass(frozen=True, slots=True)
class StreamReading:
    """How a stream is read.

    `offset` is where to begin: `first`, `last`, `next`, `stored`, a number, a time, or an interval such as `5m`. With
    `name` the broker stores the offset of this reader, with `group` that of the group; a group begins at `offset` only
    if it has no stored one. Names and groups are Warren's; RabbitMQ's streams take only the offset. `filter` selects
    messages by their `x-stream-filter-value`.
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
            raise ValueError("a member names its group")
        if self.match_unfiltered and not self.filter:
            raise ValueError("without a filter nothing is left out, and match_unfiltered has no meaning")

    @property
    def arguments(self) -> Table:
        """The arguments of basic.consume."""
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
    """Accept messages whose header has one of these values, or a list with one of them."""
    wanted = frozenset(tags)

    def accepts(message: Incoming) -> bool:
        found = message.headers.get(header)
        given = found if isinstance(found, list) else [found]
        return any(isinstance(tag, str) and tag in wanted for tag in given)

    return accepts


def routed(*patterns: str) -> Filter:
    """Accept messages whose routing key matches one of the topic patterns: `*` is a word, `#` any number of them."""
    wanted = [pattern.split(".") for pattern in patterns]

    def accepts(message: Incoming) -> bool:
        words = message.routing_key.split(".")
        return any(topic_fits(pattern, words) for pattern in wanted)

    return accepts


def topic_fits(pattern: list[str], words: list[str]) -> bool:
    """Match in one pass over the words, with the set of pattern positions reached so far."""
    reached = _beyond_hashes(pattern, {0})
    for word in words:
        stepped = {at for at in reached if at < len(pattern) and pattern[at] == "#"}
        stepped |= {at + 1 for at in reached if at < len(pattern) and pattern[at] in ("*", word) and pattern[at] != "#"}
        reached = _beyond_hashes(pattern, stepped)
    return len(pattern) in reached


def _beyond_hashes(pattern: list[str], reached: set[int]) -> set[int]:
    """A `#` may match nothing."""
    beyond = set(reached)
    for at in range(len(pattern)):
        if at in beyond and pattern[at] == "#":
            beyond.add(at + 1)
    return beyond
