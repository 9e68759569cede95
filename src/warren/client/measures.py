"""What a part of the client can tell of itself in numbers, for whoever wants to know.

A part has `measures()`, and needs nothing of those who ask; OpenTelemetry is told of them by `telemetry.observe`.

Invariant: reading a measure changes nothing, and may be done by any thread. What cannot be told at the moment has no
points.

Not here: what goes through a transport, which is counted by whoever stands in its way (`telemetry.traced`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

__all__ = ["CONSUMER", "DATABASE", "DESTINATION", "STATUS", "Kind", "Measure", "Measured", "Point"]

Kind = Literal["counter", "gauge"]
"""A counter only grows, as long as its process lives."""

Point = tuple[int | float, Mapping[str, str]]
"""A value, and the attributes that tell it from others of the same measure."""

CONSUMER: Final = "messaging.consumer.group.name"
DATABASE: Final = "warren.database"
DESTINATION: Final = "messaging.destination.name"
STATUS: Final = "warren.status"


@dataclass(frozen=True, slots=True)
class Measure:
    name: str
    unit: str
    says: str
    kind: Kind
    read: Callable[[], Iterable[Point]]


class Measured(Protocol):
    """Whatever has measures."""

    def measures(self) -> Sequence[Measure]: ...
