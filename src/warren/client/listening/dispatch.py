"""The next message to handle: in order where messages have a key, in parallel otherwise.

    add ──▶ ready ──take──▶ at work ──finish──▶ gone
     │        ▲  ▲              │
     └▶ line ─┘  └───resume── paused ◀──pause

A message with a key *holds* the key from when it becomes ready until it is finished, also while it is paused. Others
with the same key wait in line, and the first becomes ready when the key is free. Within a queue the oldest ready
message is taken; between queues weights decide.

Invariants: at most one message holds a key, so no two with the same key are at work together. Messages with one key are
taken in the order in which they were added. With a single worker all messages of a queue are taken in that order.

**Weights.** Every source has a *pass*, which grows with each pick by a *stride*; a larger weight has a smaller stride.
The source with the smallest pass is next. A source that had nothing to give is not compensated for it: its pass is
raised to that of the last pick.

Lemma: while a source of weight w waits, another of weight v is picked at most v/w + 1 times. A waiting source is never
behind the last pick and at most one stride ahead of it, and a source with a larger pass is not picked before it.

Not here: the workers (`listening.listener`).
"""

import heapq
import math
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar


class FairPicker:
    """Picks by weight; weights are integers from 1."""

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
        """One of the waiting sources; among equals the first named."""
        for name in waiting:
            if name not in self._waited:
                self._passes[name] = max(self._passes[name], self._last_pass)
        chosen = min((name for name in self._passes if name in waiting), key=self._passes.__getitem__)
        self._waited = frozenset(waiting)
        self._last_pass = self._passes[chosen]
        self._passes[chosen] += self._strides[chosen]
        return chosen


T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class DispatchEntry(Generic[T]):
    """A message and its place; without a key it has no order to keep."""

    number: int
    source: str
    key: Hashable | None
    item: T


class Dispatch(Generic[T]):
    """The messages in hand, of one or several queues."""

    def __init__(self, weights: Mapping[str, int]) -> None:
        self._picker = FairPicker(weights)
        self._sources = tuple(weights)
        self._ready: dict[str, list[tuple[int, DispatchEntry[T]]]] = {name: [] for name in weights}
        self._lines: dict[Hashable, deque[DispatchEntry[T]]] = {}
        self._added = 0
        self._waiting = 0

    @property
    def waiting(self) -> int:
        """The number of messages that are neither at work nor paused."""
        return self._waiting

    def add(self, source: str, key: Hashable | None, item: T) -> None:
        self._added += 1
        self._waiting += 1
        ticket = DispatchEntry(self._added, source, key, item)
        if key is None:
            self._make_ready(ticket)
        elif (line := self._lines.get(key)) is not None:
            line.append(ticket)
        else:
            self._lines[key] = deque()
            self._make_ready(ticket)

    def take(self) -> DispatchEntry[T] | None:
        """The next message that may be handled, if any."""
        ready = self._ready[self._next_source()]
        if not ready:
            return None
        self._waiting -= 1
        return heapq.heappop(ready)[1]

    def finish(self, ticket: DispatchEntry[T]) -> None:
        """The message was handled or returned; its key is free."""
        if ticket.key is None:
            return
        line = self._lines[ticket.key]
        if line:
            self._make_ready(line.popleft())
        else:
            del self._lines[ticket.key]

    def resume(self, ticket: DispatchEntry[T]) -> None:
        """Make a paused message, which still holds its key, ready again."""
        self._waiting += 1
        self._make_ready(ticket)

    def drop(self, is_lost: Callable[[T], bool]) -> None:
        """Forget lost messages that wait; those at work or paused keep their keys."""
        for line in self._lines.values():
            kept = [ticket for ticket in line if not is_lost(ticket.item)]
            self._waiting -= len(line) - len(kept)
            line.clear()
            line.extend(kept)
        ready = [each for of_source in self._ready.values() for each in of_source]
        dropped = {number: ticket for number, ticket in ready if is_lost(ticket.item)}
        for of_source in self._ready.values():
            of_source[:] = [each for each in of_source if each[0] not in dropped]
            heapq.heapify(of_source)
        self._waiting -= len(dropped)
        for ticket in dropped.values():
            self.finish(ticket)

    def clear(self) -> list[DispatchEntry[T]]:
        """Take out all waiting messages, in order of arrival; those at work or paused keep their keys."""
        waiting = [ticket for ready in self._ready.values() for _, ticket in ready]
        held = [ticket.key for ticket in waiting if ticket.key is not None]
        for line in self._lines.values():
            waiting += line
            line.clear()
        for key in held:
            del self._lines[key]
        for ready in self._ready.values():
            ready.clear()
        self._waiting = 0
        return in_order(waiting)

    def _next_source(self) -> str:
        if len(self._sources) == 1:
            return self._sources[0]
        waiting = [name for name in self._sources if self._ready[name]]
        return self._picker.pick(waiting) if waiting else self._sources[0]

    def _make_ready(self, ticket: DispatchEntry[T]) -> None:
        heapq.heappush(self._ready[ticket.source], (ticket.number, ticket))


def split_returnable(
    waiting: Sequence[DispatchEntry[T]], before: Sequence[DispatchEntry[T]], *, all_in_order: bool
) -> tuple[list[DispatchEntry[T]], list[DispatchEntry[T]]]:
    """The messages that may be requeued now, and those behind one that may have to be requeued before them."""
    keys = {ticket.key for ticket in before if ticket.key is not None}
    stays_all = all_in_order and bool(before)
    free: list[DispatchEntry[T]] = []
    behind: list[DispatchEntry[T]] = []
    for ticket in in_order(waiting):
        (behind if stays_all or ticket.key in keys else free).append(ticket)
    return free, behind


def in_order(tickets: Iterable[DispatchEntry[T]]) -> list[DispatchEntry[T]]:
    """In order of arrival."""
    return sorted(tickets, key=lambda ticket: ticket.number)
