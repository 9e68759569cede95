"""Spark's writers: a task encodes its rows, and succeeds when the broker has confirmed them all.

Writers are made in the driver, which checks columns and options, and are sent to the tasks. A batch write without the
option `publisher` gets a generated name there, which all attempts of its tasks share.

Nothing is done at the end of a batch: every message counts from its confirm, and a batch that is written again is
dropped by its ids. So an aborted batch may have arrived in part, and its repetition completes it.

Spark starts a process for the end of every micro-batch; modules that only tasks need are imported there.

| column        | type                                                  | if it is not there, or null in a row    |
|---------------|-------------------------------------------------------|-----------------------------------------|
| `body`        | binary or string                                      | must be there                           |
| `exchange`    | string                                                | option `exchange`, else the default one |
| `routing_key` | string                                                | option `routingKey`, else empty         |
| `message_id`  | string                                                | no message id                           |
| `properties`  | struct of some of the fields that reading gives       | a persistent message without others     |
| `headers`     | map<string, T>, T a string, number, boolean or binary | no headers but the sink's own           |

`partition`, `offset` and `timestamp` say where a message was read, and are ignored, so that rows can be written as they
were read.

Not here: ids (`spark.publishing_ids`), frames (`spark.encoder`), confirms (`spark.publisher`).
"""

import difflib
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from warren.spark.options import COLUMNS, PROPERTIES, OptionError, WriteOptions
from warren.spark.publishing_ids import TASK_ROWS_MAX, TaskPublisher, batch_task_publisher, stream_task_publisher

IGNORED_COLUMNS: Final = ("partition", "offset", "timestamp")
TEXT_TYPES: Final = ("string",)
BODY_TYPES: Final = ("binary", "string")
NUMBER_TYPES: Final = ("tinyint", "smallint", "int", "bigint")
HEADER_TYPES: Final = ("string", "binary", "boolean", "double", "float", *NUMBER_TYPES)


def check_columns(columns: Mapping[str, str], options: WriteOptions) -> None:
    """An `OptionError` if these columns, with Spark's types, cannot be written as messages."""
    for name, kind in columns.items():
        if name not in COLUMNS:
            nearest = difflib.get_close_matches(name, COLUMNS, 1, 0.0)[0]
            raise OptionError(
                f"a message has no column {name!r}; did you mean {nearest}? select() the columns to write"
            )
        if name not in IGNORED_COLUMNS:
            _check_type(name, kind)
    if "body" not in columns:
        raise OptionError("there is no column body, which has the bodies of the messages")
    if "exchange" not in columns and not options.exchange and "routing_key" not in columns and not options.routing_key:
        raise OptionError(
            "nothing says where messages go: give a column exchange or routing_key, or an option exchange or routingKey"
        )


def _check_type(name: str, kind: str) -> None:
    if name == "headers":
        key, _, value = kind.removeprefix("map<").removesuffix(">").partition(",")
        if not kind.startswith("map<") or key != "string" or value not in HEADER_TYPES:
            raise OptionError(
                f"column headers is a map from strings to strings, numbers, booleans or bytes, not {kind}"
            )
    elif name == "properties":
        if not kind.startswith("struct<"):
            raise OptionError(f"column properties is a struct, not {kind}")
        for field in kind.removeprefix("struct<").removesuffix(">").split(","):
            _check_property(*field.split(":", 1))
    else:
        allowed = BODY_TYPES if name == "body" else TEXT_TYPES
        if kind not in allowed:
            raise OptionError(f"column {name} is {' or '.join(allowed)}, not {kind}")


def _check_property(name: str, kind: str = "") -> None:
    if name not in PROPERTIES:
        nearest = difflib.get_close_matches(name, PROPERTIES, 1, 0.0)[0]
        raise OptionError(f"a message has no property {name!r}; did you mean {nearest}?")
    allowed = TEXT_TYPES if PROPERTIES[name] == "string" else NUMBER_TYPES
    if kind not in allowed:
        raise OptionError(f"property {name} is {' or '.join(allowed)}, not {kind}")


QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"


class BatchWriter(DataSourceArrowWriter):
    """`df.write.format("warren")`."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        _check(options, schema, overwrite)
        self._options = options
        self._job = options.publisher or f"spark-{uuid.uuid4().hex}"

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return _write(self._options, batch_task_publisher(self._job, _task().partitionId()), iterator)


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
        author = stream_task_publisher(self._options.publisher, query, batch, task.partitionId())
        return _write(self._options, author, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Every message counts from its confirm."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Arrived messages stay; the repeated batch completes them."""


def _check(options: WriteOptions, schema: StructType, overwrite: bool) -> None:
    if overwrite:
        raise OptionError("messages are added to a queue, and nothing there is overwritten: use mode append")
    check_columns({field.name.lower(): field.dataType.simpleString() for field in schema.fields}, options)


def _task() -> TaskContext:
    task = TaskContext.get()
    if task is None:
        raise RuntimeError("rows are written in tasks of Spark")
    return task


def _write(options: WriteOptions, author: TaskPublisher, batches: Iterator[Any]) -> WriterCommitMessage:
    from warren.spark.encoder import RowEncoder
    from warren.spark.publisher import ConfirmedPublisher, SinkError

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
