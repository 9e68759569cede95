"""Who holds a mirrored queue, as operators see it: under RabbitMQ's names, and the ring with its story under ours.

Mirrors are told in the order in which they came to the ring. Those that are away are not in `slave_nodes`, as in
RabbitMQ; they are among the `recoverable_slaves`, which have what they had.

A queue serves its clients while its mirrors catch up, and yet its state is `syncing`, as operators know it.

Not here: the queue's own figures (`views.queues`).
"""

from datetime import UTC, datetime
from typing import Any

from warren.broker.broker import Broker
from warren.broker.mirrors.catching_up import CatchingUp
from warren.broker.mirrors.part import Part
from warren.mirroring.story import Happening
from warren.model.rings import Ring
from warren.remote.stand_in import StandIn

Row = dict[str, Any]


class Mirrors:
    """Of the queues that a node knows."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def add(self, row: Row, queue: StandIn) -> None:
        """What RabbitMQ tells of a mirrored queue; nothing of another."""
        ring = queue.ring
        if ring is None:
            return
        mirrors = [name for name in ring.members if name != ring.master]
        running = self.running(mirrors)
        synced = ring.synced_names()
        row["slave_nodes"] = running
        row["synchronised_slave_nodes"] = [name for name in running if name in synced]
        row["recoverable_slaves"] = mirrors
        under_way = [self._progress(one) for one in self._newcomers(queue) if one.is_under_way()]
        if under_way and row.get("state") != "down":
            # of several, the one that has the farthest to go
            last = min(under_way, key=lambda one: float(one["percent"]))
            row["state"] = "syncing"
            row["sync_messages"] = last["sent"]
            row["sync_percent"] = last["percent"]
            row["sync_seconds_left"] = last.get("seconds_left")

    def ring(self, queue: StandIn) -> Row:
        """The ring, who catches up, and what happened to it of late; an empty row for a queue without one."""
        ring = queue.ring
        if ring is None:
            return {}
        part = self._part(queue)
        row = {
            "epoch": ring.epoch,
            "master": ring.master,
            "members": ring.members,
            "in_sync": ring.synced_names(),
            "catching_up": [self._progress(one) for one in self._newcomers(queue)],
            "story": [] if part is None else [_told(one) for one in reversed(part.story.happenings)],
        }
        return {"ring": row}

    def is_last_in_sync(self, ring: Ring) -> bool:
        """Whether mirrors run, and none of them could take the master's place."""
        running = self.running([name for name in ring.members if name != ring.master])
        return bool(running) and not any(name in ring.synced_names() for name in running)

    def running(self, names: list[str]) -> list[str]:
        """Those of these nodes that run, as far as is known here."""
        clustering = self._broker.clustering
        if clustering is None:
            return []
        membership = clustering.membership
        return [name for name in names if name == membership.own or membership.suspicion.is_connected(name)]

    def _part(self, queue: StandIn) -> Part | None:
        clustering = self._broker.clustering
        return (
            None if clustering is None or clustering.rings is None else clustering.rings.named(queue.vhost, queue.name)
        )

    def _newcomers(self, queue: StandIn) -> list[CatchingUp]:
        part = self._part(queue)
        return [] if part is None or part.mastery is None else part.mastery.newcomers.all()

    def _progress(self, one: CatchingUp) -> Row:
        """How far a mirror has come; `seconds_left` is known when some of it is sent."""
        wanted, sent = int(one.wanted_count), int(one.sent_count)
        row: Row = {"node": one.node, "wanted": wanted, "sent": sent, "under_way": one.is_under_way()}
        row["percent"] = round(100 * sent / wanted, 1) if wanted else 0.0
        if sent and one.is_under_way():
            taken_ms = int(self._broker.turn.now_ms - one.since_ms)
            row["seconds_left"] = round(taken_ms * (wanted - sent) / sent / 1000, 1)
        return row


def _told(happening: Happening) -> Row:
    at = datetime.fromtimestamp(happening.at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return {"at": at, "event": happening.name, **happening.facts}
