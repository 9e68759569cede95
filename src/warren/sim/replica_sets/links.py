"""Links between model nodes, and the messages on them: ordered both ways until the link is lost; each end notices the
loss by itself.

A cut direction delivers nothing, and a link is not made across one. Messages sent before a link broke may arrive until
the other end has noticed; later ones do not.

Not here: when links are made and lost (`sim.replica_sets.world`), the messages as bytes
(`broker.replication.messages`).
"""

from typing import Any, NamedTuple

JOIN = "join"
FLUSHED = "flushed"
HAS = "has"
CAUGHT_UP = "caught up"
RESUME = "resume"
START = "start"
BATCH = "batch"
COMMIT = "commit"
BACKFILL = "backfill"
SURPLUS = "surplus"
BACKFILL_OVER = "backfill over"
ATTACH = "attach"
PUBLISH = "publish"
HELD = "held"
CONFIRMED = "confirmed"

TO_MASTER = (JOIN, FLUSHED, HAS, CAUGHT_UP, ATTACH, PUBLISH)
TO_PROXY = (HELD, CONFIRMED)


class ModelMessage(NamedTuple):
    """One message: its epoch, its attempt to follow or to attach, and its content."""

    kind: str
    epoch: int
    attempt: int
    number: int = 0
    other: int = 0
    what: Any = None


class ModelLink:
    """One link, from its making until both ends have noticed its loss."""

    def __init__(self, one: str, other: str) -> None:
        self.waiting: dict[str, list[ModelMessage]] = {one: [], other: []}
        self.broken = False
        self.noticed: set[str] = set()

    def send(self, to: str, message: ModelMessage) -> None:
        if not self.broken:
            self.waiting[to].append(message)


class ModelLinks:
    """All links. Each node has one to itself, which ends with the node."""

    def __init__(self) -> None:
        self.cut: set[tuple[str, str]] = set()
        self._links: dict[tuple[str, str], ModelLink] = {}

    def between(self, one: str, other: str) -> ModelLink | None:
        return self._links.get((min(one, other), max(one, other)))

    def all(self) -> list[tuple[str, str, ModelLink]]:
        return [(one, other, link) for (one, other), link in self._links.items()]

    def connect(self, one: str, other: str) -> None:
        pair = min(one, other), max(one, other)
        self._links[pair] = ModelLink(*pair)

    def is_cut(self, one: str, other: str) -> bool:
        """In either direction."""
        return (one, other) in self.cut or (other, one) in self.cut

    def notice(self, one: str, other: str) -> None:
        """The second node knows that the link is lost."""
        pair = min(one, other), max(one, other)
        link = self._links[pair]
        link.noticed.add(other)
        link.waiting[other] = []
        if len(link.noticed) == len(link.waiting):
            del self._links[pair]

    def end(self, name: str) -> None:
        """A node is gone."""
        for one, other, link in self.all():
            if name in (one, other):
                link.broken = True
                self.notice(other if name == one else one, name)

    def snapshot(self) -> object:
        """The state, for comparison."""
        return (
            tuple(sorted(self.cut)),
            tuple(
                (pair, link.broken, tuple(sorted(link.noticed)), tuple(map(tuple, link.waiting.values())))
                for pair, link in sorted(self._links.items())
            ),
        )
