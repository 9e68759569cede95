"""A queue as a row.

The groups of fields are built only if one of their fields is wanted, because lists are long.

Not here: which queues (`resources.queues`), bindings (`views.bindings`).
"""

from typing import Any

from warren.admin.history_port import HistoryPort, Spans
from warren.admin.listing.columns import EVERYTHING, Wanted
from warren.admin.views import figures
from warren.admin.views.amqp_values import plain
from warren.admin.views.channels import consumer_row
from warren.admin.views.erlang import GARBAGE_COLLECTION, NO_RATE
from warren.queue.arguments import type_of
from warren.queue.queue import Queue
from warren.queue.report import QueueReport

_REPORTED = (
    "backing_queue_status",
    "consumer_capacity",
    "consumer_utilisation",
    "head_message_timestamp",
    "idle_since",
    "memory",
    "state",
)
_LENGTHS = ("messages", "messages_details", "messages_ready", "messages_ready_details")
_LENGTHS_TOO = ("messages_unacknowledged", "messages_unacknowledged_details")
_SIZES = (
    "message_bytes",
    "message_bytes_dlx",
    "message_bytes_paged_out",
    "message_bytes_persistent",
    "message_bytes_ram",
    "message_bytes_ready",
    "message_bytes_unacknowledged",
    "messages_dlx",
    "messages_paged_out",
    "messages_persistent",
    "messages_ram",
    "messages_ready_ram",
    "messages_unacknowledged_ram",
)
_CONSUMING = ("exclusive_consumer_tag", "single_active_consumer_tag", "single_active_consumer_ctag")


class QueueRows:
    """Builds rows of one node's queues."""

    def __init__(self, node: str, history: HistoryPort, now_ms: int, spans: Spans) -> None:
        self._node = node
        self._history = history
        self._now_ms = now_ms
        self._spans = spans

    def row(self, queue: Queue, wanted: Wanted = EVERYTHING) -> dict[str, Any]:
        row = self.bare(queue)
        quorum = row["type"] == "quorum"
        if wanted.any_of("policy", "operator_policy", "effective_policy_definition"):
            row["policy"] = queue.policy or None
            row["operator_policy"] = queue.operator_policy or None
            row["effective_policy_definition"] = plain(queue.effective_policy)
        if wanted.any_of(*_LENGTHS, *_LENGTHS_TOO):
            lengths = figures.lengths(queue.ready_count(), queue.unacked_count())
            row |= self._history.rated("queue", (queue.vhost, queue.name), lengths, self._spans.lengths)
        if "message_stats" in wanted:
            counted = figures.of_queue(queue.figures)
            key = (queue.vhost, queue.name)
            figures.add_message_stats(row, self._history, "queue", key, counted, self._spans.messages)
        row["consumers"] = queue.consumer_count()
        if wanted.any_of(*_CONSUMING):
            _add_tags(row, queue, quorum)
        if wanted.any_of(*_REPORTED, *_SIZES):
            self._add_report(row, queue, queue.report(), quorum)
        row["garbage_collection"] = GARBAGE_COLLECTION
        row["reductions"] = 0
        row["reductions_details"] = NO_RATE
        if quorum:
            row |= {"leader": self._node, "members": [self._node], "online": [self._node]}
            row["open_files"] = {self._node: 0}
        else:
            row["recoverable_slaves"] = None
        return row

    def detailed(self, queue: Queue) -> dict[str, Any]:
        """One queue alone, with its consumers."""
        return {
            "consumer_details": [consumer_row(self._node, consumer, active) for consumer, active in queue.consumers()],
            "deliveries": [],
            "incoming": [],
            **self.row(queue),
        }

    def bare(self, queue: Queue) -> dict[str, Any]:
        """What a queue is, whatever it does."""
        return {
            "arguments": plain(queue.arguments),
            "auto_delete": queue.auto_delete,
            "durable": queue.durable,
            "exclusive": queue.exclusive,
            "name": queue.name,
            "node": self._node,
            "type": type_of(queue.arguments),
            "vhost": queue.vhost,
        }

    def without_stats(self, queue: Queue, wanted: Wanted = EVERYTHING) -> dict[str, Any]:
        return self.bare(queue) | {"state": "live"}

    def totals(self, queue: Queue, wanted: Wanted = EVERYTHING) -> dict[str, Any]:
        lengths = figures.lengths(queue.ready_count(), queue.unacked_count())
        return self.bare(queue) | lengths | {"state": "running"}

    def _add_report(self, row: dict[str, Any], queue: Queue, report: QueueReport, quorum: bool) -> None:
        capacity = report.capacity if row["consumers"] else 0
        row["consumer_capacity"] = row["consumer_utilisation"] = capacity
        row["memory"] = report.memory_bytes
        row["state"] = report.state
        figures.add_idle_since(row, int(report.used_at_ms), self._now_ms)
        row["message_bytes"] = report.ready_bytes + report.unacked_bytes
        row["message_bytes_persistent"] = report.persistent_bytes
        row["message_bytes_ram"] = report.in_memory_bytes
        row["message_bytes_ready"] = report.ready_bytes
        row["message_bytes_unacknowledged"] = report.unacked_bytes
        row["messages_persistent"] = report.persistent
        row["messages_ram"] = report.in_memory
        if quorum:
            row["message_bytes_dlx"] = row["messages_dlx"] = 0
            return
        row["message_bytes_paged_out"] = report.paged_bytes
        row["messages_paged_out"] = report.paged
        row["messages_ready_ram"] = report.ready - report.paged
        row["messages_unacknowledged_ram"] = report.unacked
        row["head_message_timestamp"] = report.head_timestamp()
        row["backing_queue_status"] = _backing_status(queue, report)


def _add_tags(row: dict[str, Any], queue: Queue, quorum: bool) -> None:
    single = queue.settings.single_active_consumer
    active = next((consumer.tag for consumer, is_active in queue.consumers() if is_active), None) if single else None
    if quorum:
        row["single_active_consumer_ctag"] = active
        return
    row["single_active_consumer_tag"] = active
    exclusive = queue.consumers()[0][0].tag if queue.has_exclusive_consumer() else None
    row["exclusive_consumer_tag"] = exclusive


def _backing_status(queue: Queue, report: QueueReport) -> dict[str, Any]:
    """RabbitMQ's insides of a classic queue; what is in memory is its q4, what is on disk its delta."""
    in_memory = report.ready - report.paged
    return {
        "avg_ack_egress_rate": 0.0,
        "avg_ack_ingress_rate": 0.0,
        "avg_egress_rate": 0.0,
        "avg_ingress_rate": 0.0,
        "delta": ["delta", "undefined", report.paged, 0, "undefined"],
        "len": report.ready,
        "mode": "lazy" if queue.settings.lazy else "default",
        "next_deliver_seq_id": 0,
        "next_seq_id": 0,
        "q1": 0,
        "q2": 0,
        "q3": 0,
        "q4": in_memory,
        "target_ram_count": "infinity",
        "version": 1,
    }
