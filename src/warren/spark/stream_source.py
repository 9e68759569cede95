"""Spark's readers of streams: a batch between two offsets, and an endless table in micro-batches.

Spark plans in the driver and reads in tasks. It plans *slices*: a partition's queue, and offsets. It may run the same
plan again, after a crash of a task or of itself, and gets the same rows.

**Limits.** `maxRecordsPerTrigger` is exact. `maxBytesPerTrigger` is estimated from the average size of bodies where the
micro-batch begins. At least one message is taken.

**Progress** is in Spark's checkpoint. With `consumerName` it is also stored at the broker, for its pages: when a
micro-batch is planned, everything before it is done.

Spark starts a process to plan each micro-batch. The client and Arrow are imported only by the processes that read.

Not here: options (`spark.options`), chunks (`spark.stream_client`).
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from warren.spark.options import OptionError, StreamOptions
from warren.spark.stream_offsets import (
    EARLIEST,
    LATEST,
    OffsetRange,
    Offsets,
    parse_offset_specs,
    ranges_between,
    share_limit,
    split_ranges,
)

if TYPE_CHECKING:
    from warren.spark.stream_client import OffsetBounds, StreamOffsetReader


def batch_reader(options: StreamOptions) -> DataSourceReader:
    for name, value in (
        ("maxRecordsPerTrigger", options.max_records_per_trigger),
        ("maxBytesPerTrigger", options.max_bytes_per_trigger),
        ("consumerName", options.consumer_name),
    ):
        if value is not None:
            raise OptionError(f"option {name} makes no sense for a batch, which has no triggers")
    _check(options)
    return StreamBatchReader(options)


def stream_reader(options: StreamOptions) -> DataSourceStreamReader:
    if options.ending_offsets is not None:
        raise OptionError("option endingOffsets makes no sense for a streaming read, which does not end")
    _check(options)
    return StreamMicroBatchReader(options)


def _check(options: StreamOptions) -> None:
    """Check offsets as far as possible without the broker."""
    for name, text in (("startingOffsets", options.starting_offsets), ("endingOffsets", options.ending_offsets)):
        if text is not None:
            parse_offset_specs(name, text)


class StreamSlice(InputPartition):
    """The range of one task."""

    def __init__(self, queue: str, offsets: OffsetRange) -> None:
        super().__init__(offsets)
        self.queue = queue
        self.offsets = offsets


class SliceReader:
    """Reads slices, in any process."""

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._known: StreamOffsetReader | None = None

    @property
    def _places(self) -> "StreamOffsetReader":
        if self._known is None:
            from warren.spark.stream_client import StreamOffsetReader

            self._known = StreamOffsetReader(self._options.broker, self._options.stream)
        return self._known

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Batches of Arrow."""
        from warren.spark.stream_chunks import ChunkProjection
        from warren.spark.stream_client import ChunkFeed, ChunkRequest

        assert isinstance(partition, StreamSlice)
        options, offsets = self._options, partition.offsets
        shape = ChunkProjection(options.columns, offsets.partition)
        feed = ChunkFeed(
            ChunkRequest(
                options.broker,
                partition.queue,
                offsets.start,
                offsets.end,
                shape.needs_bodies,
                options.fail_on_data_loss,
            )
        )
        for start, chunk in feed.chunks():
            yield shape.batch(chunk, start, offsets.end)

    def slices(self, ranges: list[OffsetRange]) -> list[StreamSlice]:
        """At least one slice, perhaps empty, because Spark plans at least one task."""
        queues = self._places.queues()
        cut = split_ranges(ranges, self._options.min_partitions) or [OffsetRange(0, 0, 0)]
        return [StreamSlice(queues[each.partition], each) for each in cut]


class StreamBatchReader(SliceReader, DataSourceReader):
    """From `startingOffsets` to `endingOffsets`, both resolved when the batch is planned."""

    def partitions(self) -> list[StreamSlice]:
        options, places = self._options, self._places
        try:
            bounds = places.bounds()
            starts = places.resolve("startingOffsets", options.starting_offsets or EARLIEST, bounds)
            ends = places.resolve("endingOffsets", options.ending_offsets or LATEST, bounds)
            if options.fail_on_data_loss:
                places.check_not_lost(starts, bounds)
            return self.slices([OffsetRange(number, starts[str(number)], ends[str(number)]) for number in bounds])
        finally:
            places.close()


class StreamMicroBatchReader(SliceReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """From `startingOffsets` on, a micro-batch at a time."""

    def __init__(self, options: StreamOptions) -> None:
        super().__init__(options)
        # the end for an available-now query
        self._last_ends: Offsets | None = None
        self._seen_ends: Offsets | None = None
        self._stored: Offsets | None = None

    def initialOffset(self) -> Offsets:
        bounds = self._places.bounds()
        return self._places.resolve("startingOffsets", self._options.starting_offsets or LATEST, bounds)

    def getDefaultReadLimit(self) -> ReadLimit:
        options = self._options
        if options.max_records_per_trigger is not None:
            return ReadMaxRows(options.max_records_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        bounds = self._places.bounds()
        self._places.check_count(start)
        if self._options.fail_on_data_loss:
            self._places.check_not_lost(start, bounds)
        self._store_offsets(start)
        self._seen_ends = {str(number): here.end for number, here in bounds.items()}
        if self._last_ends is not None:
            bounds = {
                number: replace(here, end=min(here.end, self._last_ends[str(number)]))
                for number, here in bounds.items()
            }
        return self._admitted(start, bounds, not isinstance(limit, ReadAllAvailable))

    def reportLatestOffset(self) -> Offsets | None:
        return self._seen_ends

    def prepareForTriggerAvailableNow(self) -> None:
        self._last_ends = {str(number): here.end for number, here in self._places.bounds().items()}

    def partitions(self, start: Offsets, end: Offsets) -> list[StreamSlice]:
        return self.slices(ranges_between(start, end))

    def commit(self, end: Offsets) -> None:
        self._store_offsets(end)

    def stop(self) -> None:
        if self._known is not None:
            self._known.close()

    def _store_offsets(self, done: Offsets) -> None:
        if self._options.consumer_name is not None and done != self._stored:
            self._places.store(self._options.consumer_name, done)
            self._stored = done

    def _admitted(self, start: Offsets, bounds: "dict[int, OffsetBounds]", limited: bool) -> Offsets:
        """The end of the micro-batch."""
        starts = {number: _first_readable(start[str(number)], here) for number, here in bounds.items()}
        taken = {number: here.end - starts[number] for number, here in bounds.items()}
        if limited and self._options.max_records_per_trigger is not None:
            taken = share_limit(taken, self._options.max_records_per_trigger)
        if limited and self._options.max_bytes_per_trigger is not None:
            taken = self._within_bytes(starts, taken, self._options.max_bytes_per_trigger)
        return {str(number): starts[number] + count if count else start[str(number)] for number, count in taken.items()}

    def _within_bytes(self, starts: dict[int, int], counts: dict[int, int], limit: int) -> dict[int, int]:
        waiting = [number for number, count in counts.items() if count > 0]
        if not waiting:
            return counts
        sizes = {
            number: self._places.body_bytes(number, starts[number], starts[number] + counts[number])
            for number in waiting
        }
        room = share_limit({number: math.ceil(counts[number] * size) for number, size in sizes.items()}, limit)
        taken = {number: min(counts[number], int(room[number] / sizes[number])) for number in waiting}
        if not any(taken.values()):
            taken[waiting[0]] = 1
        return counts | taken


def _first_readable(start: int, here: "OffsetBounds") -> int:
    """The first readable offset: not before the first message, and the beginning of a stream that was created again."""
    return here.first if start > here.end else max(start, here.first)
