"""Those who are not in sync with a master and have come to catch up.

Not here: one of them (`broker.mirrors.catching_up`), admitting it (`mirroring.master`).
"""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.broker.mirrors.catching_up import CatchingUp
from warren.model.copies import Span

if TYPE_CHECKING:
    from warren.broker.mirrors.mastery import Mastery
    from warren.broker.mirrors.part import Part
    from warren.broker.mirrors.rings import Rings


@final
class Newcomers:
    """One master's."""

    def __init__(self, rings: "Rings", part: "Part", mastery: "Mastery") -> None:
        self._rings: Rings = rings
        self._part: Part = part
        self._mastery: Mastery = mastery
        self._catching_up: dict[str, CatchingUp] = {}

    def all(self) -> list[CatchingUp]:
        return list(self._catching_up.values())

    def any(self) -> bool:
        return len(self._catching_up) > 0

    def come(self, node: str, spans: list[Span]) -> None:
        """One has told what it has."""
        mastery = self._mastery
        first = mastery.downlink.firsts.get(node, mastery.next_position)
        began = mastery.master.followers[node].began
        self._catching_up[node] = CatchingUp(self._rings, self._part, mastery, node, spans, first, began)
        self.look()

    def look(self) -> None:
        """Those who may catch up do."""
        for catching_up in self.all():
            catching_up.look()

    def let_all(self) -> bool:
        """Let all catch up that have not been let so far; whether there are any."""
        for catching_up in self._catching_up.values():
            catching_up.allowed = True
        self.look()
        return self.any()

    def stop_all(self) -> bool:
        """Let nobody catch up until that is asked for again; whether anybody did."""
        stopped = False
        for catching_up in self._catching_up.values():
            stopped = catching_up.stop() or stopped
        return stopped

    def taken(self, node: str, size_bytes: i64) -> None:
        """One has taken in so much of what it lacked, in all."""
        catching_up = self._catching_up.get(node)
        if catching_up is not None:
            catching_up.taken(size_bytes)

    def caught_up(self, node: str) -> None:
        self._catching_up.pop(node, None)

    def forget(self, node: str) -> None:
        """It is not reached any more, or comes anew."""
        catching_up = self._catching_up.pop(node, None)
        if catching_up is not None:
            catching_up.cancel()

    def end(self) -> None:
        for node in list(self._catching_up):
            self.forget(node)
