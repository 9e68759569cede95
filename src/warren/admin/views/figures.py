"""Counters under RabbitMQ's names: `message_stats`, with the rates that the history adds.

RabbitMQ shows a counter only if something was counted that belongs with it: the publishing ones once something was
published, the taking ones once something was taken or asked for. What nobody used has no `message_stats`.

Beside them, since when something is idle.

Not here: rates and samples (`admin.history_port`), what is counted (`model.figures`).
"""

from datetime import UTC, datetime
from typing import Any

from warren.admin.history_port import HistoryPort, Span
from warren.model.figures import ChannelFigures, NodeFigures, QueueFigures, TakenFigures
from warren.routing.exchange import Exchange

Figures = dict[str, int]

IDLE_AFTER_MS = 5000
"""What was used within one interval of RabbitMQ's statistics is not idle."""


def of_queue(figures: QueueFigures) -> Figures:
    shown = {"publish": figures.published} if figures.published else {}
    return shown | _taken(figures)


def of_channel(figures: ChannelFigures) -> Figures:
    return _published(figures) | _taken(figures)


def of_vhost(figures: ChannelFigures) -> Figures:
    """All of them, as soon as there is anything to count."""
    if not _published(figures) and not _taken(figures):
        return {}
    return _all_published(figures) | taken(figures)


def of_all(figures: ChannelFigures, disk_reads: int, disk_writes: int) -> Figures:
    return {
        **_all_published(figures),
        **taken(figures),
        "disk_reads": disk_reads,
        "disk_writes": disk_writes,
    }


def of_exchange(exchange: Exchange) -> Figures:
    shown = {"publish_in": int(exchange.published_in)} if exchange.published_in else {}
    return shown | ({"publish_out": int(exchange.published_out)} if exchange.published_out else {})


def churn(figures: NodeFigures) -> Figures:
    return {
        "channel_closed": figures.channels_closed,
        "channel_created": figures.channels_created,
        "connection_closed": figures.connections_closed,
        "connection_created": figures.connections_created,
        "queue_created": figures.queues_created,
        "queue_declared": figures.queues_declared,
        "queue_deleted": figures.queues_deleted,
    }


def lengths(ready: int, unacked: int) -> Figures:
    return {"messages": ready + unacked, "messages_ready": ready, "messages_unacknowledged": unacked}


def add_message_stats(
    row: dict[str, Any], history: HistoryPort, kind: str, key: object, figures: Figures, span: Span | None
) -> None:
    """Put `message_stats` into a row, if there are any."""
    if figures:
        row["message_stats"] = history.rated(kind, key, figures, span)


def _published(figures: ChannelFigures) -> Figures:
    return _all_published(figures) if figures.published or figures.confirmed else {}


def _taken(figures: TakenFigures) -> Figures:
    if figures.taken or figures.got_empty or figures.acked or figures.redelivered:
        return taken(figures)
    return {}


def _all_published(figures: ChannelFigures) -> Figures:
    return {
        "confirm": figures.confirmed,
        "drop_unroutable": figures.dropped_unroutable,
        "publish": figures.published,
        "return_unroutable": figures.returned_unroutable,
    }


def taken(figures: TakenFigures) -> Figures:
    """All of what was taken, whether there is any or not."""
    return {
        "ack": figures.acked,
        "deliver": figures.delivered,
        "deliver_get": figures.taken,
        "deliver_no_ack": figures.delivered_no_ack,
        "get": figures.got,
        "get_empty": figures.got_empty,
        "get_no_ack": figures.got_no_ack,
        "redeliver": figures.redelivered,
    }


def add_idle_since(row: dict[str, Any], used_at_ms: int, now_ms: int) -> None:
    """Say since when it was not used, if that is a while ago: `2026-11-15T09:55:28.962+00:00`."""
    if now_ms - used_at_ms > IDLE_AFTER_MS:
        row["idle_since"] = datetime.fromtimestamp(used_at_ms / 1000, UTC).isoformat(timespec="milliseconds")
