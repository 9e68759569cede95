"""The progress of long work, on standard error: a bar on a terminal, elsewhere a plain line every few seconds.

    with Progress("load", total=records) as progress:
        progress.advance(1000)

    with watch(spark, "compare"):
        …                                   # the finished tasks of Spark's stages, of all that are planned

A total of 0 means unknown: then the bar only moves, and lines say how much is done.

Not here: the work (`load.job`, `compensate.job`).
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Self, final

from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from warren.pipeline.session import is_connected

LINE_EVERY_S: Final = 5.0
LOOK_EVERY_S: Final = 0.5


@final
class JobProgress:
    def __init__(self, text: str, total: int = 0) -> None:
        self._text = text
        self._done = 0
        self._total = total
        self._line_at = time.monotonic()
        self._terminal = sys.stderr.isatty()
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=not self._terminal,
        )
        self._task = self._bar.add_task(text, total=total or None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def advance(self, count: int) -> None:
        self.reach(self._done + count, self._total)

    def reach(self, done: int, total: int) -> None:
        """Set the progress."""
        self._done, self._total = done, total
        self._bar.update(self._task, completed=done, total=total or None)
        if not self._terminal and time.monotonic() - self._line_at >= LINE_EVERY_S:
            self._line_at = time.monotonic()
            of_all = f" of {total}" if total else ""
            print(f"{self._text}: {done}{of_all}", file=sys.stderr, flush=True)

    def show(self, text: str) -> None:
        """Show the current step."""
        self._text = text
        self._bar.update(self._task, description=text)


@contextmanager
def watch(spark: SparkSession, text: str) -> Iterator[None]:
    """Show Spark's current stages while the body runs; nothing through Connect, which does not report them."""
    if is_connected(spark):
        yield
        return
    ended = threading.Event()
    with JobProgress(text) as progress:
        watcher = threading.Thread(target=_show_stages, args=(spark, progress, ended), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()


def _show_stages(spark: SparkSession, progress: JobProgress, ended: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    while not ended.wait(LOOK_EVERY_S):
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        found = [stage for stage in stages if stage is not None]
        if found:
            progress.reach(sum(stage.numCompletedTasks for stage in found), sum(stage.numTasks for stage in found))
