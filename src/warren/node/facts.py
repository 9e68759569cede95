"""What a node tells its operators of its process: the implementation of `admin.node_facts.NodeFacts`.

The event loop's lag is how late a call was that was due once a second: the highest of the last few, so that a poll
every five seconds misses none.

Not here: the alarms (`broker.alarms`), the answers (`admin.views`).
"""

import asyncio
import contextlib
import gc
import os
import resource
import ssl
from collections import deque
from collections.abc import Callable

from warren.admin.node_facts import CertificateFacts, IoFigures, ListenerFacts
from warren.node import process
from warren.node.clock import Clock
from warren.node.config.settings import NodeSettings
from warren.node.memory import resident_bytes

LAG_EVERY_S = 1.0
_LAGS_REMEMBERED = 5


class ProcessFacts:
    """One node's process."""

    def __init__(
        self,
        settings: NodeSettings,
        clock: Clock,
        loop_name: str,
        descriptors: int,
        data_dir: str,
        io: IoFigures,
    ) -> None:
        self.name = settings.broker.node_name
        self.pid = os.getpid()
        self.started_at_ms = clock.now_ms()
        self.data_dir = data_dir
        self.config_file = settings.config_file
        self.core_kind = process.core_kind()
        self.loop_name = loop_name
        self.processors = os.cpu_count() or 1
        self.memory_limit_bytes = settings.memory_limit_bytes
        self.memory_total_bytes = settings.memory_total_bytes
        self.disk_limit_bytes = settings.disk_limit_bytes
        self.descriptors_total = descriptors
        self.silence_s = settings.cluster.silence_s
        self.draining = False
        self._clock = clock
        self._listeners: list[ListenerFacts] = []
        self._certificates: list[CertificateFacts] = []
        self._io = io
        self._socket_counts: list[Callable[[], int]] = []
        self._lags_ms: deque[float] = deque([0.0], maxlen=_LAGS_REMEMBERED)
        self._handle: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to measure the loop."""
        self._measure_lag_at(loop, loop.time() + LAG_EVERY_S)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def listens(self, listener: ListenerFacts, certificate_path: str = "") -> None:
        """One more address is listened on, with this certificate if it speaks TLS."""
        self._listeners.append(listener)
        if certificate_path:
            self._certificates.append(CertificateFacts(listener, certificate_path, _expires_at_ms(certificate_path)))

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def memory_used_bytes(self) -> int:
        return resident_bytes()

    def disk_free_bytes(self) -> int:
        with contextlib.suppress(OSError):
            disk = os.statvfs(self.data_dir or ".")
            return disk.f_bavail * disk.f_frsize
        return 0

    def loop_lag_ms(self) -> float:
        return max(self._lags_ms)

    def descriptors_used(self) -> int:
        # newer systems tell the number; counting ten thousand takes milliseconds
        return os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))

    def sockets_used(self) -> int:
        return len(self._listeners) + sum(count() for count in self._socket_counts)

    def counts_sockets(self, count: Callable[[], int]) -> None:
        """Somebody else has sockets, and knows how many."""
        self._socket_counts.append(count)

    def io(self) -> IoFigures:
        return self._io

    def context_switches(self) -> int:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_nvcsw + usage.ru_nivcsw

    def collections(self) -> int:
        return sum(generation["collections"] for generation in gc.get_stats())

    def listeners(self) -> list[ListenerFacts]:
        return list(self._listeners)

    def certificates(self) -> list[CertificateFacts]:
        return list(self._certificates)

    def _measure_lag_at(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self._handle = loop.call_at(due, self._lag_measured, loop, due)

    def _lag_measured(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        now = loop.time()
        self._lags_ms.append((now - due) * 1000)
        self._measure_lag_at(loop, now + LAG_EVERY_S)


def _expires_at_ms(path: str) -> int:
    """When the first certificate of a PEM file ends; 0 if it cannot be read."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        # the standard library reads certificates through this door alone
        found = ssl._ssl._test_decode_cert(path)  # type: ignore[attr-defined]
        return int(ssl.cert_time_to_seconds(found["notAfter"]) * 1000)
    return 0
