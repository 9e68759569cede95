"""How far a start has come: a bar on a terminal, and everywhere a line for each node that is ready.

Not here: when a node is ready (`cli.cluster.starting`).
"""

import sys
from typing import final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from warren.cli.cluster.layout import HOST
from warren.cli.cluster.processes import NodeProcess


@final
class Waiting:
    """The bar is on standard error and leaves nothing behind; the lines are on standard output."""

    def __init__(self, total: int) -> None:
        self._columns = Progress(
            TextColumn("{task.completed}/{task.total}"),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
            console=Console(stderr=True),
            transient=True,
            disable=not sys.stderr.isatty(),
        )
        self._task = self._columns.add_task("", total=total)

    def __enter__(self) -> "Waiting":
        self._columns.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._columns.stop()

    def tell(self, words: str) -> None:
        self._columns.update(self._task, description=words)

    def ready(self, process: NodeProcess) -> None:
        node = process.node
        self._columns.advance(self._task)
        print(
            f"{node.full_name} is ready: pid {process.pid()}, AMQP {HOST}:{node.amqp}, http://{HOST}:{node.http}/",
            flush=True,
        )
