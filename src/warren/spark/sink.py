"""Spark's writers: a task encodes its rows, and ends well when the broker has confirmed them all.

Writers are made in the driver, where columns and options are checked, and travel to the tasks. A batch write without
option `publisher` gets a name of its own there, which all attempts of its tasks share.

Nothing is done at the end of a batch: every message counts from its confirm, and a batch that is written again is
dropped by its ids. So a batch that is aborted may have arrived in part, and its repetition completes it.

Spark starts a process for the end of every micro-batch; what only tasks need is imported where they begin.

Not here: ids, frames, confirms (`spark.sinking`).
"""

import uuid
from collections.abc import Iterator
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from warren.spark.options import OptionError, WriteOptions
from warren.spark.sinking.columns import check_columns
from warren.spark.sinking.ids import TASK_ROWS_MAX, Author, batch_author, stream_author

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"


class BatchWriter(DataSourceArrowWriter):
    """`df.write.format("warren")`."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        _check(options, schema, overwrite)
        self._options = options
        self._job = options.publisher or f"spark-{uuid.uuid4().hex}"

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return _write(self._options, batch_author(self._job, _task().partitionId()), iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream.format("warren")`."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        _check(options, schema, overwrite)
        self._options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        task = _task()
        query, batch = task.getLocalProperty(QUERY_ID), task.getLocalProperty(BATCH_ID)
        if query is None or batch is None:
            raise RuntimeError("Spark does not say which query and batch this is; without them rows have no ids")
        author = stream_author(self._options.publisher, query, batch, task.partitionId())
        return _write(self._options, author, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Every message counts from its confirm."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """What has arrived stays; the batch that comes again completes it."""


def _check(options: WriteOptions, schema: StructType, overwrite: bool) -> None:
    if overwrite:
        raise OptionError("messages are added to a queue, and nothing there is overwritten: use mode append")
    check_columns({field.name.lower(): field.dataType.simpleString() for field in schema.fields}, options)


def _task() -> TaskContext:
    task = TaskContext.get()
    if task is None:
        raise RuntimeError("rows are written in tasks of Spark")
    return task


def _write(options: WriteOptions, author: Author, batches: Iterator[Any]) -> WriterCommitMessage:
    from warren.spark.sinking.encoding import RowEncoder
    from warren.spark.sinking.publishing import ConfirmedPublisher, SinkError

    rows, rows_max = 0, options.max_records_per_task or TASK_ROWS_MAX
    with ConfirmedPublisher(options.broker, f"spark sink {author.publisher}") as publisher:
        encoder = RowEncoder(options, author, publisher.payload_max)
        for batch in batches:
            rows += batch.num_rows
            if rows > rows_max:
                raise SinkError(
                    f"a task has more than {rows_max} rows, and the broker could not tell which of them it has if the "
                    "task ran again: repartition() them into more tasks, or allow it with option maxRecordsPerTask"
                )
            for piece in encoder.pieces(batch):
                publisher.send(piece)
        publisher.finish()
    return WriterCommitMessage()
