"""Samples every object of a node every few seconds.

A pass visits every queue, exchange, connection and channel, then the virtual hosts, the node's totals, the process and
its links to other nodes. It is a generator, so its driver can let the event loop run between steps.

The slot of a pass is the time divided by the interval. Passes are scheduled for the middle of their slots, so a pass
that is a little late or early still falls into its slot. A second pass in the same slot is skipped. A slot without a
pass has the values of the slot before.

The rate of a value is its growth in the last pass.

*Collections.* A pass over one kind of object visits the existing series, drops those whose object is gone and records
those that changed. Only if there are then fewer series than objects does it search for new objects. A new object's
counts so far happened since the last pass.

*Channels by queue and exchange.* Only channels that changed are visited, and only the last two visits are kept. A
channel that uses very many queues is not broken down.

Not here: the samples (`history.series`), which values there are (`history.counters`), timers (`history.stats_history`).
"""

from collections.abc import Callable, Container, Hashable, Iterator
from typing import Any, Generic, TypeVar, cast

from warren.admin.history.counters import node_sample, overview_sample, vhost_sample
from warren.admin.history.series import (
    SAMPLES_BYTES_MAX,
    Retention,
    RetentionPolicies,
    SampleSeries,
    retention_policies,
)
from warren.admin.ports import LinkFacts, NodeFacts
from warren.broker.broker import Broker
from warren.broker.model.ports import QueuePort
from warren.broker.routing.exchanges import Exchange
from warren.broker.sessions.connection import Channel
from warren.broker.snapshots import (
    GONE,
    ChannelSnapshot,
    ConnectionSnapshot,
    ExchangeSnapshot,
    QueueSnapshot,
    Snapshot,
    delivery_stats,
)
from warren.broker.vhost import Vhost

STEP_OBJECTS = 256

Subject = TypeVar("Subject")


class SampleBudget:
    """The bytes left for samples of single objects of all kinds."""

    def __init__(self, bytes_max: int = SAMPLES_BYTES_MAX) -> None:
        self.left_bytes = bytes_max


class SeriesCollection(Generic[Subject]):
    """The series of all objects of one kind."""

    def __init__(
        self,
        shape: Retention,
        shapes: RetentionPolicies,
        budget: SampleBudget,
        subjects: Callable[[], list[tuple[Hashable, Subject]]],
        count: Callable[[], int],
        snapshot: Callable[[Subject], Snapshot],
    ) -> None:
        self.all_series: dict[Hashable, SampleSeries] = {}
        self._shape = shape
        self._short = shapes.short(shape)
        self._kept_slots = max(level.every * level.size for level in shape.levels)
        self._budget = budget
        self._subjects = subjects
        self._count = count
        self._snapshot = snapshot
        self._slot = 0
        # when each step of the last pass ran
        self._stepped_at_ms: list[int] = []

    def begin(self, slot: int, now_ms: int) -> None:
        """Start with the current values; they are not growth."""
        self._slot = slot
        self._stepped_at_ms = [now_ms]
        for key, subject in self._subjects():
            snapshot = self._snapshot(subject)
            snapshot.look()
            self.all_series[key] = SampleSeries(self._shape, slot, snapshot.stats(), snapshot)

    def look(self, slot: int, now_ms: Callable[[], int]) -> Iterator[list[Hashable]]:
        """The keys of objects that changed, step by step."""
        looked_at_ms, self._stepped_at_ms = self._stepped_at_ms, []
        all_series = list(self.all_series.items())
        for number, first in enumerate(range(0, len(all_series), STEP_OBJECTS)):
            at_ms = now_ms()
            gap_ms = at_ms - looked_at_ms[min(number, len(looked_at_ms) - 1)]
            self._stepped_at_ms.append(at_ms)
            yield self._look_at(all_series[first : first + STEP_OBJECTS], slot, gap_ms)
        if not self._stepped_at_ms:
            self._stepped_at_ms.append(now_ms())
        if len(self.all_series) != self._count():
            yield from self._find_new(slot, now_ms() - looked_at_ms[0])
        self._slot = slot

    def free_idle(self) -> None:
        """Free the samples of objects that have not changed for longer than samples are kept."""
        for series in self.all_series.values():
            if series.points is not None and self._slot - series.slot > self._kept_slots:
                self._budget.left_bytes += series.samples_bytes
                series.rest()

    def _look_at(self, all_series: list[tuple[Hashable, SampleSeries]], slot: int, gap_ms: int) -> list[Hashable]:
        changed: list[Hashable] = []
        for key, series in all_series:
            snapshot = series.snapshot
            assert snapshot is not None
            seen = snapshot.look()
            if not seen:
                continue
            if seen == GONE:
                self._budget.left_bytes += series.samples_bytes
                del self.all_series[key]
                continue
            self._record(series, slot, gap_ms, snapshot.stats())
            changed.append(key)
        return changed

    def _find_new(self, slot: int, gap_ms: int) -> Iterator[list[Hashable]]:
        subjects = self._subjects()
        for first in range(0, len(subjects), STEP_OBJECTS):
            found: list[Hashable] = []
            for key, subject in subjects[first : first + STEP_OBJECTS]:
                if key not in self.all_series and self._begin_track(key, subject, slot, gap_ms):
                    found.append(key)
            yield found

    def _begin_track(self, key: Hashable, subject: Subject, slot: int, gap_ms: int) -> bool:
        """False if the object is gone, for example a channel that is closed and waits for the client's close-ok."""
        snapshot = self._snapshot(subject)
        if snapshot.look() == GONE:
            return False
        stats = snapshot.stats()
        series = self.all_series[key] = SampleSeries(self._shape, slot, stats, snapshot)
        if any(stats):
            series.last, series.slot = [0] * len(stats), slot - 1
            series.born = slot - 1
            self._record(series, slot, gap_ms, stats)
        return True

    def _record(self, series: SampleSeries, slot: int, gap_ms: int, stats: list[int]) -> None:
        columns = series.changed_columns(stats)
        if columns is not series.columns:
            self._widen(series, columns)
        series.record(slot, gap_ms, stats)

    def _widen(self, series: SampleSeries, columns: tuple[int, ...]) -> None:
        had_bytes = series.samples_bytes
        shape = series.shape if series.points is not None else self._shape
        if series.points is None and self._budget.left_bytes <= 0:
            shape = self._short
        series.widen(columns, shape)
        self._budget.left_bytes -= series.samples_bytes - had_bytes


PARTS_MAX = 200

ChannelPartCounts = dict[tuple[str, str], list[int]]


class _LastTwo:
    """The last two visits to a channel."""

    __slots__ = ("before", "gap_ms", "last", "slot")

    def __init__(self, slot: int, gap_ms: int, before: ChannelPartCounts, last: ChannelPartCounts) -> None:
        self.slot = slot
        self.gap_ms = gap_ms
        self.before = before
        self.last = last


class ChannelBreakdown:
    """What each channel did by queue and by exchange."""

    def __init__(self) -> None:
        self._looks: dict[Hashable, _LastTwo] = {}

    def look(self, key: Hashable, channel: Channel, slot: int, gap_ms: int) -> None:
        """Record a channel that changed since the last pass."""
        counters = channel.counters
        if len(counters.published_to) + len(counters.taken_from) > PARTS_MAX:
            self._looks.pop(key, None)
            return
        seen: ChannelPartCounts = {
            ("channel_exchange", name): [count] for name, count in channel.published_to().items()
        }
        for name, stats in channel.taken_from().items():
            seen["channel_queue", name] = delivery_stats(stats)
        known = self._looks.get(key)
        self._looks[key] = _LastTwo(slot, gap_ms, {} if known is None else known.last, seen)

    def keep_only(self, channels: Container[Hashable]) -> None:
        """Forget channels that are gone."""
        gone = [key for key in self._looks if key not in channels]
        for key in gone:
            del self._looks[key]

    def grown(self, kind: str, key: tuple[int, int, str], slot: int) -> tuple[list[int], int] | None:
        """The growth of the values in the last pass, and the time it took."""
        connection_id, number, name = key
        looks = self._looks.get((connection_id, number))
        if looks is None or looks.slot < slot:
            return None
        last = looks.last.get((kind, name))
        if last is None:
            return None
        before = looks.before.get((kind, name)) or [0] * len(last)
        return [after - earlier for after, earlier in zip(last, before, strict=True)], looks.gap_ms


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
        # the slot of the last complete pass
        self.slot = 0
        self.parts = ChannelBreakdown()
        self._broker = broker
        self._facts = facts
        self._links = links
        self._samples_bytes_max = samples_bytes_max
        self._shapes = retention_policies(interval_ms)
        self._whole = self._shapes.whole
        self._collections: dict[str, SeriesCollection[Any]] = {}
        self._wholes: dict[tuple[str, Hashable], SampleSeries] = {}
        self._passed_at_ms = 0

    def begin(self) -> None:
        """Start from the current values and forget all samples."""
        self.parts = ChannelBreakdown()
        self._collections = self._new_collections()
        self._wholes = {}
        now_ms = self._facts.now_ms()
        self.slot = now_ms // self.interval_ms
        self._passed_at_ms = now_ms
        for collection in self._collections.values():
            collection.begin(self.slot, now_ms)
        for key, stats in self._read_wholes():
            self._wholes[key] = SampleSeries(self._whole, self.slot, stats)

    def take(self) -> Iterator[None]:
        """One pass, step by step."""
        slot = self._facts.now_ms() // self.interval_ms
        if slot <= self.slot:
            return
        for kind, collection in self._collections.items():
            for changed in collection.look(slot, self._facts.now_ms):
                if kind == "channel":
                    self._look_at_parts(changed, slot, collection)
                yield
            if slot % _TIDY_EVERY_SLOTS == 0:
                collection.free_idle()
                yield
        self.parts.keep_only(self._collections["channel"].all_series)
        self._record_wholes(slot)
        self.slot = slot

    def series(self, kind: str, key: Hashable) -> SampleSeries | None:
        collection = self._collections.get(kind)
        return self._wholes.get((kind, key)) if collection is None else collection.all_series.get(key)

    def now_ms(self) -> int:
        return self._facts.now_ms()

    @property
    def samples_bytes(self) -> int:
        """The size of the samples of single objects."""
        return sum(series.samples_bytes for each in self._collections.values() for series in each.all_series.values())

    # -- totals

    def _record_wholes(self, slot: int) -> None:
        now_ms = self._facts.now_ms()
        gap_ms, self._passed_at_ms = now_ms - self._passed_at_ms, now_ms
        recorded: dict[tuple[str, Hashable], SampleSeries] = {}
        for key, stats in self._read_wholes():
            series = self._wholes.get(key)
            if series is None:
                # a virtual host or a link that is new since the last pass
                series = SampleSeries(self._whole, self.slot, [0] * len(stats))
            if stats != series.last:
                columns = series.changed_columns(stats)
                if columns is not series.columns:
                    series.widen(columns, self._whole)
                series.record(slot, gap_ms, stats)
            recorded[key] = series
        self._wholes = recorded

    def _read_wholes(self) -> Iterator[tuple[tuple[str, Hashable], list[int]]]:
        of_vhosts: list[list[int]] = []
        for name, vhost in self._broker.vhosts.items():
            of_vhosts.append(vhost_sample(vhost))
            yield ("vhost", name), of_vhosts[-1]
        yield ("overview", ""), overview_sample(self._broker, of_vhosts)
        yield ("node", self._facts.name), node_sample(self._broker, self._facts)
        for link in self._links():
            yield ("link", link.key), [link.sent_bytes, link.received_bytes]

    # -- single objects

    def _new_collections(self) -> dict[str, SeriesCollection[Any]]:
        shapes, budget = self._shapes, SampleBudget(self._samples_bytes_max)
        counts, sizes = shapes.counts, shapes.sizes
        return {
            "queue": SeriesCollection(counts, shapes, budget, self._queues, self._queue_count, self._queue_snapshot),
            "exchange": SeriesCollection(
                counts, shapes, budget, self._exchanges, self._exchange_count, ExchangeSnapshot
            ),
            "connection": SeriesCollection(
                sizes, shapes, budget, self._connections, self._connection_count, ConnectionSnapshot
            ),
            "channel": SeriesCollection(counts, shapes, budget, self._channels, self._channel_count, ChannelSnapshot),
        }

    def _queues(self) -> list[tuple[Hashable, tuple[QueuePort, Vhost]]]:
        vhosts = self._broker.vhosts.values()
        return [((v.name, name), (queue, v)) for v in vhosts for name, queue in v.topology.queues.items()]

    def _queue_snapshot(self, subject: tuple[QueuePort, Vhost]) -> QueueSnapshot:
        return QueueSnapshot(*subject)

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

    def _look_at_parts(self, keys: list[Hashable], slot: int, collection: SeriesCollection[Channel]) -> None:
        for key in keys:
            connection_id, number = cast(tuple[int, int], key)
            connection = self._broker.connections.get(connection_id)
            channel = None if connection is None else connection.channels.get(number)
            if channel is not None:
                self.parts.look(key, channel, slot, collection.all_series[key].gap_ms)
