"""Links between pretend nodes: ordered both ways, until they are lost; each end notices that in its own time.

A cut direction delivers nothing, and a link is not made across one. What was sent before a link broke may arrive until
the other end has noticed; what is sent afterwards does not.

Not here: when links are made and lost (`sim.rings.world`).
"""

from warren.sim.rings.letters import Letter


class Link:
    """One link, from when it was made to when both ends have noticed that it is lost."""

    def __init__(self, one: str, other: str) -> None:
        self.waiting: dict[str, list[Letter]] = {one: [], other: []}
        self.broken = False
        self.noticed: set[str] = set()

    def send(self, to: str, letter: Letter) -> None:
        if not self.broken:
            self.waiting[to].append(letter)


class Links:
    """All of them. Each node has one to itself, which ends with the node."""

    def __init__(self) -> None:
        self.cut: set[tuple[str, str]] = set()
        self._links: dict[tuple[str, str], Link] = {}

    def between(self, one: str, other: str) -> Link | None:
        return self._links.get((min(one, other), max(one, other)))

    def all(self) -> list[tuple[str, str, Link]]:
        return [(one, other, link) for (one, other), link in self._links.items()]

    def connect(self, one: str, other: str) -> None:
        pair = min(one, other), max(one, other)
        self._links[pair] = Link(*pair)

    def is_cut(self, one: str, other: str) -> bool:
        """In either direction."""
        return (one, other) in self.cut or (other, one) in self.cut

    def notice(self, one: str, other: str) -> None:
        """The second one knows that the link is lost."""
        pair = min(one, other), max(one, other)
        link = self._links[pair]
        link.noticed.add(other)
        link.waiting[other] = []
        if len(link.noticed) == len(link.waiting):
            del self._links[pair]

    def end(self, name: str) -> None:
        """A node is no more."""
        for one, other, link in self.all():
            if name in (one, other):
                link.broken = True
                self.notice(other if name == one else one, name)

    def picture(self) -> object:
        """All of it, to be compared."""
        return (
            tuple(sorted(self.cut)),
            tuple(
                (pair, link.broken, tuple(sorted(link.noticed)), tuple(map(tuple, link.waiting.values())))
                for pair, link in sorted(self._links.items())
            ),
        )
