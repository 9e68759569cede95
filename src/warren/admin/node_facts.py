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


@dataclass
class IoFigures:
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

    def io(self) -> IoFigures: ...

    def context_switches(self) -> int:
        """How often the system took the processor away from the process, or the process gave it up."""

    def collections(self) -> int:
        """How often garbage was collected."""

    def listeners(self) -> list[ListenerFacts]: ...

    def certificates(self) -> list[CertificateFacts]: ...
