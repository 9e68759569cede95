"""Queries that Spark does not get going are started again, for as long as anything comes of it; without Spark."""

import threading
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from warren.pipeline.errors import PipelineError
from warren.pipeline.trace.job import NOT_STARTED, RESTARTS_MAX, await_queries
from warren.pipeline.trace.sources import FileSource, TraceSource

SOURCE = FileSource("traces")


@dataclass
class Ended:
    """A query that has read some micro-batches and then ended, as Spark tells of one.

    Real ones fail so only on a machine that is too busy for ten seconds, over and over.
    """

    batches: list[int] = field(default_factory=list)
    failure: str = ""
    stopped: bool = False

    @property
    def recentProgress(self) -> list[Any]:  # noqa: N802
        return [SimpleNamespace(batchId=number, numInputRows=1) for number in self.batches]

    def awaitTermination(self, timeout: int) -> bool:  # noqa: N802
        if self.failure:
            raise StreamingQueryException(self.failure)
        return True

    def stop(self) -> None:
        self.stopped = True


def slow(*batches: int) -> Ended:
    return Ended(list(batches), f"org.apache.spark.SparkException: {NOT_STARTED}.")


def followed(*queries: Ended) -> int:
    """How many of them were started until the end."""
    waiting = list(queries)

    def start(source: TraceSource) -> Any:
        return waiting.pop(0)

    await_queries([SOURCE], start, threading.Event())
    return len(queries) - len(waiting)


def test_a_query_whose_process_was_slow_is_started_again() -> None:
    assert followed(slow(), slow(), Ended([0])) == 3


def test_a_query_that_comes_to_nothing_again_and_again_is_given_up() -> None:
    with pytest.raises(PipelineError, match=NOT_STARTED):
        followed(*(slow() for _ in range(RESTARTS_MAX + 1)))
    assert followed(*(slow() for _ in range(RESTARTS_MAX)), Ended()) == RESTARTS_MAX + 1


def test_a_query_that_reads_something_in_between_is_never_given_up() -> None:
    count = RESTARTS_MAX * 3
    assert followed(*(slow(number) for number in range(count)), Ended([count])) == count + 1


def test_micro_batches_that_are_read_again_are_no_progress() -> None:
    with pytest.raises(PipelineError, match=NOT_STARTED):
        followed(*(slow(0) for _ in range(RESTARTS_MAX + 2)))


def test_any_other_failure_ends_it_at_once_in_the_words_of_the_job() -> None:
    lost = Ended([0], "warren.pipeline.errors.PipelineError: file 1 is gone; option failOnDataLoss false reads on")
    with pytest.raises(PipelineError, match=r"^file 1 is gone; --allow-loss reads on$"):
        followed(lost)
    assert lost.stopped


def test_when_it_is_enough_the_queries_are_stopped() -> None:
    query, enough = Ended(), threading.Event()
    enough.set()
    await_queries([SOURCE], lambda source: query, enough)  # type: ignore[arg-type,return-value]
    assert query.stopped
