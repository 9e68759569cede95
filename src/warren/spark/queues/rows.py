"""Deliveries as rows.

Not here: what the columns are (`spark.schema`), files (`spark.queues.staging`).
"""

import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from warren.spark.arrow_types import arrow_schema
from warren.spark.properties import property_columns
from warren.spark.queues.identity import DIGEST_BYTES, Arrival
from warren.spark.queues.staging import IDENTITY
from warren.spark.schema import COLUMNS


def rows_of(arrivals: Sequence[Arrival], first: int) -> Any:
    """A batch with every column, and what identifies each message; numbered from `first` on."""
    count = len(arrivals)
    now_us = time.time_ns() // 1000
    message_ids, properties, headers = property_columns(pa.array([each.tail for each in arrivals], pa.binary()))
    columns = {
        "partition": pa.array([0] * count, pa.int32()),
        "offset": pa.array(range(first, first + count), pa.int64()),
        "timestamp": pa.array([now_us] * count, pa.timestamp("us", tz="UTC")),
        "exchange": pa.array([_clean(each.delivery.exchange) for each in arrivals], pa.string()),
        "routing_key": pa.array([_clean(each.delivery.routing_key) for each in arrivals], pa.string()),
        "message_id": message_ids,
        "properties": properties,
        "headers": headers,
        "body": pa.array([each.delivery.body for each in arrivals], pa.binary()),
        IDENTITY: pa.array([each.identity for each in arrivals], pa.binary(DIGEST_BYTES)),
    }
    schema = arrow_schema(tuple(COLUMNS)).append(pa.field(IDENTITY, pa.binary(DIGEST_BYTES)))
    return pa.RecordBatch.from_arrays([columns[field.name] for field in schema], schema=schema)


def shown(batch: Any, columns: Sequence[str]) -> Any:
    """The columns that a reader wants."""
    return batch.select(list(columns))


def _clean(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
