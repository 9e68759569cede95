"""What the process around the broker tells of itself to those who operate it.

Not here: where the figures come from (`node.admin_ports`), the JSON they become (`admin.resources.nodes`).

What an operator may change of the process around the broker while it runs.

Changes hold until the node stops; the configuration file is not touched.

Not here: how it is done (`node.admin_ports`), the paths (`resources.control`), what is asked of the broker
(`admin.command_queue`).

What the answers ask of the history of figures: how fast they grow, and what they were.

Not here: the samples (`admin.history`), which figures there are (`admin.views`).

What the operators' side of a node wants of the nodes around it.

Not here: how they are reached (`node.peers`), what is asked of them (`cluster.question`).

What operators see of the bridges of a node, and what they may order.

Not here: who carries messages (`bridges`), the paths (`resources.shovels`, `resources.federation`).
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from warren.broker.policies.parameters import Parameter


@dataclass(frozen=True)
class ListenerFacts:
    """One address that is listened on. `protocol` is a name of RabbitMQ's: amqp, amqp/ssl, http, https."""

    protocol: str
    host: str
    port: int
    tls: bool = False


@dataclass(frozen=True)
class CertificateFacts:
    """When the certificate of a TLS listener ends, in milliseconds since 1970."""

    listener: ListenerFacts
    path: str
    expires_at_ms: int


@dataclass
class IoStats:
    """What the disk's threads did with the journal. Each of them counts its own; anybody may read."""

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
    # compiled or pure, and asyncio or uvloop
    core_kind: str
    loop_name: str
    processors: int
    memory_limit_bytes: int
    memory_total_bytes: int
    disk_limit_bytes: int
    descriptors_total: int
    # after which a link to another node is given up
    silence_s: int
    # an operator wants it to have no new clients
    draining: bool

    def now_ms(self) -> int: ...

    def memory_used_bytes(self) -> int: ...

    def disk_free_bytes(self) -> int: ...

    def loop_lag_ms(self) -> float:
        """How late the event loop was, at worst, in the last seconds."""

    def descriptors_used(self) -> int: ...

    def sockets_used(self) -> int: ...

    def io(self) -> IoStats: ...

    def context_switches(self) -> int:
        """How often the system took the processor away from the process, or the process gave it up."""

    def collections(self) -> int:
        """How often garbage was collected."""

    def listeners(self) -> list[ListenerFacts]: ...

    def certificates(self) -> list[CertificateFacts]: ...


LOG_LEVELS = ("debug", "info", "warning", "error", "critical", "none")
"""Of log lines, from all of them to none."""


class ForgetNodeRefused(Exception):
    """The node stays a member; `code` is RabbitMQ's word for the reason, if it has one."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class NodeControl(Protocol):
    """The process, to be changed."""

    def stop(self, user: str) -> None:
        """Say goodbye to every client and end, once the caller was answered."""

    def stop_app(self, user: str) -> None:
        """The same, but the process stays, and answers nothing but orders about its membership."""

    def drain(self, user: str, draining: bool) -> None:
        """Be known to load balancers as one that wants no new clients, or as one that does. Whoever is here stays."""

    async def forget_node(self, user: str, name: str) -> None:
        """Remove a node that does not run from the cluster. `ForgetNodeRefused` if that cannot be."""

    def settings(self) -> Mapping[str, object]:
        """The settings in force, by their keys in the configuration file; no secrets."""

    def set_setting(self, key: str, value: str) -> None:
        """Change one. `KeyError` if it cannot be changed, `ValueError` with what it must be if the value is wrong."""

    def log_levels(self) -> dict[str, str]:
        """By category."""

    def set_log_levels(self, levels: Mapping[str, str]) -> None:
        """Of categories that are known; `default` is all of them but for those that are named beside it."""


@dataclass(frozen=True)
class SampleSpan:
    """The samples somebody wants: back to `age_s` ago, one every `step_s`."""

    age_s: int
    step_s: int


@dataclass(frozen=True)
class SampleSpans:
    """What a request asks of each family of figures; None: only the rates."""

    lengths: SampleSpan | None = None
    messages: SampleSpan | None = None
    bytes: SampleSpan | None = None
    node: SampleSpan | None = None


class HistoryPort(Protocol):
    """The history of every figure.

    A figure is known by the kind of object it belongs to, the object's key, and its name, which is RabbitMQ's.
    Kinds and keys: `overview` and `churn`, `""`; `node` and `vhost`, the name; `queue` and `exchange`,
    `(vhost, name)`; `link`, `LinkFacts.key`; `connection`, its id; `channel`, `(connection id, number)`; and, with
    rates alone, what a channel did with one queue or exchange: `channel_queue` and `channel_exchange`,
    `(connection id, number, name)`.
    """

    def rated(self, kind: str, key: object, stats: Mapping[str, int], span: SampleSpan | None) -> dict[str, object]:
        """The figures, and beside each its `NAME_details`: rate, and what the span asks for."""

    def forget(self) -> None:
        """Let go of all that was; figures stay what they are."""


@dataclass(frozen=True)
class LinkFacts:
    """A link to another node that stands."""

    node: str
    own_host: str
    own_port: int
    peer_host: str
    peer_port: int
    sent_bytes: int
    received_bytes: int

    @property
    def key(self) -> tuple[str, int, int]:
        """Which link it is: one that was made anew is another."""
        return self.node, self.own_port, self.peer_port


class PeerPort(Protocol):
    """The other nodes of the cluster."""

    async def ask(self, node: str, question: bytes) -> bytes:
        """The node's answer, soon; `OSError` if there is none."""

    def answers(self, answer: Callable[[bytes], Awaitable[bytes]]) -> None:
        """From here on, questions of others are answered by this."""

    def standing(self) -> list[LinkFacts]:
        """The links that there are."""


BridgeRow = dict[str, object]


class BridgesPort(Protocol):
    """The bridges of this node."""

    def vhosts_entered(self, parameter: Parameter) -> list[str]:
        """The virtual hosts of this broker that a bridge of such a definition enters without a login."""

    def shovel_rows(self) -> list[BridgeRow]:
        """One for each shovel that this node runs."""

    async def restart_shovel(self, vhost: str, name: str) -> bool:
        """Whether there was one here to begin anew."""

    def federation_rows(self) -> list[BridgeRow]:
        """One for each link of this node, and for each upstream that a policy names in vain."""

    async def restart_federation_link(self, vhost: str, link_id: str) -> bool:
        """Whether there was one here to begin anew."""
