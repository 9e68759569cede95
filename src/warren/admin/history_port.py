"""What the answers ask of the history of figures: how fast they grow, and what they were.

Not here: the samples (`admin.history`), which figures there are (`admin.views`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Span:
    """The samples somebody wants: back to `age_s` ago, one every `step_s`."""

    age_s: int
    step_s: int


@dataclass(frozen=True)
class Spans:
    """What a request asks of each family of figures; None: only the rates."""

    lengths: Span | None = None
    messages: Span | None = None
    bytes: Span | None = None
    node: Span | None = None


class HistoryPort(Protocol):
    """The history of every figure.

    A figure is known by the kind of object it belongs to, the object's key, and its name, which is RabbitMQ's.
    Kinds and keys: `overview` and `churn`, `""`; `node` and `vhost`, the name; `queue` and `exchange`,
    `(vhost, name)`; `link`, `LinkFacts.key`; `connection`, its id; `channel`, `(connection id, number)`; and, with
    rates alone, what a channel did with one queue or exchange: `channel_queue` and `channel_exchange`,
    `(connection id, number, name)`.
    """

    def rated(self, kind: str, key: object, figures: Mapping[str, int], span: Span | None) -> dict[str, object]:
        """The figures, and beside each its `NAME_details`: rate, and what the span asks for."""

    def forget(self) -> None:
        """Let go of all that was; figures stay what they are."""
