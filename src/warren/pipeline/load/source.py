"""Files as messages: a Spark data source, one task for a few ranges.

A task reads its ranges, merges records into messages, and numbers the parts in which they will be published: a part has
as many messages as the broker surely remembers of one publisher, and as many bytes as a task can hold. A record that
cannot be loaded is a row too, with its reason, in part -1.

Invariant: rows depend on the files and the shape alone, never on where or how often a task runs.

Not here: writing and publishing them (`load.job`).
"""

import dataclasses
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from warren.pipeline.load.files import FileRange
from warren.pipeline.load.records import BadRecord, LoadMessage, Record, RecordPacker, records
from warren.pipeline.load.settings import Shape
from warren.pipeline.publication import PART_BYTES, PART_MESSAGES

NAME: Final = "warren-load"
BAD_PART: Final = -1
PARTS_OF_TASK: Final = 1_000_000
BATCH_BYTES: Final = 8_000_000
BATCH_ROWS: Final = 4096
BAD_TEXT_BYTES: Final = 10_000
"""How many bytes of a bad record are kept."""

ARROW: Final = pa.schema(
    [
        ("part", pa.int64()),
        ("file", pa.string()),
        ("place", pa.int64()),
        ("records", pa.int32()),
        ("routing_key", pa.string()),
        ("message_id", pa.string()),
        ("body", pa.binary()),
        ("reason", pa.string()),
    ]
)
DDL: Final = (
    "part bigint, file string, place bigint, records int, routing_key string, message_id string, body binary, "
    "reason string"
)


def plan_text(tasks: Sequence[Sequence[FileRange]], shape: Shape) -> str:
    """The option `plan` of the source."""
    ranges = [[dataclasses.astuple(each) for each in task] for task in tasks]
    return json.dumps({"tasks": ranges, "shape": shape.described()})


@dataclass
class LoadTask(InputPartition):
    """A task's number and its ranges."""

    number: int
    ranges: tuple[FileRange, ...]


class LoadSource(DataSource):
    """`format("warren-load")`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        plan = json.loads(self.options["plan"])
        tasks = [[FileRange(*each) for each in task] for task in plan["tasks"]]
        return LoadReader(tasks, Shape(**plan["shape"]))


class LoadReader(DataSourceReader):
    """Reads tasks as planned."""

    def __init__(self, tasks: Sequence[Sequence[FileRange]], shape: Shape) -> None:
        self._tasks = tasks
        self._shape = shape

    def partitions(self) -> Sequence[InputPartition]:
        return [LoadTask(number, tuple(ranges)) for number, ranges in enumerate(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, LoadTask)
        return staged(partition, self._shape)


def staged(task: LoadTask, shape: Shape) -> Iterator[Any]:
    """The rows of a task, in Arrow batches."""
    batch = _Batch(task.number * PARTS_OF_TASK, shape.routing_key)
    for each in task.ranges:
        for item in merged(each, shape):
            batch.add(each.uri, item)
            if batch.is_full():
                yield batch.taken()
    yield batch.taken()


def merged(part: FileRange, shape: Shape) -> Iterator[LoadMessage | BadRecord]:
    """The messages and bad records of one range."""
    packer = RecordPacker(part.uri, shape.max_bytes)
    for item in records(part, shape):
        if isinstance(item, Record):
            yield from packer.add(item)
        else:
            yield item
    yield from packer.finish()


class _Batch:
    """Rows for the next batch, and their part."""

    def __init__(self, first_part: int, routing_key: str | None) -> None:
        self._routing_key = routing_key
        self._part = first_part
        self._part_messages = 0
        self._part_bytes = 0
        self._rows: list[tuple[Any, ...]] = []
        self._bytes = 0

    def add(self, uri: str, item: LoadMessage | BadRecord) -> None:
        if isinstance(item, BadRecord):
            text = item.text[:BAD_TEXT_BYTES]
            self._rows.append((BAD_PART, uri, item.place, 1, None, None, text, item.reason))
            self._bytes += len(text)
            return
        size = len(item.body)
        if self._part_messages == PART_MESSAGES or (self._part_messages and self._part_bytes + size > PART_BYTES):
            self._part, self._part_messages, self._part_bytes = self._part + 1, 0, 0
        self._part_messages += 1
        self._part_bytes += size
        key = self._routing_key if item.key is None else item.key
        self._rows.append((self._part, uri, item.first, item.records, key, item.id, item.body, None))
        self._bytes += size

    def is_full(self) -> bool:
        return self._bytes >= BATCH_BYTES or len(self._rows) >= BATCH_ROWS

    def taken(self) -> Any:
        columns = list(zip(*self._rows, strict=True)) if self._rows else [()] * len(ARROW)
        self._rows, self._bytes = [], 0
        arrays = [pa.array(column, field.type) for column, field in zip(columns, ARROW, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=ARROW)
