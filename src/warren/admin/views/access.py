"""Virtual hosts, users, permissions and limits as rows.

Not here: what they allow (`access`).
"""

import base64
from collections.abc import Callable
from typing import Any

from warren.access.permissions import Permission, TopicPermission
from warren.access.users import User
from warren.admin.history_port import HistoryPort, Spans
from warren.admin.listing.columns import Wanted
from warren.admin.views import figures
from warren.broker.vhost import Vhost
from warren.broker.watching.sums import QueueSums

KNOWN_OF_VHOSTS = frozenset({"default_queue_type", "description", "metadata", "name", "tags", "tracing"})
"""What is agreed about a virtual host."""

_LENGTHS = ("messages", "messages_ready", "messages_unacknowledged")


class VhostRows:
    """Builds rows of virtual hosts."""

    def __init__(self, node: str, history: HistoryPort, spans: Spans) -> None:
        self._node = node
        self._history = history
        self._spans = spans

    def plan(self, wanted: Wanted) -> Callable[[Vhost], dict[str, Any]]:
        """How to build the wanted part of a row; lengths are those of all queues, so they are worth leaving out."""
        share = self.share(wanted)
        return lambda vhost: self.bare(vhost) | share(vhost)

    def share(self, wanted: Wanted) -> Callable[[Vhost], dict[str, Any]]:
        """How to build what this node alone knows of one."""
        counts_messages = wanted.any_of(*_LENGTHS, *(f"{name}_details" for name in _LENGTHS))

        def build(vhost: Vhost) -> dict[str, Any]:
            row: dict[str, Any] = {"cluster_state": {self._node: "running"}}
            if counts_messages:
                sums = QueueSums([vhost])
                lengths = figures.lengths(sums.ready, sums.unacked)
                row |= self._history.rated("vhost", vhost.name, lengths, self._spans.lengths)
            counted = figures.of_vhost(vhost.figures)
            figures.add_message_stats(row, self._history, "vhost", vhost.name, counted, self._spans.messages)
            if vhost.figures.received_bytes:
                octets = {"recv_oct": int(vhost.figures.received_bytes), "send_oct": int(vhost.figures.sent_bytes)}
                row |= self._history.rated("vhost", vhost.name, octets, self._spans.bytes)
            return row

        return build

    def bare(self, vhost: Vhost) -> dict[str, Any]:
        return {
            "cluster_state": {self._node: "running"},
            "default_queue_type": "undefined",
            "description": vhost.description,
            "metadata": {"description": vhost.description, "tags": vhost.tags},
            "name": vhost.name,
            "tags": vhost.tags,
            "tracing": vhost.tracing,
        }


def user_row(user: User) -> dict[str, Any]:
    return {
        "name": user.name,
        "password_hash": base64.b64encode(user.password_hash).decode(),
        "hashing_algorithm": user.hashing_algorithm,
        "tags": user.tags,
        "limits": user.limits,
    }


def permission_row(permission: Permission) -> dict[str, Any]:
    return {
        "user": permission.user,
        "vhost": permission.vhost,
        "configure": permission.configure,
        "write": permission.write,
        "read": permission.read,
    }


def topic_permission_row(permission: TopicPermission) -> dict[str, Any]:
    return {
        "user": permission.user,
        "vhost": permission.vhost,
        "exchange": permission.exchange,
        "write": permission.write,
        "read": permission.read,
    }
