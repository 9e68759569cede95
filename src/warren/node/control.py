"""What operators change of a running node: the implementation of `admin.node_control.NodeControl`.

Not here: changes of what the broker holds (`broker.control`).
"""

from collections.abc import Callable, Mapping

from warren.admin.node_control import ForgettingRefused
from warren.node.cluster.life import ClusterLife
from warren.node.cluster.refusal import MembershipRefused, not_in_the_cluster
from warren.node.config import values
from warren.node.config.settings import NodeSettings
from warren.node.disk.space import DiskWatch
from warren.node.facts import ProcessFacts
from warren.node.logs import Log
from warren.node.memory import MemoryWatch


class ProcessControl:
    """One node's process, to be changed."""

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

    def part_in_cluster(self, life: ClusterLife | None, stop_app: Callable[[], None]) -> None:
        """What its membership is changed by."""
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
            raise ForgettingRefused(refusal.code, str(refusal)) from refusal

    def settings(self) -> Mapping[str, object]:
        broker, http = self._settings.broker, self._settings.http
        return {
            "auth_mechanisms": list(broker.auth_mechanisms),
            "channel_max": broker.channel_max,
            "consumer_timeout": broker.consumer_timeout_ms,
            "consumer_timeout_action": broker.consumer_timeout_action,
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
            "management.http.max_body_size": http.application.body_bytes_max,
            "management.proxy_protocol": http.balancers is not None,
            "management.ssl": [str(address) for address in http.ssl_listeners],
            "management.tcp": [str(address) for address in http.tcp_listeners],
            "max_message_size": broker.max_message_size,
            "memory_monitor_interval": int(self._settings.memory_interval_s * 1000),
            "password_hashing_module": broker.password_hashing_module,
            "proxy_protocol": self._settings.balancers is not None,
            "ssl_options.certfile": self._settings.tls.certfile,
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

    def _total_bytes(self) -> int:
        return self._facts.memory_total_bytes

    def _limit_memory(self, limit_bytes: int) -> None:
        # as in the configuration, a limit of nothing is not no limit
        self._facts.memory_limit_bytes = max(1, limit_bytes)
        self._memory.set_limit(self._facts.memory_limit_bytes)

    def _limit_disk(self, limit_bytes: int) -> None:
        self._facts.disk_limit_bytes = limit_bytes
        if self._disk is not None:
            self._disk.set_limit(limit_bytes)
