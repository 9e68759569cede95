"""What the process around the broker tells of itself to those who operate it.

Not here: where the figures come from (`node.facts`), the JSON they become (`admin.views.nodes`).
"""

from dataclasses import dataclass
from typing import Protocol


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

    def now_ms(self) -> int: ...

    def memory_used_bytes(self) -> int: ...

    def disk_free_bytes(self) -> int: ...

    def loop_lag_ms(self) -> float:
        """How late the event loop was, at worst, in the last seconds."""

    def descriptors_used(self) -> int: ...

    def sockets_used(self) -> int: ...

    def listeners(self) -> list[ListenerFacts]: ...

    def certificates(self) -> list[CertificateFacts]: ...
