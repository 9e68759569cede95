"""What was seen of a deployment from outside; facts, without a judgement.

Not here: looking (`cli.ha.probes`), judging (`cli.ha.verdict`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from warren.cli.ha.deployment import Balancer, BrokerNode


@dataclass(frozen=True)
class AmqpProbeResult:
    """How an AMQP port answered; `refusal` says why it did not, `silent` that it took the connection and closed it,
    `unreached` that there was none."""

    port: int
    product: str = ""
    version: str = ""
    refusal: str = ""
    silent: bool = False
    unreached: bool = False


@dataclass(frozen=True)
class FitnessProbeResult:
    """How the fitness resource of an HTTP port answered; `refusal` says why it did not, `silent` that it took the
    connection and closed it, `unreached` that there was none."""

    port: int
    status: int = 0
    balancer: str = ""
    """Which balancer the answer came by, as it says."""
    standing: str = ""
    node: str = ""
    reasons: tuple[str, ...] = ()
    ahead_s: float = 0.0
    """How far the answering clock is ahead of ours."""
    refusal: str = ""
    silent: bool = False
    unreached: bool = False


@dataclass(frozen=True)
class EntryPoint:
    """Where clients come in: the virtual address, or a balancer by its own."""

    address: str
    balancer: Balancer | None
    """None for the virtual address."""
    greetings: tuple[AmqpProbeResult, ...]
    answers: tuple[FitnessProbeResult, ...]


@dataclass(frozen=True)
class NodeObservation:
    """A node asked directly; `wants_header` if it answers only who begins with a PROXY header."""

    node: BrokerNode
    answer: FitnessProbeResult
    greeting: AmqpProbeResult | None
    wants_header: bool = False
    called_from: str = ""
    """Our address, as the node sees it if nothing is in between."""


@dataclass(frozen=True)
class ClusterObservation:
    """What the cluster tells a user of itself, asked through a door; `refusal` says why it was not told."""

    nodes: tuple[Mapping[str, Any], ...] = ()
    queues: tuple[Mapping[str, Any], ...] = ()
    called_from: str = ""
    """Our address, as we know it."""
    seen_from: str = ""
    """The address with which the node shows our connection."""
    login_refusal: str = ""
    refusal: str = ""


@dataclass(frozen=True)
class Observations:
    """All of it; `cluster` is None if nobody said as whom to ask."""

    entry_points: tuple[EntryPoint, ...]
    nodes: tuple[NodeObservation, ...]
    cluster: ClusterObservation | None = None
