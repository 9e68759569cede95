"""What the answers ask of the history of figures: how fast they grow, and what they were.

A figure without a history grows by nothing: `NoHistory` is what a node without a sampler has.

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

    A figure is known by the kind of object it belongs to (`overview`, `vhost`, `queue`, `exchange_in`,
    `exchange_out`, `connection`, `channel`, `node`, `churn`), the object's key, and its name. Keys: the vhost's name;
    `(vhost, name)` of queues and exchanges; the id of a connection; `(connection id, number)` of a channel; the
    node's name.
    """

    def rated(self, kind: str, key: object, figures: Mapping[str, int], span: Span | None) -> dict[str, object]:
        """The figures, and beside each its `NAME_details`: rate, and what the span asks for."""


class NoHistory:
    """Every figure as it is, growing by nothing."""

    def rated(self, kind: str, key: object, figures: Mapping[str, int], span: Span | None) -> dict[str, object]:
        rated: dict[str, object] = {}
        for name, value in figures.items():
            rated[name] = value
            rated[f"{name}_details"] = {"rate": 0.0}
        return rated
