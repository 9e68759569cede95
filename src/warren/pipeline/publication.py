"""Publishing staged messages part by part, so that each is published once, even if a process is killed at any moment.

Messages are an unchanging DataFrame with a column `part`. One task writes a part, under a publisher name of its own,
and a part has so few messages that the broker remembers all their ids. A few parts are written at once; when they are
confirmed, their numbers are written to a small file. After a kill the parts in that file are skipped, and the broker
drops the messages it has of the few other parts that were begun.

    not begun ──▶ some messages are there ──▶ all confirmed ──▶ in the file
                        ▲            │
                        └─ run again ┘   the same ids under the same name

Not here: making messages (`pipeline.load`, `pipeline.compensate`), confirms (`spark.publisher`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from warren.client import ClientError, blocking
from warren.pipeline.errors import PipelineError, sentence
from warren.pipeline.folder import Folder
from warren.spark.options import BrokerOptions
from warren.spark.publisher import ConfirmedPublisher, SinkError

PART_MESSAGES: Final = 20_000
"""So few that a queue remembers those of a whole wave, even under one publisher."""

PART_BYTES: Final = 64_000_000
PARTS_AT_ONCE: Final = 4
DONE: Final = "done.json"


@dataclass(frozen=True)
class PublishPart:
    """The messages of one write."""

    number: int
    messages: int
    records: int
    bytes: int


@dataclass(frozen=True)
class PublishDestination:
    """The default destination of messages, and the publisher's name."""

    url: str = field(repr=False)
    publisher: str
    exchange: str = ""
    timeout_s: float = 60.0


def check_destination(destination: PublishDestination, routing_keys: Sequence[str] = ()) -> None:
    """Check the broker and the exchange, or for the default exchange the queues that these keys name.

    Called before anything is written that relies on them.
    """
    try:
        ConfirmedPublisher(BrokerOptions(destination.url, destination.timeout_s), destination.publisher).close()
    except SinkError as error:
        raise PipelineError(str(error)) from None
    try:
        with blocking.connect(destination.url, name=destination.publisher) as connection:
            if destination.exchange:
                connection.channel().declare_exchange(destination.exchange, passive=True)
            else:
                for key in routing_keys:
                    connection.channel().declare_queue(key, passive=True)
    except ClientError as error:
        raise PipelineError(f"messages would not arrive: {error}") from None


def parts_done(folder: Folder) -> set[int]:
    """The confirmed parts."""
    return set(folder.read_json(DONE) or [])


def publish(
    messages: DataFrame,
    parts: Sequence[PublishPart],
    folder: Folder,
    destination: PublishDestination,
    report: Callable[[PublishPart], None],
) -> None:
    """Publish the parts that are not done, and record them in the folder; `report` is called with each.

    A repeated run must pass the same parts in the same order.
    """
    write_parts(parts, folder, lambda wave: _write(messages, wave, destination), report)


def write_parts(
    parts: Sequence[PublishPart],
    folder: Folder,
    write: Callable[[Sequence[PublishPart]], None],
    report: Callable[[PublishPart], None],
) -> None:
    """The same for other destinations: `write` is called with a few parts at once, and again after a kill."""
    done = parts_done(folder)
    for first in range(0, len(parts), PARTS_AT_ONCE):
        wave = parts[first : first + PARTS_AT_ONCE]
        if all(part.number in done for part in wave):
            continue
        try:
            write(wave)
        except Exception as error:
            raise PipelineError(sentence(error)) from error
        done.update(part.number for part in wave)
        folder.put_json(DONE, sorted(done))
        for part in wave:
            report(part)


def _write(messages: DataFrame, wave: Sequence[PublishPart], destination: PublishDestination) -> None:
    # a task's number is part of its publisher's name, so each part is one task, and they are in order
    tasks = [messages.where(sql.col("part") == part.number).drop("part").coalesce(1) for part in wave]
    (
        reduce(DataFrame.union, tasks)
        .write.format("warren")
        .mode("append")
        .options(
            url=destination.url,
            exchange=destination.exchange,
            publisher=f"{destination.publisher}-{wave[0].number}",
            timeout=str(destination.timeout_s),
        )
        .save()
    )
