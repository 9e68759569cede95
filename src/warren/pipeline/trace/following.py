"""The streaming queries of a trace, from their start until they have ended or it is enough.

Spark gives a process that it starts ten seconds to be ready. On a machine that is very busy that is too little, and the
query ends, though nothing is wrong with it: it is started again, and goes on at its checkpoint. Only one that comes to
nothing again and again is given up; a micro-batch that was read in between is something, so that a job may run for
months and have many a slow process in its life.

Not here: what a query reads and where it writes (`trace.job`).
"""

import threading
from collections.abc import Callable, Iterable
from typing import Final

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from warren.pipeline.errors import PipelineError, sentence
from warren.pipeline.progress import Progress
from warren.pipeline.trace.sources import Source

LOOK_EVERY_S: Final = 1
NOT_STARTED: Final = "Python worker failed to connect back"
RESTARTS_MAX: Final = 20
"""How often in a row, over all sources."""
SOURCES_OPTION: Final = "option failOnDataLoss false"
"""What sources of Spark name when something is gone, and what the job calls otherwise."""


def follow(sources: Iterable[Source], start: Callable[[Source], StreamingQuery], enough: threading.Event) -> None:
    """Until all their queries have ended, one has failed, or it is enough."""
    queries = {source: start(source) for source in sources}
    read: dict[tuple[str, int], int] = {}
    restarts = 0
    try:
        with Progress("trace: events read") as progress:
            while queries and not enough.is_set():
                for source, query in list(queries.items()):
                    ended, failure = _looked_at(query)
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


def _looked_at(query: StreamingQuery) -> tuple[bool, StreamingQueryException | None]:
    """Whether a query has ended within a while, and what it has failed with."""
    try:
        return bool(query.awaitTermination(LOOK_EVERY_S)), None
    except StreamingQueryException as error:
        return True, error
