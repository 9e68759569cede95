"""Spark's readers of a queue: a batch browses it, a stream consumes it.

**A stream** stages messages in the driver's process that Spark keeps for the query, and reads them in tasks
(`warren.spark` has the theory). Its offset is `{"next": N}`: how many messages of the queue were staged before.

**A batch** cannot consume, because Spark does not report when it has processed what it read. It takes the messages that
are in the queue when its task begins, acks nothing, and requeues everything.

Not here: streams (`spark.stream_source`), the columns (`spark.options`), files (`spark.queue_staging`).
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from warren.client import ClientError, Delivery, blocking
from warren.spark.arrow_columns import arrow_schema, clean_text, property_columns
from warren.spark.options import COLUMNS, OptionError, QueueOptions
from warren.spark.queue_consumer import DIGEST_BYTES, IdentifiedDelivery, IntakeError, QueueConsumer, identify
from warren.spark.queue_staging import IDENTITY, StagedFile, StagingFolder, files_between, read_file


def rows_of(arrivals: Sequence[IdentifiedDelivery], first: int) -> Any:
    """A batch with all columns and the identity of each message; offsets from `first`."""
    count = len(arrivals)
    now_us = time.time_ns() // 1000
    message_ids, properties, headers = property_columns(pa.array([each.tail for each in arrivals], pa.binary()))
    columns = {
        "partition": pa.array([0] * count, pa.int32()),
        "offset": pa.array(range(first, first + count), pa.int64()),
        "timestamp": pa.array([now_us] * count, pa.timestamp("us", tz="UTC")),
        "exchange": pa.array([clean_text(each.delivery.exchange) for each in arrivals], pa.string()),
        "routing_key": pa.array([clean_text(each.delivery.routing_key) for each in arrivals], pa.string()),
        "message_id": message_ids,
        "properties": properties,
        "headers": headers,
        "body": pa.array([each.delivery.body for each in arrivals], pa.binary()),
        IDENTITY: pa.array([each.identity for each in arrivals], pa.binary(DIGEST_BYTES)),
    }
    schema = arrow_schema(tuple(COLUMNS)).append(pa.field(IDENTITY, pa.binary(DIGEST_BYTES)))
    return pa.RecordBatch.from_arrays([columns[field.name] for field in schema], schema=schema)


def select_columns(batch: Any, columns: Sequence[str]) -> Any:
    """The columns that a reader wants."""
    return batch.select(list(columns))


RECORDS_MAX: Final = 100_000
BYTES_MAX: Final = 64 * 1024 * 1024
FILE_BYTES: Final = 16 * 1024 * 1024
FILE_RECORDS: Final = 25_000
"""The messages of one task."""

WAIT_S: Final = 0.05
LAST_WAIT_S: Final = 1.0
"""How long a queue is silent before a query that ends with the queue asks whether it is empty."""

GATHER_S: Final = 1.0


def batch_reader(options: QueueOptions) -> DataSourceReader:
    if options.mode == "consume":
        raise OptionError(
            "a batch read cannot consume a queue, because Spark does not say when it is done with it: "
            "use readStream with trigger(availableNow=True)"
        )
    if options.staging_dir is not None:
        raise OptionError("option stagingDir is for readStream; a batch read browses the queue")
    return QueueBrowser(options)


def stream_reader(options: QueueOptions) -> DataSourceStreamReader:
    if options.mode == "browse":
        raise OptionError("readStream consumes a queue, and cannot browse it: use read, or a stream")
    if options.staging_dir is None:
        raise OptionError(
            "readStream of a queue needs option stagingDir: a folder that driver and executors share, "
            "where messages are kept until they are processed"
        )
    return QueueStreamReader(options, _local(options.staging_dir))


def _local(folder: str) -> str:
    """The path of a folder that may be given as a URL."""
    scheme, colon, path = folder.partition(":/")
    if not colon:
        return folder
    if scheme != "file":
        raise OptionError(f"option stagingDir is a folder of a file system that all machines mount, not {folder!r}")
    return "/" + path.lstrip("/")


class WholeQueuePartition(InputPartition):
    """The whole queue."""

    def __init__(self) -> None:
        super().__init__(0)


class QueueBrowser(DataSourceReader):
    """`spark.read.format("warren").option("queue", ...)`."""

    def __init__(self, options: QueueOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        return [WholeQueuePartition()]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        queue = self._options.queue
        try:
            with blocking.connect(self._options.broker.url, name=f"spark browser {queue}") as connection:
                yield from self._rows(connection.channel())
        except ClientError as trouble:
            raise IntakeError(f"queue {queue!r} cannot be read: {trouble}") from None

    def _rows(self, channel: blocking.Channel) -> Iterator[Any]:
        first, left = 0, self._waiting(channel)
        if not left:
            return
        # without this, a new master of a mirrored queue would deliver everything again
        consumer = channel.consume(self._options.queue, arguments={"x-cancel-on-ha-failover": True})
        while left > 0 and (deliveries := self._some(channel, consumer)[:left]):
            yield select_columns(rows_of([identify(each) for each in deliveries], first), self._options.columns)
            first += len(deliveries)
            left -= len(deliveries)

    def _some(self, channel: blocking.Channel, consumer: blocking.Consumer) -> list[Delivery]:
        """The next deliveries; none if other consumers have taken the rest."""
        deadline = time.monotonic() + self._options.broker.timeout_s
        while not (deliveries := consumer.batch(LAST_WAIT_S)):
            waiting = self._waiting(channel)
            if not waiting:
                # deliveries before that answer
                return consumer.batch(0.0)
            if time.monotonic() > deadline:
                raise IntakeError(f"queue {self._options.queue!r} has {waiting} messages and delivers none of them")
        return deliveries

    def _waiting(self, channel: blocking.Channel) -> int:
        return channel.declare_queue(self._options.queue, passive=True).messages


class StagedPartition(InputPartition):
    """One file of the staging folder."""

    def __init__(self, path: str) -> None:
        super().__init__(path)


class QueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`spark.readStream.format("warren").option("queue", ...)`.

    Spark makes several readers; the one that is asked for offsets opens the folder and the queue.
    """

    def __init__(self, options: QueueOptions, staging_dir: str) -> None:
        self._options = options
        self._folder = Path(staging_dir)
        self._staging: StagingFolder | None = None
        self._intake = QueueConsumer(options.broker, options.queue)
        # how many messages an available-now query takes
        self._quota: int | None = None

    def initialOffset(self) -> dict[str, int]:
        return {"next": self._open().committed}

    def getDefaultReadLimit(self) -> ReadLimit:
        """The reader itself limits how much is staged at a time."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._open()
        self._quota = self._intake.count()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        staging = self._open()
        begin = start["next"]
        # Spark plans a batch when the one before is done and recorded, and calls `commit` only after that
        self.commit(start)
        staged = _within(staging.files, begin, self._options.max_records_per_trigger or RECORDS_MAX)
        if staged > begin:
            return {"next": staged}
        staging.skip_to(begin)
        self._stage(staging)
        return {"next": staging.end}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        files = files_between(self._folder, start["next"], end["next"])
        return [StagedPartition(file.path) for file in files]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        for batch in read_file(partition.value):
            yield select_columns(batch, self._options.columns)

    def commit(self, end: dict[str, int]) -> None:
        staging = self._open()
        if end["next"] > staging.committed:
            staging.commit(end["next"])
            self._intake.commit(end["next"])
            self._drop_done(staging)

    def stop(self) -> None:
        self._intake.close()
        if self._staging is not None:
            self._staging.close()
            self._staging = None

    def _open(self) -> StagingFolder:
        if self._staging is None:
            self._staging = StagingFolder(self._folder, self._options.queue, self._options.broker.timeout_s)
            for file in self._staging.files:
                for batch in read_file(file.path):
                    self._intake.add_staged(file.first, batch.column(IDENTITY).to_pylist(), self._staging.committed)
        return self._staging

    def _stage(self, staging: StagingFolder) -> None:
        """Stage the messages of the queue, up to the limits, file by file."""
        records = self._options.max_records_per_trigger or RECORDS_MAX
        size = self._options.max_bytes_per_trigger or BYTES_MAX
        deadline = time.monotonic() + GATHER_S
        give_up_at = time.monotonic() + self._options.broker.timeout_s
        while records > 0 and size > 0 and self._quota != 0:
            count_max = min(records, FILE_RECORDS, records if self._quota is None else self._quota)
            wait_s = WAIT_S if self._quota is None else LAST_WAIT_S
            arrivals = self._intake.take(count_max, min(size, FILE_BYTES), wait_s, GATHER_S)
            if not arrivals:
                # a broker that is slow to deliver is not an empty queue
                if self._quota is None or time.monotonic() > give_up_at or not self._intake.has_more():
                    break
                continue
            file = staging.stage(rows_of(arrivals, staging.end))
            self._intake.staged(file.first, arrivals)
            records -= len(arrivals)
            size -= sum(len(each.delivery.body) for each in arrivals)
            if self._quota is not None:
                self._quota -= len(arrivals)
            elif time.monotonic() > deadline:
                break
        self._drop_done(staging)

    def _drop_done(self, staging: StagingFolder) -> None:
        pending = self._intake.pending
        for file in list(staging.files):
            if file.end <= staging.committed and pending.isdisjoint(range(file.first, file.end)):
                staging.drop(file)


def _within(files: Sequence[StagedFile], begin: int, records: int) -> int:
    """The end of the files after an offset that have at most `records` records, at least one file."""
    end = begin
    for file in files:
        if file.first == end and (end == begin or file.end - begin <= records):
            end = file.end
    return end
