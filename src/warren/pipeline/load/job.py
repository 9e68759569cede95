"""A load, from its files to the last confirm; it can be killed at any point and run again.

::

    STATE/load.json         the load: files as they were found, shape, publisher; whether publishing has begun
    STATE/messages/         the staged messages (`pipeline.tables`); deleted when all are published
    STATE/quarantine/       records that cannot be loaded, with reasons
    STATE/done.json         the published parts (`pipeline.publication`)

Before publishing begins, a load may be restarted with other files or another shape. After that the staged messages are
published whole, and changed files or other options are refused afterwards.

Not here: ranges (`load.files`), records and messages (`load.records`).
"""

import dataclasses
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from warren.pipeline import tables
from warren.pipeline.errors import PipelineError
from warren.pipeline.folder import Folder
from warren.pipeline.load.files import SourceFile, find_files, tasks_of
from warren.pipeline.load.settings import LoadSettings
from warren.pipeline.load.source import BAD_PART, NAME, LoadSource, plan_text
from warren.pipeline.progress import JobProgress, watch
from warren.pipeline.publication import DONE, PublishDestination, PublishPart, check_destination, parts_done, publish

STATE: Final = "load.json"
STATE_KIND: Final = "warren load"
MESSAGES: Final = "messages"
MESSAGES_KIND: Final = "messages to publish"
QUARANTINE: Final = "quarantine"
QUARANTINE_KIND: Final = "records that cannot be loaded"
VERSION: Final = 1


@dataclass(frozen=True)
class Loaded:
    """The number of published messages, in all and by this run."""

    records: int
    messages: int
    bytes: int
    quarantined: int
    published_now: int


def run(spark: SparkSession, settings: LoadSettings) -> Loaded:
    """Publish the rest; returns when all is confirmed."""
    with settings.state.alone():
        return _run(spark, settings)


def _run(spark: SparkSession, settings: LoadSettings) -> Loaded:
    state, refusal = _begun(settings)
    loaded = _completed(spark, settings, state)
    if refusal:
        raise PipelineError(refusal)
    return loaded


def _completed(spark: SparkSession, settings: LoadSettings, state: dict[str, Any]) -> Loaded:
    if state["finished"] is not None:
        _clear(settings.state)
        return Loaded(**state["finished"], published_now=0)
    folder = settings.state.child(MESSAGES)
    if not folder.exists(tables.TABLE):
        _stage(spark, settings, state, folder)
    staged, _ = tables.read(spark, folder, MESSAGES_KIND, VERSION)
    parts, bad = _parts(staged)
    if not state["publishing"]:
        if bad:
            _quarantine(staged, settings, bad)
        state["publishing"] = True
        settings.state.put_json(STATE, state)
    now = _publish(staged, parts, settings.state, _destination(settings, state))
    totals = Loaded(_sum(parts, "records"), _sum(parts, "messages"), _sum(parts, "bytes"), bad, now)
    finished = dataclasses.asdict(totals)
    del finished["published_now"]
    settings.state.put_json(STATE, state | {"finished": finished})
    _clear(settings.state)
    return totals


def _clear(state: Folder) -> None:
    """Delete the state that is not needed after the last confirm."""
    state.child(MESSAGES).delete()
    state.delete(DONE)


def _begun(settings: LoadSettings) -> tuple[dict[str, Any], str]:
    """The contents of `load.json`, written if nothing is published, and why the request differs from it."""
    files = find_files(settings.files)
    asked = {"files": [dataclasses.asdict(file) for file in files], "shape": settings.shape.described()}
    found = settings.state.read_json(STATE)
    if found is not None:
        if not isinstance(found, dict) or found.get("kind") != STATE_KIND or found.get("version") != VERSION:
            raise PipelineError(f"{settings.state}/{STATE} is not that of a load of this version")
        if {name: found[name] for name in asked} == asked:
            return found, ""
        if found["publishing"]:
            return found, (
                f"{settings.state} is the state of a load {_difference(found, files)}, which is published whole; give "
                "another one a folder of its own"
            )
    fresh = {"publisher": f"load-{uuid.uuid4().hex[:16]}", "publishing": False, "finished": None}
    state = {"kind": STATE_KIND, "version": VERSION, **asked, **fresh}
    check_destination(_destination(settings, state))
    settings.state.child(MESSAGES).delete()
    settings.state.put_json(STATE, state)
    return state, ""


def _destination(settings: LoadSettings, state: dict[str, Any]) -> PublishDestination:
    return PublishDestination(settings.url, state["publisher"], state["shape"]["exchange"], settings.timeout_s)


def _difference(found: dict[str, Any], files: Sequence[SourceFile]) -> str:
    before = {each["uri"]: each for each in found["files"]}
    for file in files:
        if file.uri in before and before[file.uri] != dataclasses.asdict(file):
            return f"of {file.uri} as it was before it changed"
    if set(before) != {file.uri for file in files}:
        return "of other files"
    return "with other options"


def _stage(spark: SparkSession, settings: LoadSettings, state: dict[str, Any], folder: Folder) -> None:
    tasks = tasks_of([SourceFile(**each) for each in state["files"]])
    spark.dataSource.register(LoadSource)
    frame = spark.read.format(NAME).option("plan", plan_text(tasks, settings.shape)).load()
    with watch(spark, "load: reading"):
        tables.replace(frame, folder, MESSAGES_KIND, VERSION)


def _parts(staged: DataFrame) -> tuple[list[PublishPart], int]:
    """The parts to publish, in order, and the number of bad records."""
    sums = staged.groupBy("part").agg(
        sql.count("*").alias("messages"),
        sql.sum("records").alias("records"),
        sql.sum(sql.octet_length("body")).alias("bytes"),
    )
    parts = [PublishPart(row["part"], row["messages"], row["records"], row["bytes"]) for row in sums.collect()]
    bad = sum(part.messages for part in parts if part.number == BAD_PART)
    return sorted([part for part in parts if part.number != BAD_PART], key=lambda part: part.number), bad


def _quarantine(staged: DataFrame, settings: LoadSettings, count: int) -> None:
    """Keep the bad records; a `PipelineError` unless they are allowed."""
    bad = staged.where(sql.col("part") == BAD_PART).select("file", "place", "reason", sql.col("body").alias("record"))
    ordered = bad.orderBy("file", "place", "reason").coalesce(1)
    folder = settings.state.child(QUARANTINE)
    tables.replace(ordered, folder, QUARANTINE_KIND, VERSION, {"records": count})
    if not settings.quarantine:
        first = ordered.first()
        assert first is not None
        raise PipelineError(
            f"{count} records cannot be loaded, and nothing is published: they are in {folder}, the first is record "
            f"{first['place']} of {first['file']}, which {first['reason']}; --quarantine loads the others"
        )


def _publish(staged: DataFrame, parts: Sequence[PublishPart], folder: Folder, destination: PublishDestination) -> int:
    """The number of messages published by this run."""
    done = parts_done(folder)
    left = [part for part in parts if part.number not in done]
    records, messages, size = 0, 0, 0
    with JobProgress("load: publishing", _sum(parts, "records")) as progress:

        def report_part(part: PublishPart) -> None:
            nonlocal records, messages, size
            records, messages, size = records + part.records, messages + part.messages, size + part.bytes
            progress.show(f"load: {messages} messages, {size / 1e6:.1f} MB; records")
            progress.advance(part.records)

        progress.advance(_sum(parts, "records") - _sum(left, "records"))
        publish(as_messages(staged), parts, folder, destination, report_part)
    return _sum(left, "messages")


def as_messages(staged: DataFrame) -> DataFrame:
    """The staged messages, as the sink takes them."""
    return staged.where(sql.col("part") != BAD_PART).select(
        "part",
        "routing_key",
        "message_id",
        sql.struct(sql.lit("application/json").alias("content_type")).alias("properties"),
        sql.create_map(
            sql.lit("file"),
            sql.element_at(sql.split("file", "/"), -1),
            sql.lit("records"),
            sql.col("records").cast("string"),
        ).alias("headers"),
        "body",
    )


def _sum(parts: Sequence[PublishPart], name: str) -> int:
    return sum(getattr(part, name) for part in parts)
