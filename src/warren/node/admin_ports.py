"""The node process as the admin interfaces see it: implements `admin.ports.NodeFacts` and `admin.ports.NodeControl`.

The event loop's lag is how late a call was that was due once a second. The highest of the last few values is shown, so
a poll every five seconds misses none.

Not here: alarms (`broker.alarms`), the replies (`admin.resources.nodes`), changes of broker state
(`broker.commands.control`).
"""

import asyncio
import contextlib
import gc
import os
import resource
import ssl
from collections import deque
from collections.abc import Callable, Mapping

from warren.admin.background import BackgroundTask, BackgroundTasks
from warren.admin.loop_holds import LoopHolds
from warren.admin.ports import CertificateFacts, ForgetNodeRefused, IoStats, ListenerFacts
from warren.node import process
from warren.node.cluster.agent import ClusterAgent
from warren.node.cluster.refusals import MembershipRefused, not_in_the_cluster
from warren.node.config import values
from warren.node.config.settings import NodeSettings
from warren.node.listeners import bound_address
from warren.node.logs import Log
from warren.node.resources import DiskWatch, MemoryWatch, resident_bytes
from warren.node.turn_loop import Clock

LAG_EVERY_S = 1.0
_LAGS_REMEMBERED = 5


class ProcessFacts:
    """Facts about one node's process."""

    def __init__(
        self,
        settings: NodeSettings,
        clock: Clock,
        loop_name: str,
        descriptors: int,
        data_dir: str,
        io: IoStats,
    ) -> None:
        self.name = settings.broker.node_name
        self.pid = os.getpid()
        self.started_at_ms = clock.now_ms()
        self.data_dir = data_dir
        self.config_file = os.path.abspath(settings.config_file) if settings.config_file else ""
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
        # by the kind of work: `turn`, `request`
        self.holds: dict[str, LoopHolds] = {}
        self._lags_ms: deque[float] = deque([0.0], maxlen=_LAGS_REMEMBERED)
        self._tasks: BackgroundTasks | None = None
        self._lag: BackgroundTask | None = None

    def start(self, tasks: BackgroundTasks) -> None:
        """Begin to measure the event loop."""
        self._tasks = tasks
        self._lag = tasks.start("event loop lag", self._measure_lag)

    def stop(self) -> None:
        if self._lag is not None:
            self._lag.cancel()
            self._lag = None

    def listens(self, listener: ListenerFacts, certificate_path: str = "") -> None:
        """Add a listener address, with its certificate if it speaks TLS."""
        self._listeners.append(listener)
        if certificate_path:
            self._certificates.append(
                CertificateFacts(listener, certificate_path, _certificate_expiry_ms(certificate_path))
            )

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
        # newer kernels tell the number; counting ten thousand entries takes milliseconds
        with contextlib.suppress(OSError):
            return os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))
        # the list cannot be opened without a free descriptor
        return self.descriptors_total

    def sockets_used(self) -> int:
        return len(self._listeners) + sum(count() for count in self._socket_counts)

    def counts_sockets(self, count: Callable[[], int]) -> None:
        """Add another source of socket counts."""
        self._socket_counts.append(count)

    def io(self) -> IoStats:
        return self._io

    def failing_tasks(self) -> list[BackgroundTask]:
        return [] if self._tasks is None else self._tasks.failing()

    def task_failures(self) -> int:
        return 0 if self._tasks is None else self._tasks.failures()

    def context_switches(self) -> int:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_nvcsw + usage.ru_nivcsw

    def collections(self) -> int:
        return sum(generation["collections"] for generation in gc.get_stats())

    def listeners(self) -> list[ListenerFacts]:
        return list(self._listeners)

    def certificates(self) -> list[CertificateFacts]:
        return list(self._certificates)

    async def _measure_lag(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + LAG_EVERY_S
            await asyncio.sleep(LAG_EVERY_S)
            self._lags_ms.append((loop.time() - due) * 1000)


def _certificate_expiry_ms(path: str) -> int:
    """When the first certificate of a PEM file expires; 0 if it cannot be read."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        # the standard library decodes certificate files only through this private function
        found = ssl._ssl._test_decode_cert(path)  # type: ignore[attr-defined]
        return int(ssl.cert_time_to_seconds(found["notAfter"]) * 1000)
    return 0


class ProcessControl:
    """Settings of a running node's process."""

    def __init__(
        self,
        settings: NodeSettings,
        facts: ProcessFacts,
        memory: MemoryWatch,
        disk: DiskWatch | None,
        log: Log,
        stop: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._facts = facts
        self._memory = memory
        self._disk = disk
        self._log = log
        self._stop = stop
        self._setters: dict[str, Callable[[str], None]] = {
            "disk_free_limit.absolute": lambda text: self._limit_disk(values.information_size(text)),
            "disk_free_limit.relative": lambda text: self._limit_disk(int(values.factor(text) * self._total_bytes())),
            "vm_memory_high_watermark.absolute": lambda text: self._limit_memory(values.information_size(text)),
            "vm_memory_high_watermark.relative": lambda text: self._limit_memory(
                int(values.ratio(text) * self._total_bytes())
            ),
        }

    def part_in_cluster(self, life: ClusterAgent | None, stop_app: Callable[[], None]) -> None:
        """The cluster agent, which changes the membership."""
        self._life = life
        self._stop_app = stop_app

    def stop(self, user: str) -> None:
        self._log.info("stop.requested", user=user)
        self._stop()

    def stop_app(self, user: str) -> None:
        self._log.info("stop.requested", user=user, app=True)
        self._stop_app()

    def drain(self, user: str, draining: bool) -> None:
        self._facts.draining = draining
        if draining:
            self._log.info("drain.requested", user=user)
        else:
            self._log.info("drain.revoked", user=user)

    async def forget_node(self, user: str, name: str) -> None:
        self._log.info("forget.requested", user=user, node=name)
        try:
            if self._life is None:
                raise not_in_the_cluster()
            await self._life.forget(name)
        except MembershipRefused as refusal:
            raise ForgetNodeRefused(refusal.code, str(refusal)) from refusal

    def settings(self) -> Mapping[str, object]:
        broker, http, cluster = self._settings.broker, self._settings.http, self._settings.cluster
        return {
            "auth_mechanisms": list(broker.auth_mechanisms),
            "channel_max": broker.channel_max,
            "cluster.cookie_file": "" if cluster.cookie else os.path.abspath(cluster.cookie_file),
            "cluster.etcd.endpoints": list(cluster.etcd.endpoints),
            "cluster.etcd.tls.cacertfile": "" if cluster.etcd.tls is None else cluster.etcd.tls.authorities,
            "cluster.listeners": self._peer_addresses(),
            "cluster.tls.certfile": cluster.tls.certfile,
            "consumer_timeout": broker.consumer_timeout_ms,
            "consumer_timeout_action": broker.consumer_timeout_action,
            "credential_validator.min_length": broker.password_rules.bytes_min,
            "credential_validator.regexp": broker.password_rules.pattern,
            "default_user": broker.default_user,
            "default_vhost": broker.default_vhost,
            "disk_free_limit.absolute": self._facts.disk_limit_bytes,
            "frame_max": broker.frame_max,
            "handshake_timeout": broker.handshake_timeout_ms,
            "heartbeat": broker.heartbeat_s,
            "listeners.ssl": [str(address) for address in self._settings.ssl_listeners],
            "listeners.tcp": [str(address) for address in self._settings.tcp_listeners],
            **{f"log.{category}.level": level for category, level in self.log_levels().items()},
            "loopback_users": list(broker.loopback_users),
            "management.allow_hosts": sorted(http.application.hosts.allowed),
            "management.cors.allow_origins": list(http.application.cross_origin.allowed),
            "management.http.max_body_size": http.application.body_bytes_max,
            "management.proxy_protocol": http.balancers is not None,
            "management.ssl": [str(address) for address in http.ssl_listeners],
            "management.ssl.versions": list(http.tls.versions),
            "management.tcp": [str(address) for address in http.tcp_listeners],
            "max_message_size": broker.max_message_size,
            "memory_monitor_interval": int(self._settings.memory_interval_s * 1000),
            "password_hashing_module": broker.password_hashing_module,
            "prometheus.authentication.enabled": http.prometheus.authentication,
            "proxy_protocol": self._settings.balancers is not None,
            "proxy_protocol.from": self._balancer_networks(),
            "ssl_options.certfile": self._settings.tls.certfile,
            "ssl_options.versions": list(self._settings.tls.versions),
            "total_memory_available_override_value": self._total_bytes(),
            "vm_memory_high_watermark.absolute": self._facts.memory_limit_bytes,
            "vm_memory_high_watermark_paging_ratio": broker.paging_ratio,
        }

    def set_setting(self, key: str, value: str) -> None:
        self._setters[key](value)
        self._log.info("setting.changed", key=key, value=value)

    def log_levels(self) -> dict[str, str]:
        return self._log.levels.levels()

    def set_log_levels(self, levels: Mapping[str, str]) -> None:
        self._log.levels.change(levels)

    def _peer_addresses(self) -> list[str]:
        links = None if self._life is None else self._life.links
        return [] if links is None else [str(bound_address(bound)) for bound in links.sockets]

    def _balancer_networks(self) -> list[str]:
        """The settings of both kinds of listeners name the same balancers."""
        balancers = self._settings.balancers or self._settings.http.balancers
        return [] if balancers is None else [str(network) for network in balancers.networks]

    def _total_bytes(self) -> int:
        return self._facts.memory_total_bytes

    def _limit_memory(self, limit_bytes: int) -> None:
        # as in the configuration, a limit of 0 does not mean no limit
        self._facts.memory_limit_bytes = max(1, limit_bytes)
        self._memory.set_limit(self._facts.memory_limit_bytes)

    def _limit_disk(self, limit_bytes: int) -> None:
        self._facts.disk_limit_bytes = limit_bytes
        if self._disk is not None:
            self._disk.set_limit(limit_bytes)
