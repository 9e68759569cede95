"""The short way to the disk: a small batch is flushed by the loop itself, when the loop has nothing else to do.

::

    order ──► small and waited for? ──yes──► written ──► the loop goes round once ──► still alone? ──yes──► flushed here
                     │ no                                                                 │ no
                     └──────────────────────────► the writer's thread ◄───────────────────┘

To wake a thread, and to be woken by it, takes about as long as the flush. Who waits for the confirm of one message
before sending the next pays for all three. But then the loop is idle, and may as well wait for the disk itself.

- The loop goes round once before it waits. What the turn had to send is sent by then, and what had arrived is read: if
  that makes another turn due, there is work to be done while the disk works, and the thread is the right one.
- The batch is written before that, and the disk told to begin: half of a flush is done by the time it is asked for.
- The thread must be at rest, or the batch would overtake others. Metadata, new segments and room ahead are the thread's
  alone: here only bytes are written for which the file has room, so there is no lack of room to wait for either.
- The disk must be quick (`node.disk.pace`): a loop that waits for a slow disk serves nobody. On a slow one only the
  thread flushes, and notices when it is quick again.

Invariant: orders reach the disk in the order they were given. At most one is held here, and it goes before any other.

Not here: how it is written, and what becomes of a failure (`node.disk.writer`).
"""

import asyncio
from typing import Protocol

from warren.model.effects import Effect, Store
from warren.model.events import Event, Stored
from warren.node.disk.writer import JournalWriter

SMALL_BYTES = 16 * 1024


class TurnsPort(Protocol):
    """What the disk wants of the node's turns."""

    loop: asyncio.AbstractEventLoop

    def add(self, event: Event) -> None: ...

    def add_now(self, event: Event) -> None: ...

    def due(self) -> bool: ...


class Shortcut:
    """Stands before the writer. `order` is called on the loop; `close` anywhere, when there are no more orders."""

    __slots__ = ("_held", "_turns", "_writer")

    def __init__(self, writer: JournalWriter, turns: TurnsPort) -> None:
        self._writer = writer
        self._turns = turns
        # one at most; a list, because when the node stops two threads may reach for it, and only one gets it
        self._held: list[Store] = []

    def order(self, effect: Effect) -> None:
        self._pass_on()
        if type(effect) is Store and _is_small(effect) and self._may_be_waited_for():
            self._writer.begin_now(effect)
            self._held.append(effect)
            self._turns.loop.call_soon(self._went_round)
        else:
            self._writer.order(effect)

    def close(self) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        store = self._take_held()
        if store is not None:
            self._writer.order(store)

    def _take_held(self) -> Store | None:
        try:
            return self._held.pop()
        except IndexError:
            return None

    def _may_be_waited_for(self) -> bool:
        return self._writer.at_rest() and self._writer.pace.quick()

    def _went_round(self) -> None:
        store = self._take_held()
        if store is None:
            return
        if not self._turns.due() and self._writer.carry_out_now(store):
            self._turns.add_now(Stored(store.batch_no, store.batch_no))
        else:
            self._writer.order(store)


def _is_small(store: Store) -> bool:
    return store.flush and not store.changes and len(store.data) <= SMALL_BYTES
