"""A no-op source and sink for Spark, written in Python.

A micro-batch with these costs as much as one with the connector before the connector talks to a broker.

Not here: the measurement (`spark_rates`).
"""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

ROWS = 1_000
PARTITIONS = 2


class IdleSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "idle"

    def schema(self) -> str:
        return "value bigint"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return IdleReader()

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return IdleWriter()


class IdleReader(DataSourceStreamReader):
    def __init__(self) -> None:
        self._batch = 0

    def initialOffset(self) -> dict[str, int]:
        return {"batch": 0}

    def latestOffset(self) -> dict[str, int]:
        self._batch += 1
        return {"batch": self._batch}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(number) for number in range(PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"value": list(range(ROWS // PARTITIONS))})


class IdleWriter(DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _batch in iterator:
            pass
        return WriterCommitMessage()
