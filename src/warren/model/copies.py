"""The seam between a ring and what its members hold: one queue's contents, as a mirror has them.

A mirror hands nothing out and judges nothing. It stores what the master stored, under the same positions, and removes
what the master removed. A position belongs to one message for as long as the queue lives, whoever was master when it
was given out, so what two members have differs exactly where their positions do.

A message travels and is stored as a *payload*: the bytes the journal has of it (`store.records`), with their checksum.
A mirror copies them as they are.

Not here: in which order members hear of what (`mirroring`), the journal (`store`).
"""

from abc import ABC, abstractmethod
from typing import final

from mypy_extensions import i64, mypyc_attr


@final
@mypyc_attr(acyclic=True)
class Span:
    """Positions of one priority level, from the first to the last; a copy may have gaps in between."""

    def __init__(self, level: i64, first: i64, last: i64) -> None:
        self.level: i64 = level
        self.first: i64 = first
        self.last: i64 = last

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Span)
            and self.level == other.level
            and self.first == other.first
            and self.last == other.last
        )

    def __hash__(self) -> int:
        return hash((self.level, self.first, self.last))

    def __repr__(self) -> str:
        return f"Span({self.level}, {self.first}, {self.last})"


@mypyc_attr(allow_interpreted_subclasses=True)
class Copy(ABC):
    """What one mirror holds of one queue."""

    @abstractmethod
    def store(
        self,
        position: i64,
        priority: i64,
        expires_at_ms: i64,
        persistent: bool,
        payload: bytes,
        payload_crc: i64,
    ) -> bool:
        """Hold a message, unless it was removed before it came; whether it must be on disk before it is safe."""

    @abstractmethod
    def remove(self, level: i64, first: i64, last: i64) -> None:
        """Hold nothing from the first position to the last, now or later, whatever of it is here."""

    @abstractmethod
    def drop(self, priority: i64, position: i64) -> None:
        """A message that was stored does not count after all."""

    @abstractmethod
    def lend(self, position: i64) -> bool:
        """Whatever is held up to here may have been handed out; whether this must be on disk before it is safe."""

    @abstractmethod
    def returned(self, position: i64, count: i64) -> None:
        """A message came back to the queue so often."""

    @abstractmethod
    def spans(self) -> list[Span]:
        """Everything that is held, exactly: no gaps within a span, in the order of levels and positions."""

    @abstractmethod
    def begin_catching_up(self) -> None:
        """Messages may come whose removal came before them: remember every removal until `caught_up`."""

    @abstractmethod
    def caught_up(self) -> None: ...
