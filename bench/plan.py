"""What one run of the load generator does: the named cases, and the names, keys and frames that follow from a plan.

A producer connection cycles over its keys: message number n goes to key n mod K. So a consumer can compute from the
plan which number must come next on each queue, and check every one.

Not here: sending and receiving (`publisher.py`, `subscriber.py`).
"""

from dataclasses import dataclass
from typing import Protocol

from wire import FRAME_MAX

PREFIX = "bench."
BATCH_BYTES = 65_536


class Count(Protocol):
    """A number that the processes of a run share."""

    value: int


@dataclass(frozen=True)
class Plan:
    case: str
    size_bytes: int = 16
    seconds: float = 3.0
    count: int = 0
    """Messages to publish in all; 0: as many as the seconds allow."""
    queues: int = 1
    producers: int = 1
    consumers: int = 1
    exchange: str = ""
    bindings: int = 0
    auto_ack: bool = False
    ack_each: bool = False
    prefetch: int = 1000
    persistent: bool = False
    confirm_window: int = 0
    batch: int = 0
    rate: int = 0
    backlog_max: int = 200_000
    """Producers pause beyond so many deliveries outstanding, so that a slow broker's backlog stays bounded."""
    verify: bool = False

    @property
    def exchange_name(self) -> str:
        return f"{PREFIX}{self.exchange}" if self.exchange else ""

    @property
    def copies(self) -> int:
        """Deliveries of one publish."""
        return self.queues if self.exchange == "fanout" else 1

    def queue_name(self, number: int) -> str:
        return f"{PREFIX}{number:05}"

    def keys(self, producer: int) -> list[str]:
        """All of one length, so that all publishes have one length."""
        if self.exchange == "fanout":
            return [""]
        if self.exchange == "topic":
            return [f"key.{number:05}.x" for number in range(self.bindings)]
        if self.producers >= self.queues:
            return [self.queue_name(producer % self.queues)]
        return [self.queue_name(number) for number in range(producer, self.queues, self.producers)]

    def binding_keys(self) -> list[tuple[int, str]]:
        if self.exchange == "fanout":
            return [(number, "") for number in range(self.queues)]
        if self.exchange == "topic":
            return [(number % self.queues, f"key.{number:05}.{'*#'[number % 2]}") for number in range(self.bindings)]
        return []

    def consumed_by(self, consumer: int) -> list[int]:
        if self.consumers >= self.queues:
            return [consumer % self.queues]
        return list(range(consumer, self.queues, self.consumers))

    def batch_of(self, publish_bytes: int, key_count: int) -> int:
        """Messages per send: a divisor or a multiple of the number of keys, so that few distinct batches exist."""
        wanted = self.batch or max(1, BATCH_BYTES // publish_bytes)
        if self.confirm_window:
            wanted = min(wanted, max(1, self.confirm_window // 4))
        if self.rate:
            wanted = min(wanted, max(1, self.rate // 1000))
        if wanted >= key_count:
            return wanted // key_count * key_count
        return next(divisor for divisor in range(wanted, 0, -1) if key_count % divisor == 0)

    def fault(self) -> str:
        """Why this plan cannot be run, or nothing."""
        if self.size_bytes < (16 if self.verify else 8):
            return "a body holds a timestamp of 8 bytes, with --verify also a number of 8: --size is too small"
        if self.size_bytes > FRAME_MAX - 8:
            return f"a body must fit one frame: --size is above {FRAME_MAX - 8}"
        if self.verify and self.consumers > self.queues:
            return "--verify needs every queue to have a single consumer: more consumers than queues"
        return ""


CASES: dict[str, Plan] = {
    plan.case: plan
    for plan in (
        Plan("transient-autoack", auto_ack=True),
        Plan("manual-ack"),
        Plan("ack-each", ack_each=True),
        Plan("fanout-10", auto_ack=True, exchange="fanout", queues=10),
        Plan("topic-1000", auto_ack=True, exchange="topic", queues=10, bindings=1000),
        Plan("unbatched", confirm_window=200, batch=1),
        Plan("paced-5000", rate=5000),
        Plan("persistent-confirm", persistent=True, confirm_window=1000),
        Plan("paced-2000-confirm", persistent=True, confirm_window=2000, rate=2000),
        Plan("confirm-one", persistent=True, confirm_window=1),
    )
}
