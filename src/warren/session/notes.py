"""What one connection has written into the log.

Invariant: a client that gives cause for many lines in a turn gets `NOTES_A_TURN`, and the rest counted in one. A link
of the node to itself is nobody's client: what goes wrong there is told to whoever uses it.

Not here: where notes go (`node.logs`).
"""

from typing import Final, final

from warren.model.events import ConnectionOpened
from warren.model.turn import Turn

NOTES_A_TURN: Final = 10


@final
class Notes:
    """One connection's notes of one turn."""

    def __init__(self, opened: ConnectionOpened, turn: Turn) -> None:
        self._opened: ConnectionOpened = opened
        self._turn: Turn = turn
        self._count: int = 0

    def add(self, level: str, name: str, fields: dict[str, object]) -> None:
        if self._opened.internal:
            return
        self._count += 1
        if self._count <= NOTES_A_TURN:
            self._put(level, name, fields)

    def end_turn(self) -> None:
        if self._count > NOTES_A_TURN:
            self._put("warning", "notes.suppressed", {"count": self._count - NOTES_A_TURN})
        self._count = 0

    def _put(self, level: str, name: str, fields: dict[str, object]) -> None:
        facts: dict[str, object] = {
            "connection": self._opened.connection_id,
            "peer": f"{self._opened.peer_host}:{self._opened.peer_port}",
        }
        facts.update(fields)
        self._turn.note(level, name, facts)
