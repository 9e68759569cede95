"""Which messages a listener wants: by a tag in a header, or by how they were routed.

    Listener(transport, "orders", handler, accepts=tagged("food", "drink"), unwanted="ack")
    Listener(transport, "orders", handler, accepts=routed("orders.*.eu", "orders.test.#"))

A filter is any function from a message to whether it is wanted; these make the usual ones. Of a stream the broker
itself leaves out what is not wanted: see `StreamReading.filter`.
"""

from collections.abc import Callable

from warren.client.transport import Incoming

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
        return any(fits(pattern, words) for pattern in wanted)

    return accepts


def fits(pattern: list[str], words: list[str]) -> bool:
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
