"""The timeout for acks of deliveries.

The oldest delivery of each channel is checked at intervals, as in RabbitMQ. Depending on the settings, the channel is
closed with 406, or only the late deliveries are requeued.

Not here: the age of a delivery (`broker.sessions.unacked`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.settings import REQUEUE_DELIVERY, BrokerSettings
from warren.broker.model.turn import TimerTarget, Turn
from warren.broker.sessions import acks
from warren.broker.sessions.connection import Channel, Connection
from warren.errors import PRECONDITION_FAILED, ChannelFault

CHECK_EVERY_MS: Final[i64] = 60_000
CHECK_AT_LEAST_EVERY_MS: Final[i64] = 100


@final
class ConsumerTimeouts(TimerTarget):
    """Checks every channel at intervals."""

    def __init__(self, settings: BrokerSettings, turn: Turn, connections: dict[int, Connection]) -> None:
        self._limit_ms: i64 = settings.consumer_timeout_ms
        self._requeue: bool = settings.consumer_timeout_action == REQUEUE_DELIVERY
        self._turn: Turn = turn
        self._connections: dict[int, Connection] = connections
        self._started: bool = False

    def start(self) -> None:
        if not self._started and self._limit_ms:
            self._started = True
            self._arm()

    def timer_fired(self) -> None:
        before_ms = self._turn.now_ms - self._limit_ms
        for connection in list(self._connections.values()):
            for channel in list(connection.channels.values()):
                last_tag = channel.unacked_deliveries.overdue_tag(before_ms)
                if last_tag:
                    self._act(channel, last_tag)
        self._arm()

    def _act(self, channel: Channel, last_tag: i64) -> None:
        if self._requeue:
            deliveries = channel.unacked_deliveries.take_out_to(last_tag)
            channel.connection.note(
                "warning", "delivery.timed_out", {"channel": int(channel.number), "count": len(deliveries)}
            )
            channel.tolerate_tags(deliveries)
            acks.settle_rejected(channel, deliveries, True)
            return
        text = (
            f"delivery acknowledgement on channel {channel.number} timed out. Timeout value used: {self._limit_ms} ms. "
            "This timeout value can be configured, see consumers doc guide to learn more"
        )
        channel.fail(ChannelFault(PRECONDITION_FAILED, text), 0, 0)

    def _arm(self) -> None:
        every_ms = min(CHECK_EVERY_MS, max(self._limit_ms // 2, CHECK_AT_LEAST_EVERY_MS))
        self._turn.set_timer(self._turn.now_ms + every_ms, self)
