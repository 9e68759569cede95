"""Counters under RabbitMQ's names: `message_stats` of one node, sums over nodes, and requested sample spans.

RabbitMQ shows a counter only if a related event was counted: publishing counters after the first publish, delivery
counters after the first delivery or get. An unused object has no `message_stats`.

*Sums.* Counters of several nodes add up, and so do their rates and samples. Nodes take samples at the same times of the
clock, but one node may be a step ahead, so samples are added by time. A missing sample has the value of the one before.

*Spans.* `lengths_age=60&lengths_incr=5` requests samples. An age without a step, or a value that is not a number, is
ignored. A step of 0 and more samples than a chart can show are refused.

Not here: rates and samples (`admin.history`), what is counted (`broker.model.stats`).
"""

from datetime import UTC, datetime
from typing import Any

from warren.admin.http.responses import bad_request
from warren.admin.ports import HistoryPort, SampleSpan, SampleSpans
from warren.broker.model.stats import ChannelStats, DeliveryStats, NodeStats, QueueStats
from warren.broker.routing.exchanges import Exchange

Counters = dict[str, int]

IDLE_AFTER_MS = 5000
"""An object that was used within one interval of RabbitMQ's statistics is not idle."""


def queue_counters(stats: QueueStats) -> Counters:
    shown = {"publish": stats.published} if stats.published else {}
    return shown | _delivered(stats)


def channel_counters(stats: ChannelStats) -> Counters:
    return _published(stats) | _delivered(stats)


def vhost_counters(stats: ChannelStats) -> Counters:
    """All counters, once anything was counted."""
    if not _published(stats) and not _delivered(stats):
        return {}
    return _all_published(stats) | delivery_counters(stats)


def total_counters(stats: ChannelStats, disk_reads: int, disk_writes: int) -> Counters:
    return {
        **_all_published(stats),
        **delivery_counters(stats),
        "disk_reads": disk_reads,
        "disk_writes": disk_writes,
    }


def exchange_counters(exchange: Exchange) -> Counters:
    shown = {"publish_in": int(exchange.published_in)} if exchange.published_in else {}
    return shown | ({"publish_out": int(exchange.published_out)} if exchange.published_out else {})


def churn_counters(stats: NodeStats) -> Counters:
    return {
        "channel_closed": stats.channels_closed,
        "channel_created": stats.channels_created,
        "connection_closed": stats.connections_closed,
        "connection_created": stats.connections_created,
        "queue_created": stats.queues_created,
        "queue_declared": stats.queues_declared,
        "queue_deleted": stats.queues_deleted,
    }


def queue_lengths(ready: int, unacked: int) -> Counters:
    return {"messages": ready + unacked, "messages_ready": ready, "messages_unacknowledged": unacked}


def add_message_stats(
    row: dict[str, Any], history: HistoryPort, kind: str, key: object, stats: Counters, span: SampleSpan | None
) -> None:
    """Add `message_stats` to a row, if there are any."""
    if stats:
        row["message_stats"] = history.rated(kind, key, stats, span)


def _published(stats: ChannelStats) -> Counters:
    return _all_published(stats) if stats.published or stats.confirmed else {}


def _delivered(stats: DeliveryStats) -> Counters:
    if stats.taken or stats.got_empty or stats.acked or stats.redelivered:
        return delivery_counters(stats)
    return {}


def _all_published(stats: ChannelStats) -> Counters:
    return {
        "confirm": stats.confirmed,
        "drop_unroutable": stats.dropped_unroutable,
        "publish": stats.published,
        "return_unroutable": stats.returned_unroutable,
    }


def delivery_counters(stats: DeliveryStats) -> Counters:
    """All delivery counters, even if they are 0."""
    return {
        "ack": stats.acked,
        "deliver": stats.delivered,
        "deliver_get": stats.taken,
        "deliver_no_ack": stats.delivered_no_ack,
        "get": stats.got,
        "get_empty": stats.got_empty,
        "get_no_ack": stats.got_no_ack,
        "redeliver": stats.redelivered,
    }


def add_idle_since(row: dict[str, Any], used_at_ms: int, now_ms: int) -> None:
    """Add `idle_since` if the object is idle: `2026-11-15T09:55:28.962+00:00`."""
    if now_ms - used_at_ms > IDLE_AFTER_MS:
        row["idle_since"] = datetime.fromtimestamp(used_at_ms / 1000, UTC).isoformat(timespec="milliseconds")


Stats = dict[str, Any]


def summed(parts: list[Any]) -> Any:
    """The sum of what several nodes report; the parts are not changed."""
    total: Any = {}
    for part in parts:
        total = added(total, part)
    return total


def added(one: Any, other: Any) -> Any:
    """The sum of two values: numbers are added, objects field by field; a field of one alone is kept."""
    if not other:
        return one or other
    if not one:
        return other
    if isinstance(one, dict) and isinstance(other, dict):
        return {**one, **{name: _added_at(name, one, value) for name, value in other.items()}}
    if _is_number(one) and _is_number(other):
        return one + other
    return one


def _added_at(name: str, one: Stats, value: Any) -> Any:
    if name not in one:
        return value
    if name == "samples":
        return _added_samples(one[name], value)
    return added(one[name], value)


def _added_samples(one: list[Stats], other: list[Stats]) -> list[Stats]:
    """Newest first, at the times of the first."""
    found = []
    at = 0
    for sample in one:
        while at < len(other) - 1 and other[at]["timestamp"] > sample["timestamp"]:
            at += 1
        more = other[at]["sample"] if other else 0
        found.append({"sample": sample["sample"] + more, "timestamp": sample["timestamp"]})
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


SAMPLES_MAX = 500


def sample_spans(query: dict[str, str]) -> SampleSpans:
    """The samples that a request asks for."""
    return SampleSpans(
        lengths=_span(query, "lengths"),
        messages=_span(query, "msg_rates"),
        bytes=_span(query, "data_rates"),
        node=_span(query, "node_stats"),
    )


def _span(query: dict[str, str], family: str) -> SampleSpan | None:
    age_s, step_s = _number(query.get(f"{family}_age", "")), _number(query.get(f"{family}_incr", ""))
    if age_s is None or step_s is None:
        return None
    if age_s < 0 or step_s <= 0 or age_s // step_s > SAMPLES_MAX:
        raise bad_request(f"Invalid range parameters: age {age_s}, incr {step_s}")
    return SampleSpan(age_s, step_s)


def _number(text: str) -> int | None:
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 19 else None
