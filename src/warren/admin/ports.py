"""Ports that the admin package needs from the node: facts of the process, control of it, history, peers, bridges.

Changes through `NodeControl` last until the node stops; the configuration file is not changed.

Not here: implementations (`node.admin_ports`, `admin.history`, `node.peers`, `bridges`).
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from warren.admin.background import BackgroundTask
from warren.admin.loop_holds import LoopHolds
from warren.broker.policies.parameters import Parameter


@dataclass(frozen=True)
class ListenerFacts:
    """One listener. `protocol` is RabbitMQ's name: amqp, amqp/ssl, http, https."""

    protocol: str
    host: str
    port: int
    tls: bool = False


@dataclass(frozen=True)
class CertificateFacts:
    """When the certificate of a TLS listener expires, in milliseconds since 1970."""

    listener: ListenerFacts
    path: str
    expires_at_ms: int


@dataclass
class IoStats:
    """What the disk's threads did with the journal. Each thread counts its own; any thread may read."""

    reads: int = 0
    read_bytes: int = 0
    read_s: float = 0.0
    writes: int = 0
    write_bytes: int = 0
    write_s: float = 0.0
    syncs: int = 0
    sync_s: float = 0.0


class NodeFacts(Protocol):
    """One node's process, measured about once a second."""

    name: str
    pid: int
    started_at_ms: int
    data_dir: str
    config_file: str
    # compiled or pure; asyncio or uvloop
    core_kind: str
    loop_name: str
    processors: int
    memory_limit_bytes: int
    memory_total_bytes: int
    disk_limit_bytes: int
    descriptors_total: int
    # timeout of a silent link to another node
    silence_s: int
    # an operator wants no new clients here
    draining: bool
    # by the kind of work: `turn`, `request`
    holds: dict[str, LoopHolds]

    def now_ms(self) -> int: ...

    def memory_used_bytes(self) -> int: ...

    def disk_free_bytes(self) -> int: ...

    def loop_lag_ms(self) -> float:
        """The largest delay of the event loop in the last seconds."""

    def descriptors_used(self) -> int: ...

    def sockets_used(self) -> int: ...

    def io(self) -> IoStats: ...

    def context_switches(self) -> int:
        """Voluntary and involuntary context switches."""

    def failing_tasks(self) -> list[BackgroundTask]:
        """The background loops that failed lately."""

    def task_failures(self) -> int:
        """How often a background loop has failed."""

    def collections(self) -> int:
        """Garbage collections."""

    def listeners(self) -> list[ListenerFacts]: ...

    def certificates(self) -> list[CertificateFacts]: ...


LOG_LEVELS = ("debug", "info", "warning", "error", "critical", "none")
"""From all log lines to none."""


class ForgetNodeRefused(Exception):
    """The node stays a member; `code` is RabbitMQ's word for the reason, if there is one."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class NodeControl(Protocol):
    """Control of the process."""

    def stop(self, user: str) -> None:
        """Close all client connections and exit, after the caller has its response."""

    def stop_app(self, user: str) -> None:
        """The same, but the process stays and answers only requests about its membership."""

    def drain(self, user: str, draining: bool) -> None:
        """Tell load balancers to send new clients, or not. Existing clients stay."""

    async def forget_node(self, user: str, name: str) -> None:
        """Remove a node that does not run from the cluster; `ForgetNodeRefused` if that is impossible."""

    def settings(self) -> Mapping[str, object]:
        """The effective settings by their keys in the configuration file, without secrets."""

    def set_setting(self, key: str, value: str) -> None:
        """`KeyError` if the setting cannot be changed, `ValueError` with the expected kind of value."""

    def log_levels(self) -> dict[str, str]:
        """By category."""

    def set_log_levels(self, levels: Mapping[str, str]) -> None:
        """For known categories; `default` means all categories that are not named as well."""


@dataclass(frozen=True)
class SampleSpan:
    """Requested samples: back to `age_s` ago, one every `step_s`."""

    age_s: int
    step_s: int


@dataclass(frozen=True)
class SampleSpans:
    """The requested samples by family; None: rates only."""

    lengths: SampleSpan | None = None
    messages: SampleSpan | None = None
    bytes: SampleSpan | None = None
    node: SampleSpan | None = None


class HistoryPort(Protocol):
    """The history of every statistic.

    A statistic is identified by the kind of its object, the object's key, and RabbitMQ's name for it. Kinds and keys:
    `overview` and `churn`, `""`; `node` and `vhost`, the name; `queue` and `exchange`, `(vhost, name)`; `link`,
    `LinkFacts.key`; `connection`, its id; `channel`, `(connection id, number)`; and, with rates only, `channel_queue`
    and `channel_exchange`, `(connection id, number, name)`.
    """

    def rated(self, kind: str, key: object, stats: Mapping[str, int], span: SampleSpan | None) -> dict[str, object]:
        """The values, each with `NAME_details`: the rate, and the samples of the span."""

    def forget(self) -> None:
        """Delete all samples; counters keep their values."""


@dataclass(frozen=True)
class LinkFacts:
    """An established link to another node."""

    node: str
    own_host: str
    own_port: int
    peer_host: str
    peer_port: int
    sent_bytes: int
    received_bytes: int

    @property
    def key(self) -> tuple[str, int, int]:
        """Identifies the link; a link that reconnects is another one."""
        return self.node, self.own_port, self.peer_port


class PeerPort(Protocol):
    """The other nodes of the cluster."""

    async def ask(self, node: str, peer_query: bytes) -> bytes:
        """The node's response; `OSError` if there is none in time."""

    def answers(self, answer: Callable[[bytes], Awaitable[bytes]]) -> None:
        """Set the handler of other nodes' queries."""

    def standing(self) -> list[LinkFacts]:
        """The established links."""


BridgeRow = dict[str, object]


class BridgesPort(Protocol):
    """The bridges of this node."""

    def definer_refusal(self, parameter: Parameter, vhosts: Collection[str], is_administrator: bool) -> str:
        """Why its definer may not set this parameter; empty if there is no reason.

        `vhosts` are the virtual hosts that the user may enter.
        """

    def shovel_rows(self) -> list[BridgeRow]:
        """One row for each shovel that runs on this node."""

    async def restart_shovel(self, vhost: str, name: str) -> bool:
        """False if the shovel does not run here."""

    def federation_rows(self) -> list[BridgeRow]:
        """One row for each link of this node, and for each upstream that a policy names but does not exist."""

    async def restart_federation_link(self, vhost: str, link_id: str) -> bool:
        """False if the link does not run here."""
