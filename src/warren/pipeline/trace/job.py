"""The job `trace`: trace files and a stream into a lake.

Each source is one streaming query with the lake's Parquet as its sink. Each record counts exactly once:

- A micro-batch is a range of positions that Spark writes to its checkpoint before it reads it. Reading the range again
  gives the same lines: files only grow, and a stream keeps its offsets.
- The sink writes files, and then one entry in its log that names them. The entry of a micro-batch is written once, and
  files without an entry are not read. So an interrupted micro-batch is written again, and counts once.
- Events and quarantine are rows of the same files, so neither counts without the other.

The messages are rebuilt from all events when the queries have ended, because an event may be the last of a message that
was published days ago. Their table is replaced whole, and only if there are new events.

A job that runs once reads the existing data and ends. A continuous one polls until it is interrupted.

**Restarts.** Spark gives a process that it starts ten seconds to be ready. On a very busy machine that is too short,
and the query ends without a fault of its own: it is started again, and continues at its checkpoint. Only a query that
fails repeatedly without progress is given up; a micro-batch in between is progress, so a job may run for months with
many slow processes.

Not here: the rows (`trace.events`), the lake (`trace.lake`).
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from warren.pipeline import tables
from warren.pipeline.errors import PipelineError, sentence
from warren.pipeline.folder import Folder
from warren.pipeline.progress import JobProgress, watch
from warren.pipeline.trace import events, lake, passages
from warren.pipeline.trace.sources import FileSource, StreamSource, TraceSource

LOOK_EVERY_S: Final = 1
NOT_STARTED: Final = "Python worker failed to connect back"
RESTARTS_MAX: Final = 20
"""How often in a row, over all sources."""
SOURCES_OPTION: Final = "option failOnDataLoss false"
"""The option that Spark's sources name for lost data; the job has another name for it."""


def await_queries(
    sources: Iterable[TraceSource], start: Callable[[TraceSource], StreamingQuery], enough: threading.Event
) -> None:
    """Wait until all queries have ended, one has failed, or `enough` is set."""
    queries = {source: start(source) for source in sources}
    read: dict[tuple[str, int], int] = {}
    restarts = 0
    try:
        with JobProgress("trace: events read") as progress:
            while queries and not enough.is_set():
                for source, query in list(queries.items()):
                    ended, failure = _poll(query)
                    known = len(read)
                    read.update({(source.source, each.batchId): each.numInputRows for each in query.recentProgress})
                    restarts = restarts if len(read) == known else 0
                    if failure is not None:
                        if NOT_STARTED not in str(failure) or restarts == RESTARTS_MAX:
                            raise failure
                        queries[source], restarts = start(source), restarts + 1
                    elif ended:
                        del queries[source]
                progress.reach(sum(read.values()), 0)
    except StreamingQueryException as error:
        raise PipelineError(sentence(error).replace(SOURCES_OPTION, "--allow-loss")) from error
    finally:
        for query in queries.values():
            query.stop()


def _poll(query: StreamingQuery) -> tuple[bool, StreamingQueryException | None]:
    """Whether a query has ended within a while, and its error."""
    try:
        return bool(query.awaitTermination(LOOK_EVERY_S)), None
    except StreamingQueryException as error:
        return True, error


@dataclass(frozen=True)
class Settings:
    """The sources and the lake."""

    lake: str
    files: tuple[FileSource, ...] = ()
    stream: StreamSource | None = None
    payloads: bool = False
    continuous: bool = False
    every_s: int = 30
    allow_loss: bool = False

    @property
    def sources(self) -> list[TraceSource]:
        return [*self.files, *([self.stream] if self.stream is not None else [])]

    def check(self) -> None:
        """Check the settings before Spark starts."""
        if not self.sources:
            raise PipelineError("a trace is read from files or from a stream: --files DIR, or --stream NAME with --url")
        for source in self.sources:
            source.check()
        names = [source.source for source in self.sources]
        if len(set(names)) < len(names):
            raise PipelineError("folders of trace files need different names: --files one=DIR --files two=DIR")
        lake.check_or_empty(Folder(self.lake))


@dataclass(frozen=True)
class Outcome:
    """The contents of the lake, and how much of it this run added."""

    events: int
    quarantined: int
    added_events: int
    added_quarantined: int
    messages: int


def run(spark: SparkSession, settings: Settings, enough: threading.Event | None = None) -> Outcome:
    """Read the existing data, or continuously until `enough` is set; then rebuild the messages."""
    with Folder(settings.lake).alone():
        return _run(spark, settings, enough)


def _run(spark: SparkSession, settings: Settings, enough: threading.Event | None = None) -> Outcome:
    settings.check()
    folder = Folder(settings.lake)
    for source in settings.sources:
        source.prepare()
    for source in settings.sources:
        lake.claim(folder, source.source, source.facts())
    before = lake.counts(spark, folder)
    _read(spark, settings, enough or threading.Event())
    after = lake.counts(spark, folder)
    count = _rebuild_messages(spark, folder, after[0])
    return Outcome(*after, after[0] - before[0], after[1] - before[1], count)


def start(spark: SparkSession, settings: Settings, source: TraceSource) -> StreamingQuery:
    """The query from a source into the lake."""
    folder = Folder(settings.lake)
    rows = events.rows(source.records(spark, settings.allow_loss), settings.payloads)
    writer = (
        rows.writeStream.format("parquet")
        .partitionBy("day", "vhost")
        .option("path", lake.event_folder(folder, source.source).uri)
        .option("checkpointLocation", lake.checkpoint_folder(folder, source.source).uri)
    )
    if settings.continuous:
        return writer.trigger(processingTime=f"{settings.every_s} seconds").start()
    return writer.trigger(availableNow=True).start()


def _read(spark: SparkSession, settings: Settings, enough: threading.Event) -> None:
    """One source after another; if continuous, all at once."""
    rounds = [settings.sources] if settings.continuous else [[source] for source in settings.sources]
    for sources in rounds:
        await_queries(sources, lambda source: start(spark, settings, source), enough)


def _rebuild_messages(spark: SparkSession, folder: Folder, known_events: int) -> int:
    """Rebuild the messages and return their number. Events are only added, so a table with as many is up to date."""
    place = folder.child(lake.MESSAGES)
    facts = {"events": known_events}
    written = place.read_json(tables.TABLE)
    is_current = (
        isinstance(written, dict)
        and written.get("facts") == facts
        and written.get("version") == passages.MESSAGES_VERSION
    )
    if not is_current:
        with watch(spark, "trace: messages"):
            tables.replace(
                passages.message_lives(lake.events(spark, folder)),
                place,
                passages.MESSAGES_KIND,
                passages.MESSAGES_VERSION,
                facts,
            )
    return lake.messages(spark, folder).count()
