"""Who is next, among several that wait: each gets its share by weight, and none waits for ever.

Every source has a *pass*, which grows with each pick by a *stride*: the smaller, the larger its weight. The source with
the smallest pass is next. A source that had nothing to give meanwhile does not come back with a claim to everything it
missed: its pass is then at least that of the last pick.

Lemma: while a source of weight w waits, another one of weight v is picked at most v/w + 1 times. Those that wait are
never behind the last pick, and we are at most one stride ahead of it; nobody is picked any more who is ahead of us.

Not here: what is waiting (`listening.dispatch`).
"""

import math
from collections.abc import Collection, Mapping


class FairPicker:
    """Picks by weight; weights are whole numbers from 1 on."""

    def __init__(self, weights: Mapping[str, int]) -> None:
        wrong = [f"{name!r}: {weight}" for name, weight in weights.items() if weight < 1]
        if wrong or not weights:
            raise ValueError(f"each queue has a weight of at least 1, not {', '.join(wrong) or 'none at all'}")
        whole = math.lcm(*weights.values())
        self._strides = {name: whole // weight for name, weight in weights.items()}
        self._passes = dict.fromkeys(weights, 0)
        self._waited: Collection[str] = ()
        self._last_pass = 0

    def pick(self, waiting: Collection[str]) -> str:
        """One of those that wait; of equals the one that was named first."""
        for name in waiting:
            if name not in self._waited:
                self._passes[name] = max(self._passes[name], self._last_pass)
        chosen = min((name for name in self._passes if name in waiting), key=self._passes.__getitem__)
        self._waited = frozenset(waiting)
        self._last_pass = self._passes[chosen]
        self._passes[chosen] += self._strides[chosen]
        return chosen
