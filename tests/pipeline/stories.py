"""Builds the events of a trace, one after the other.

    story = Story()
    story.published("m1", "orders")
    story.delivered("m1", "orders")
    events = story.frame(spark)

Each event is 10 ms and one offset behind the one before. A name is a message id; one that begins with `digest:` is the
key of a message without one.

Not here: the jobs that read them.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from warren.pipeline.trace.events import SCHEMA

BEGIN = datetime(2026, 11, 15, 8, 0, tzinfo=UTC)
STEP_MS = 10


class Story:
    """In the virtual host `/`, unless an event says otherwise."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def published(self, name: str, *queues: str, exchange: str = "market", key: str = "new", **more: Any) -> None:
        self._tell(
            name,
            type="published",
            exchange=exchange,
            routing_keys=[key],
            routed_queues=list(queues),
            **({"connection": "publisher", "channel": 1, "user": "guest"} | more),
        )

    def delivered(self, name: str, queue: str, redelivered: bool = False, **more: Any) -> None:
        self._tell(name, type="received", queue=queue, redelivered=redelivered, **(_consumer() | more))

    def acked(self, name: str, queue: str, **more: Any) -> None:
        self._tell(name, type="acked", queue=queue, **(_consumer() | more))

    def rejected(self, name: str, queue: str, reason: str = "rejected") -> None:
        self._tell(name, type="rejected", queue=queue, reason=reason, **_consumer())

    def confirmed(self, name: str, queue: str) -> None:
        self._tell(name, type="confirmed", queue=queue, epoch=1, nodes=["warren@one", "warren@two"])

    def dead_lettered(self, name: str, queue: str, reason: str, *queues: str) -> None:
        self._tell(name, type="dead_lettered", queue=queue, reason=reason, routed_queues=list(queues))

    def consumed(self, name: str, queue: str, **more: Any) -> None:
        """Delivered and acked."""
        self.delivered(name, queue, **more)
        self.acked(name, queue, **more)

    def passed(self, name: str, queue: str) -> None:
        """Published, delivered and acked."""
        self.published(name, queue)
        self.consumed(name, queue)

    def frame(self, spark: SparkSession) -> DataFrame:
        return spark.createDataFrame(self.rows, SCHEMA)

    def _tell(self, name: str, **fields: Any) -> None:
        at = BEGIN + timedelta(milliseconds=STEP_MS * len(self.rows))
        known = {
            "event_id": f"stream:trace/0/{len(self.rows)}",
            "day": at.date(),
            "vhost": "/",
            "at": at,
            "node": "warren@one",
            "exchange": "market",
            "routing_keys": ["new"],
            "routed_queues": [],
            "nodes": [],
            "payload_bytes": 100,
            "message_id": None if name.startswith("digest:") else name,
            "message_key": name if name.startswith("digest:") else f"id:{name}",
        }
        self.rows.append(known | fields)


def after(events: int) -> datetime:
    """The time of the next event."""
    return BEGIN + timedelta(milliseconds=STEP_MS * events)


def _consumer() -> dict[str, Any]:
    return {"connection": "consumer", "channel": 1, "user": "guest"}
