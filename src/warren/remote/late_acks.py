"""Acks of what an earlier master of a mirrored queue delivered: by positions, which are the same for every master.

A new master takes back all that the one before had handed out. What clients are done with meanwhile, it is told: it
passes that over, unless it has handed it to somebody again. On its way to this node it is passed over here.

An entry that another node has lent needs no deadline, which its home looks after. Of one from a mirrored queue the
field says where it stands there, marked so that no deadline can be mistaken for it.

Not here: acks of what the present master delivered, which go by the numbers of deliveries (`remote.link`).
"""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.model.message import Entry
from warren.model.told_position import AT_HOME
from warren.remote import records

if TYPE_CHECKING:
    from warren.remote.remote_queue import RemoteQueue


def place(entry: Entry, position: i64) -> None:
    """It stands there in its queue."""
    entry.expires_at_ms = AT_HOME | position


def position_at_home(entry: Entry) -> i64:
    """Where it stands there."""
    return entry.expires_at_ms ^ AT_HOME


@final
class LateAcks:
    """One node's, to one master."""

    def __init__(self) -> None:
        self._positions: dict[int, None] = {}

    def add(self, entry: Entry, run: "RemoteQueue | None") -> None:
        """A client is done with it: tell the master, if there is one."""
        if entry.expires_at_ms < AT_HOME:
            # nobody said where it stands
            return
        position = int(entry.expires_at_ms ^ AT_HOME)
        self._positions[position] = None
        if run is not None:
            run.tell(records.ACKED_LATE, [position])

    def tell(self, run: "RemoteQueue") -> None:
        """There is a master; what it delivers nevertheless is passed over."""
        run.late = self
        if self._positions:
            run.tell(records.ACKED_LATE, list(self._positions))

    def clear(self) -> None:
        """Whoever was told is master no more: what came of it is its successor's."""
        self._positions = {}

    def has(self, entry: Entry) -> bool:
        return len(self._positions) > 0 and int(entry.expires_at_ms ^ AT_HOME) in self._positions
