"""Publishing what is staged, part by part, so that each message is published once whatever is killed, and when.

Messages are a DataFrame that stays as it is, with a column `part`. Each part is what one task writes, in the name of a
publisher of its own, and has so few messages that the broker remembers all their ids. A few parts are written at once;
when they are confirmed, their numbers are put into a small file. So after a kill the parts in that file are left out,
and of the few others that were begun the broker drops what it has.

    not begun ──▶ some messages are there ──▶ all confirmed ──▶ in the file
                        ▲            │
                        └─ run again ┘   the same ids under the same name

Not here: making messages (`pipeline.load`, `pipeline.compensate`), confirms (`spark.sinking`).
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
"""So few that a queue remembers those of a whole wave, even if they were one publisher's."""

PART_BYTES: Final = 64_000_000
PARTS_AT_ONCE: Final = 4
DONE: Final = "done.json"


@dataclass(frozen=True)
class PublishPart:
    """What one write publishes."""

    number: int
    messages: int
    records: int
    bytes: int


@dataclass(frozen=True)
class PublishDestination:
    """Where messages go that do not say so, and in whose name."""

    url: str = field(repr=False)
    publisher: str
    exchange: str = ""
    timeout_s: float = 60.0


def check_destination(destination: PublishDestination, routing_keys: Sequence[str] = ()) -> None:
    """Whether the broker is there, with the exchange, or of the default one the queues that these keys name.

    Asked before anything is written that would count on it.
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
    """The parts of which all is confirmed."""
    return set(folder.read_json(DONE) or [])


def publish(
    messages: DataFrame,
    parts: Sequence[PublishPart],
    folder: Folder,
    destination: PublishDestination,
    tell: Callable[[PublishPart], None],
) -> None:
    """Publish the parts that are not done, and keep in the folder which are; `tell` hears of each.

    The parts must be the same, in the same order, whenever this is run again.
    """
    write_parts(parts, folder, lambda wave: _write(messages, wave, destination), tell)


def write_parts(
    parts: Sequence[PublishPart],
    folder: Folder,
    write: Callable[[Sequence[PublishPart]], None],
    tell: Callable[[PublishPart], None],
) -> None:
    """The same for parts that go elsewhere: `write` is called with a few of them at once, and again after a kill."""
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
            tell(part)


def _write(messages: DataFrame, wave: Sequence[PublishPart], destination: PublishDestination) -> None:
    # a task's number is part of its publisher's name, so each part is one task, and they stand in order
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
