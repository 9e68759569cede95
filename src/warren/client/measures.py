"""Measures: the numbers that a part of the client reports about itself.

A part has `measures()` and does not know who reads them; `telemetry.observe` reports them to OpenTelemetry.

Invariant: reading a measure changes nothing, and any thread may do it. A measure without a current value has no points.

Not here: counts of messages through a transport (`telemetry.traces`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

__all__ = ["CONSUMER", "DATABASE", "DESTINATION", "STATUS", "Kind", "Measure", "Measured", "Point"]

Kind = Literal["counter", "gauge"]
"""A counter only grows while its process lives."""

Point = tuple[int | float, Mapping[str, str]]
"""A value, and the attributes that distinguish it from other points of the same measure."""

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
    """An object with measures."""

    def measures(self) -> Sequence[Measure]: ...
