"""Looks at everything in a node every few seconds, and remembers.

A pass looks at every queue, exchange, connection and channel, then at the virtual hosts, the whole, the process and its
links to other nodes.
It is a generator: whoever drives it may let the loop go on between any two steps.

The slot of a pass is the time divided by the interval, and passes are meant to be in the middle of their slots, so
that one that is late or early is in the right slot still. A pass whose slot has been sampled is none; slots that
nobody sampled are taken to be like the one before.

How fast a figure grows is told by the last pass alone: what did not move in it grows by nothing.

Not here: samples (`history.track`), their kinds (`history.kinds`), timers (`history.history`).
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Any, cast

from warren.admin.cluster.peer_port import LinkFacts
from warren.admin.history.collection import Collection, Room
from warren.admin.history.kinds import node_figures, overview_figures, vhost_figures
from warren.admin.history.parts import ChannelParts
from warren.admin.history.shapes import SAMPLES_BYTES_MAX, shapes_for
from warren.admin.history.track import Track
from warren.admin.node_facts import NodeFacts
from warren.broker.broker import Broker
from warren.broker.watching.glances import ChannelGlance, ConnectionGlance, ExchangeGlance, QueueGlance
from warren.model.ports import QueuePort
from warren.routing.exchange import Exchange
from warren.session.channel import Channel

SAMPLE_EVERY_MS = 5000
_TIDY_EVERY_SLOTS = 12


class Sampler:
    """The samples of one node."""

    def __init__(
        self,
        broker: Broker,
        facts: NodeFacts,
        interval_ms: int = SAMPLE_EVERY_MS,
        samples_bytes_max: int = SAMPLES_BYTES_MAX,
        links: Callable[[], list[LinkFacts]] = list,
    ) -> None:
        self.interval_ms = interval_ms
        # the slot of the last pass that is complete
        self.slot = 0
        self.parts = ChannelParts()
        self._broker = broker
        self._facts = facts
        self._links = links
        self._samples_bytes_max = samples_bytes_max
        self._shapes = shapes_for(interval_ms)
        self._whole = self._shapes.whole
        self._collections: dict[str, Collection[Any]] = {}
        self._wholes: dict[tuple[str, Hashable], Track] = {}
        self._passed_at_ms = 0

    def begin(self) -> None:
        """What there is, is where everything starts from; whatever was remembered is forgotten."""
        self.parts = ChannelParts()
        self._collections = self._new_collections()
        self._wholes = {}
        now_ms = self._facts.now_ms()
        self.slot = now_ms // self.interval_ms
        self._passed_at_ms = now_ms
        for collection in self._collections.values():
            collection.begin(self.slot, now_ms)
        for key, figures in self._read_wholes():
            self._wholes[key] = Track(self._whole, self.slot, figures)

    def take(self) -> Iterator[None]:
        """One pass, step by step."""
        slot = self._facts.now_ms() // self.interval_ms
        if slot <= self.slot:
            return
        for kind, collection in self._collections.items():
            for stirred in collection.look(slot, self._facts.now_ms):
                if kind == "channel":
                    self._look_at_parts(stirred, slot, collection)
                yield
            if slot % _TIDY_EVERY_SLOTS == 0:
                collection.forget_stillness()
                yield
        self.parts.keep_only(self._collections["channel"].tracks)
        self._record_wholes(slot)
        self.slot = slot

    def track(self, kind: str, key: Hashable) -> Track | None:
        collection = self._collections.get(kind)
        return self._wholes.get((kind, key)) if collection is None else collection.tracks.get(key)

    def now_ms(self) -> int:
        return self._facts.now_ms()

    @property
    def samples_bytes(self) -> int:
        """What is kept of single objects."""
        return sum(track.samples_bytes for each in self._collections.values() for track in each.tracks.values())

    # -- wholes

    def _record_wholes(self, slot: int) -> None:
        now_ms = self._facts.now_ms()
        gap_ms, self._passed_at_ms = now_ms - self._passed_at_ms, now_ms
        recorded: dict[tuple[str, Hashable], Track] = {}
        for key, figures in self._read_wholes():
            track = self._wholes.get(key)
            if track is None:
                # a virtual host, or a link, that was made since
                track = Track(self._whole, self.slot, [0] * len(figures))
            if figures != track.last:
                columns = track.stirred_columns(figures)
                if columns is not track.columns:
                    track.widen(columns, self._whole)
                track.record(slot, gap_ms, figures)
            recorded[key] = track
        self._wholes = recorded

    def _read_wholes(self) -> Iterator[tuple[tuple[str, Hashable], list[int]]]:
        of_vhosts: list[list[int]] = []
        for name, vhost in self._broker.vhosts.items():
            of_vhosts.append(vhost_figures(vhost))
            yield ("vhost", name), of_vhosts[-1]
        yield ("overview", ""), overview_figures(self._broker, of_vhosts)
        yield ("node", self._facts.name), node_figures(self._broker, self._facts)
        for link in self._links():
            yield ("link", link.key), [link.sent_bytes, link.received_bytes]

    # -- single objects

    def _new_collections(self) -> dict[str, Collection[Any]]:
        shapes, room = self._shapes, Room(self._samples_bytes_max)
        counts, sizes = shapes.counts, shapes.sizes
        return {
            "queue": Collection(counts, shapes, room, self._queues, self._queue_count, self._glance_at_queue),
            "exchange": Collection(counts, shapes, room, self._exchanges, self._exchange_count, ExchangeGlance),
            "connection": Collection(sizes, shapes, room, self._connections, self._connection_count, ConnectionGlance),
            "channel": Collection(counts, shapes, room, self._channels, self._channel_count, ChannelGlance),
        }

    def _queues(self) -> list[tuple[Hashable, QueuePort]]:
        vhosts = self._broker.vhosts.values()
        return [((v.name, name), queue) for v in vhosts for name, queue in v.topology.queues.items()]

    def _glance_at_queue(self, queue: QueuePort) -> QueueGlance:
        return QueueGlance(queue, self._broker.vhosts[queue.vhost])

    def _queue_count(self) -> int:
        return sum(len(vhost.topology.queues) for vhost in self._broker.vhosts.values())

    def _exchanges(self) -> list[tuple[Hashable, Exchange]]:
        vhosts = self._broker.vhosts.values()
        return [((v.name, name), exchange) for v in vhosts for name, exchange in v.topology.exchanges.items()]

    def _exchange_count(self) -> int:
        return sum(len(vhost.topology.exchanges) for vhost in self._broker.vhosts.values())

    def _connections(self) -> list[tuple[Hashable, Any]]:
        return list(self._broker.connections.items())

    def _connection_count(self) -> int:
        return len(self._broker.connections)

    def _channels(self) -> list[tuple[Hashable, Channel]]:
        connections = self._broker.connections.values()
        return [((c.connection_id, number), channel) for c in connections for number, channel in c.channels.items()]

    def _channel_count(self) -> int:
        return sum(len(connection.channels) for connection in self._broker.connections.values())

    def _look_at_parts(self, keys: list[Hashable], slot: int, collection: Collection[Channel]) -> None:
        for key in keys:
            connection_id, number = cast(tuple[int, int], key)
            connection = self._broker.connections.get(connection_id)
            channel = None if connection is None else connection.channels.get(number)
            if channel is not None:
                self.parts.look(key, channel, slot, collection.tracks[key].gap_ms)
