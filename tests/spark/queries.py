"""Streaming queries that end by themselves, on a machine that may be very busy.

Spark gives the process that plans a query ten seconds to be ready, and ends the query if it is not. A query that is
started again continues at its checkpoint.

Not here: queries with killed drivers (`driver_process`).
"""

from collections.abc import Callable

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from warren.pipeline.trace.job import NOT_STARTED

DEADLINE_S = 120
STARTS_MAX = 5


def run_through(start: Callable[[], StreamingQuery]) -> list[int]:
    """Returns when the query has ended: how many rows each of its micro-batches had."""
    counts: list[int] = []
    for attempt in range(1, STARTS_MAX + 1):
        query = start()
        try:
            assert query.awaitTermination(DEADLINE_S)
            break
        except StreamingQueryException as error:
            if NOT_STARTED not in str(error) or attempt == STARTS_MAX:
                raise
        finally:
            counts += [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
    return counts
