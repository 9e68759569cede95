"""The pretend store in which the ring is agreed upon, by compare-and-swap on its version.

A proposal travels, is applied, and is answered, each some time later; its answer may get lost, or it may itself, and
whoever proposed may give up waiting long before it is applied. Every node hears of each version, and of who lives, in
order and late. While there is no majority, nothing is applied; a node that is cut off hears and says nothing.

Not here: what nodes make of it (`sim.rings.member`).
"""

from dataclasses import dataclass
from typing import NamedTuple

from warren.model.rings import Ring, Run
from warren.sim.rings.wishes import Wanted


@dataclass
class Request:
    """A proposal under way."""

    run: Run
    version: int
    ring: Ring
    # None: not applied
    succeeded: bool | None = None
    # whoever proposed does not wait any more
    given_up: bool = False


class News(NamedTuple):
    """Something to tell a node: another version of the ring, what is wanted of it, or who lives (a run 0 does not)."""

    version: int = 0
    ring: Ring | None = None
    run: Run = ("", 0)
    wanted: Wanted | None = None
    # not what came next, but how things are by now
    anew: bool = False


class Agreed:
    """The store."""

    def __init__(self, ring: Ring) -> None:
        self.ring = ring
        self.version = 1
        self.wanted = Wanted()
        self.living: dict[str, int] = {}
        self.requests: list[Request] = []
        self.news: dict[str, list[News]] = {}
        self.majority = True
        self.cut: set[str] = set()

    def propose(self, run: Run, version: int, ring: Ring) -> None:
        self.requests.append(Request(run, version, ring))

    def apply(self, request: Request) -> None:
        request.succeeded = request.version == self.version
        if request.succeeded:
            self.version += 1
            self.ring = request.ring
            self._tell(News(self.version, self.ring))
        if request.given_up:
            self.requests.remove(request)

    def register(self, run: Run) -> None:
        """That run lives, and wants to hear everything from now on."""
        name, incarnation = run
        if name not in self.news:
            self.watch_anew(name)
        if self.living.get(name) != incarnation:
            self.living[name] = incarnation
            self._tell(News(run=run))

    def watch_anew(self, name: str) -> None:
        """It is told how things are, and not what they were in between."""
        known = [one.run[0] for one in self.news.get(name, []) if one.run[0] and one.run[0] not in self.living]
        self.news[name] = [News(self.version, self.ring, wanted=self.wanted, anew=True)]
        self.news[name] += [News(run=alive) for alive in self.living.items()]
        self.news[name] += [News(run=(gone, 0)) for gone in dict.fromkeys(known)]

    def want(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self._tell(News(wanted=wanted))

    def expire(self, name: str) -> None:
        """Nothing was heard of it for too long."""
        del self.living[name]
        self._tell(News(run=(name, 0)))

    def ended(self, name: str) -> None:
        """A process is no more: nobody is told anything."""
        self.news.pop(name, None)
        for request in [each for each in self.requests if each.run[0] == name]:
            request.given_up = True
        self.requests = [each for each in self.requests if not each.given_up or each.succeeded is None]

    def _tell(self, news: News) -> None:
        for waiting in self.news.values():
            waiting.append(news)

    def picture(self) -> object:
        """All of it, to be compared."""
        requests = tuple((one.run, one.version, repr(one.ring), one.succeeded, one.given_up) for one in self.requests)
        news = tuple(
            (name, tuple((one.version, repr(one.ring), one.run, one.wanted) for one in waiting))
            for name, waiting in self.news.items()
        )
        way = (self.majority, len(self.cut))
        return (repr(self.ring), self.version, self.wanted, tuple(self.living.items()), requests, news, way)
