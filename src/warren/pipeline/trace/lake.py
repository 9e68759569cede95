"""The lake: where events are stored, and how they are read.

::

    LAKE/lake.json                  {kind, version}
    LAKE/sources/SOURCE.json        the origin of this source
    LAKE/events/SOURCE/             rows (`trace.events`) in Parquet, by day and virtual host; Spark's log of files
    LAKE/checkpoints/SOURCE/        how far the source is read
    LAKE/messages/                  the messages, as a table (`pipeline.tables`)
    LAKE/quarantine.json            {told}: how many lines in quarantine a command has reported

Each source is a query with a folder of its own: Spark's log in the folder numbers the batches of one query, and would
take those of another for repetitions. Rows count when the log names their file. So a lake is read through here, source
by source, and not as a set of files, which may include those of killed writers.

Events and quarantine are rows of one folder, so that one entry in the log covers both. Rows of the quarantine have no
day.

Not here: writing (`trace.job`).
"""

import re
from functools import reduce
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from warren.pipeline import tables
from warren.pipeline.errors import PipelineError
from warren.pipeline.folder import Folder
from warren.pipeline.trace import passages as lives
from warren.pipeline.trace.events import COLUMNS, ROWS_SCHEMA

KIND: Final = "warren trace lake"
VERSION: Final = 1
LAKE: Final = "lake.json"
EVENTS: Final = "events"
CHECKPOINTS: Final = "checkpoints"
SOURCES: Final = "sources"
MESSAGES: Final = "messages"
QUARANTINE: Final = "quarantine.json"
COMMITTED: Final = "_spark_metadata"
SOURCE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def check(lake: Folder) -> None:
    """A `PipelineError` unless it is a lake of this version."""
    found = lake.read_json(LAKE)
    if found is None:
        raise PipelineError(f"{lake} is no lake of traces: there is no {LAKE} in it")
    _check_kind(lake, found)


def check_or_empty(lake: Folder) -> None:
    """A `PipelineError` unless it is such a lake, or empty."""
    found = lake.read_json(LAKE)
    if found is not None:
        _check_kind(lake, found)
    elif lake.children():
        raise PipelineError(f"{lake} is no lake of traces, and it is not empty")


def claim(lake: Folder, source: str, facts: dict[str, Any]) -> None:
    """Make it a lake with this source; a source of this name with another origin is refused.

    If nothing was read from the other origin, for example a wrong folder, its plan is dropped instead.
    """
    check_or_empty(lake)
    known = lake.child(SOURCES).read_json(f"{source}.json")
    if known not in (None, facts):
        if event_folder(lake, source).child(COMMITTED).children():
            raise PipelineError(
                f"source {source!r} of {lake} is {_described(known)}, and not {_described(facts)}; give it another name"
            )
        checkpoint_folder(lake, source).delete()
    if lake.read_json(LAKE) is None:
        lake.put_json(LAKE, {"kind": KIND, "version": VERSION})
    if known != facts:
        lake.child(SOURCES).put_json(f"{source}.json", facts)


def events(spark: SparkSession, lake: Folder) -> DataFrame:
    """All valid rows."""
    return _rows(spark, lake).where(sql.col("fault").isNull()).select(*COLUMNS)


def quarantine(spark: SparkSession, lake: Folder) -> DataFrame:
    """All invalid rows: the id it would have as an event, the fault, and the line."""
    faulty = _rows(spark, lake).where(sql.col("day").isNull() & sql.col("fault").isNotNull())
    return faulty.select("event_id", sql.col("fault").alias("reason"), "line")


def counts(spark: SparkSession, lake: Folder) -> tuple[int, int]:
    """The number of events, and of lines in quarantine."""
    found = _rows(spark, lake).agg(sql.count("*").alias("all"), sql.count("fault").alias("faulty")).first()
    assert found is not None
    return found["all"] - found["faulty"], found["faulty"]


def unreported(lake: Folder, quarantined: int) -> int:
    """How many lines in quarantine were not reported: those of this run, and of killed runs."""
    return quarantined - int((lake.read_json(QUARANTINE) or {"told": 0})["told"])


def mark_reported(lake: Folder, quarantined: int) -> None:
    """These lines are reported."""
    lake.put_json(QUARANTINE, {"told": quarantined})


def messages(spark: SparkSession, lake: Folder) -> DataFrame:
    """The messages as of the last job."""
    check(lake)
    return tables.read(spark, lake.child(MESSAGES), lives.MESSAGES_KIND, lives.MESSAGES_VERSION)[0]


def event_folder(lake: Folder, source: str) -> Folder:
    return lake.child(EVENTS).child(source)


def checkpoint_folder(lake: Folder, source: str) -> Folder:
    return lake.child(CHECKPOINTS).child(source)


def _rows(spark: SparkSession, lake: Folder) -> DataFrame:
    check(lake)
    folders = [event_folder(lake, source) for source in lake.child(EVENTS).children()]
    frames = [spark.read.schema(ROWS_SCHEMA).parquet(folder.uri) for folder in folders if folder.exists(COMMITTED)]
    if not frames:
        return spark.createDataFrame([], ROWS_SCHEMA)
    return reduce(DataFrame.unionByName, frames)


def _check_kind(lake: Folder, found: Any) -> None:
    if not isinstance(found, dict) or found.get("kind") != KIND:
        raise PipelineError(f"{lake} is no lake of traces: its {LAKE} is of something else")
    if found.get("version") != VERSION:
        raise PipelineError(
            f"{lake} is a lake of version {found.get('version')}, and this is for version {VERSION}; read it with the "
            "Warren that wrote it, or begin another one"
        )


def _described(facts: dict[str, Any]) -> str:
    return " ".join(str(value) for value in facts.values())
