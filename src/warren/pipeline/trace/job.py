"""The job `trace`: what there is of trace files and of a stream, into a lake.

Each source is one streaming query with the lake's Parquet as its sink. How it comes to exactly once:

- A micro-batch is a range of positions that Spark writes to its checkpoint before it reads it. Whoever reads the range
  again gets the same lines: files only grow, and a stream keeps its offsets.
- The sink writes files, and then one entry in its log that names them. The entry of a micro-batch is written once;
  files without an entry are not read. So a micro-batch that was cut off is written again, and counts once.
- Events and quarantine are rows of the same files, so that none of them counts without the other.

The messages are rebuilt from all events when the queries have ended, because an event may be the last of a message that
was published days ago. Their table is replaced whole, and only if there are events that it does not know.

A job that runs once reads what is there when it begins, and ends. One that runs on looks again every so often, until it
is interrupted.

Not here: the rows (`trace.events`), what is where in the lake (`trace.lake`), queries that Spark does not get going
(`trace.following`).

The streaming queries of a trace, from their start until they have ended or it is enough.

Spark gives a process that it starts ten seconds to be ready. On a machine that is very busy that is too little, and the
query ends, though nothing is wrong with it: it is started again, and goes on at its checkpoint. Only one that comes to
nothing again and again is given up; a micro-batch that was read in between is something, so that a job may run for
months and have many a slow process in its life.

Not here: what a query reads and where it writes (`trace.job`).
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
"""What sources of Spark name when something is gone, and what the job calls otherwise."""


def await_queries(
    sources: Iterable[TraceSource], start: Callable[[TraceSource], StreamingQuery], enough: threading.Event
) -> None:
    """Until all their queries have ended, one has failed, or it is enough."""
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
    """Whether a query has ended within a while, and what it has failed with."""
    try:
        return bool(query.awaitTermination(LOOK_EVERY_S)), None
    except StreamingQueryException as error:
        return True, error


@dataclass(frozen=True)
class Settings:
    """What is read, and where it is kept."""

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
        """What can be said before Spark is there."""
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
    """What is in the lake, and how much of it this run added."""

    events: int
    quarantined: int
    added_events: int
    added_quarantined: int
    messages: int


def run(spark: SparkSession, settings: Settings, enough: threading.Event | None = None) -> Outcome:
    """Read what there is, or all that comes until it is enough; then rebuild the messages."""
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
    """The query that brings a source into the lake."""
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
    """One source after another; or all at once, on and on."""
    rounds = [settings.sources] if settings.continuous else [[source] for source in settings.sources]
    for sources in rounds:
        await_queries(sources, lambda source: start(spark, settings, source), enough)


def _rebuild_messages(spark: SparkSession, folder: Folder, known_events: int) -> int:
    """How many there are. Events are only added, so a table that knows as many knows all of them."""
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
