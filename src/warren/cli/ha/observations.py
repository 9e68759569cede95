"""Facts about a deployment as seen from outside.

Not here: probing (`cli.ha.probes`), judging (`cli.ha.verdict`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from warren.cli.ha.deployment import Balancer, BrokerNode


@dataclass(frozen=True)
class AmqpProbeResult:
    """The response of an AMQP port. `refusal` says why there is none: `silent` if the port accepts the connection and
    closes it, `unreached` if there is no connection.
    """

    port: int
    product: str = ""
    version: str = ""
    refusal: str = ""
    silent: bool = False
    unreached: bool = False


@dataclass(frozen=True)
class FitnessProbeResult:
    """The response of the fitness path at an HTTP port. `refusal`, `silent` and `unreached` as for AMQP."""

    port: int
    status: int = 0
    balancer: str = ""
    """The balancer that forwarded the response."""
    standing: str = ""
    node: str = ""
    reasons: tuple[str, ...] = ()
    ahead_s: float = 0.0
    """How far the responding clock is ahead of ours."""
    refusal: str = ""
    silent: bool = False
    unreached: bool = False


@dataclass(frozen=True)
class EntryPoint:
    """An address for clients: the virtual address, or a balancer's own."""

    address: str
    balancer: Balancer | None
    """None for the virtual address."""
    greetings: tuple[AmqpProbeResult, ...]
    answers: tuple[FitnessProbeResult, ...]


@dataclass(frozen=True)
class NodeObservation:
    """A node probed directly; `wants_header` if it requires a PROXY header."""

    node: BrokerNode
    answer: FitnessProbeResult
    greeting: AmqpProbeResult | None
    wants_header: bool = False
    called_from: str = ""
    """Our address as the node sees it, if nothing is in between."""


@dataclass(frozen=True)
class ClusterObservation:
    """What the cluster reports to a user through an entry point; `refusal` says why it reports nothing."""

    nodes: tuple[Mapping[str, Any], ...] = ()
    queues: tuple[Mapping[str, Any], ...] = ()
    called_from: str = ""
    """Our own address."""
    seen_from: str = ""
    """The address that the node shows for our connection."""
    login_refusal: str = ""
    refusal: str = ""


@dataclass(frozen=True)
class Observations:
    """All observations; `cluster` is None without a user to ask as."""

    entry_points: tuple[EntryPoint, ...]
    nodes: tuple[NodeObservation, ...]
    cluster: ClusterObservation | None = None
