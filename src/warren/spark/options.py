"""The options of `.option(...)`, checked before anything is connected, read or written; and the columns of a message.

Names are case-insensitive, as everywhere in Spark. An unknown name, one that does not apply, or an invalid value is an
`OptionError`: one sentence for the user.

Invariant: nothing here connects, so checked options can be pickled and used in any task. No error and no `repr` quotes
the URL, because it contains a password.

| column        | Spark                 |                                                                            |
|---------------|-----------------------|----------------------------------------------------------------------------|
| `partition`   | int                   | of a partitioned stream; 0 elsewhere                                       |
| `offset`      | bigint                | in its stream; for a queue, the number of the staged message               |
| `timestamp`   | timestamp             | when it arrived in the stream; for a queue, when it was staged             |
| `exchange`    | string                |                                                                            |
| `routing_key` | string                |                                                                            |
| `message_id`  | string                | null if the message has none                                               |
| `properties`  | struct                | all other properties of AMQP, null where absent                            |
| `headers`     | map<string, string>   | null if there are none                                                     |
| `body`        | binary                |                                                                            |

Values of headers are text: numbers in decimal, booleans as `true` or `false`, tables and arrays as JSON. Bytes that are
not UTF-8, in any column but `body`, are `Not UTF-8, base64 is: ` and base64 (`wire.octet_text`).

Spark starts processes that need only these names, for every micro-batch; so nothing here imports Arrow.

Not here: `startingOffsets` and `endingOffsets` (`spark.stream_offsets`), the columns in Arrow (`spark.arrow_columns`),
writing rows (`spark.sink`).
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from warren.client.errors import UriError
from warren.client.uri import parse_uri

PROPERTIES: Final[dict[str, str]] = {
    "content_type": "string",
    "content_encoding": "string",
    "delivery_mode": "int",
    "priority": "int",
    "correlation_id": "string",
    "reply_to": "string",
    "expiration": "string",
    "timestamp": "bigint",
    "type": "string",
    "user_id": "string",
    "app_id": "string",
    "cluster_id": "string",
}
"""The fields of column `properties`, in wire order. The timestamp is the publisher's, in seconds."""

COLUMNS: Final[dict[str, str]] = {
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "exchange": "string",
    "routing_key": "string",
    "message_id": "string",
    "properties": "struct<" + ", ".join(f"{name}: {kind}" for name, kind in PROPERTIES.items()) + ">",
    "headers": "map<string, string>",
    "body": "binary",
}


def ddl(columns: Sequence[str]) -> str:
    """The schema in Spark's DDL."""
    return ", ".join(f"{name} {COLUMNS[name]}" for name in columns)


COMMON_OPTIONS: Final = ("url", "timeout")
STREAM_OPTIONS: Final = (
    "stream",
    "startingOffsets",
    "endingOffsets",
    "maxRecordsPerTrigger",
    "maxBytesPerTrigger",
    "minPartitions",
    "failOnDataLoss",
    "consumerName",
)
QUEUE_OPTIONS: Final = ("queue", "mode", "stagingDir", "maxRecordsPerTrigger", "maxBytesPerTrigger")
COLUMN_OPTIONS: Final = ("columns", "includeHeaders")
READ_OPTIONS: Final = tuple(dict.fromkeys((*COMMON_OPTIONS, *STREAM_OPTIONS, *QUEUE_OPTIONS, *COLUMN_OPTIONS)))
WRITE_OPTIONS: Final = (*COMMON_OPTIONS, "exchange", "routingKey", "publisher", "mandatory", "maxRecordsPerTask")

SPARK_OPTIONS: Final = frozenset({"checkpointlocation", "queryname"})
"""Options for Spark itself that Spark passes to every sink."""

COUNT_DIGITS_MAX: Final = 18
"""The digits of Spark's largest number."""

TIMEOUT_S: Final = 60.0


class OptionError(ValueError):
    """A user's mistake, in one sentence."""


@dataclass(frozen=True)
class BrokerOptions:
    """The broker's address, and for how long to retry an unreachable one."""

    url: str = field(repr=False)
    timeout_s: float = TIMEOUT_S


@dataclass(frozen=True)
class StreamOptions:
    """Reading a stream or a partitioned stream. Offsets are the user's text, or None."""

    broker: BrokerOptions
    stream: str
    columns: tuple[str, ...]
    starting_offsets: str | None = None
    ending_offsets: str | None = None
    max_records_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    min_partitions: int | None = None
    fail_on_data_loss: bool = True
    consumer_name: str | None = None


@dataclass(frozen=True)
class QueueOptions:
    """Reading a queue. `mode` None means the default: a batch browses, a stream consumes."""

    broker: BrokerOptions
    queue: str
    columns: tuple[str, ...]
    mode: Literal["browse", "consume"] | None = None
    staging_dir: str | None = None
    max_records_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None


@dataclass(frozen=True)
class WriteOptions:
    """Writing: the default destination of rows, and the name of the publisher."""

    broker: BrokerOptions
    exchange: str | None = None
    routing_key: str | None = None
    publisher: str | None = None
    mandatory: bool = True
    max_records_per_task: int | None = None


def read_options(given: Mapping[str, str]) -> StreamOptions | QueueOptions:
    """The options of a reader."""
    said = _GivenOptions(given, READ_OPTIONS, "reading")
    if said.text("stream") is not None and said.text("queue") is not None:
        raise OptionError("options stream and queue exclude each other: one reader reads one of them")
    if said.text("stream") is not None:
        said.allow((*COMMON_OPTIONS, *STREAM_OPTIONS, *COLUMN_OPTIONS), "a stream")
        return _stream_options(said)
    if said.text("queue") is not None:
        said.allow((*COMMON_OPTIONS, *QUEUE_OPTIONS, *COLUMN_OPTIONS), "a queue")
        return _queue_options(said)
    raise OptionError('reading needs option("stream", NAME) or option("queue", NAME)')


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """The options of a writer."""
    said = _GivenOptions(given, WRITE_OPTIONS, "writing")
    publisher = said.text("publisher")
    if publisher is not None and not 0 < len(publisher.encode()) <= 200:
        raise OptionError("option publisher is a name of 1 to 200 bytes")
    return WriteOptions(
        said.broker(),
        exchange=said.short_text("exchange"),
        routing_key=said.short_text("routingKey"),
        publisher=publisher,
        mandatory=said.truth("mandatory", True),
        max_records_per_task=said.count("maxRecordsPerTask"),
    )


def _stream_options(said: "_GivenOptions") -> StreamOptions:
    return StreamOptions(
        said.broker(),
        said.name("stream"),
        said.columns(),
        starting_offsets=said.text("startingOffsets"),
        ending_offsets=said.text("endingOffsets"),
        max_records_per_trigger=said.count("maxRecordsPerTrigger"),
        max_bytes_per_trigger=said.count("maxBytesPerTrigger"),
        min_partitions=said.count("minPartitions"),
        fail_on_data_loss=said.truth("failOnDataLoss", True),
        consumer_name=None if said.text("consumerName") is None else said.name("consumerName"),
    )


def _queue_options(said: "_GivenOptions") -> QueueOptions:
    mode = said.text("mode")
    if mode is not None and mode.lower() not in ("browse", "consume"):
        raise OptionError(f"option mode is browse or consume, not {mode!r}")
    return QueueOptions(
        said.broker(),
        said.name("queue"),
        said.columns(),
        mode=None if mode is None else "browse" if mode.lower() == "browse" else "consume",
        staging_dir=said.text("stagingDir"),
        max_records_per_trigger=said.count("maxRecordsPerTrigger"),
        max_bytes_per_trigger=said.count("maxBytesPerTrigger"),
    )


class _GivenOptions:
    """Options by their lower-case names."""

    def __init__(self, given: Mapping[str, str], known: tuple[str, ...], doing: str) -> None:
        by_name = {name.lower(): name for name in known}
        self._values = {name.lower(): str(value) for name, value in given.items() if name.lower() not in SPARK_OPTIONS}
        for name in self._values:
            if name not in by_name:
                nearest = difflib.get_close_matches(name, by_name, 1, 0.0)[0]
                raise OptionError(f"there is no option {name!r} for {doing}; did you mean {by_name[nearest]}?")

    def allow(self, names: tuple[str, ...], what: str) -> None:
        allowed = {name.lower() for name in names}
        for name in READ_OPTIONS:
            if name.lower() in self._values and name.lower() not in allowed:
                raise OptionError(f"option {name} makes no sense for {what}")

    def text(self, name: str) -> str | None:
        return self._values.get(name.lower())

    def short_text(self, name: str) -> str | None:
        text = self.text(name)
        if text is not None and len(text.encode()) > 255:
            raise OptionError(f"option {name} has more than 255 bytes")
        return text

    def name(self, name: str) -> str:
        text = self.short_text(name)
        if not text:
            raise OptionError(f"option {name} is a name, and is empty")
        return text

    def count(self, name: str) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) <= COUNT_DIGITS_MAX) or int(text) < 1:
            raise OptionError(f"option {name} is a whole number from 1 on, not {text[:40]!r}")
        return int(text)

    def truth(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise OptionError(f"option {name} is true or false, not {text!r}")
        return text.lower() == "true"

    def broker(self) -> BrokerOptions:
        url = self.text("url")
        if url is None:
            raise OptionError('option("url", "amqp://user:password@host:port/vhost") says where the broker is')
        try:
            parse_uri(url)
        except UriError as error:
            raise OptionError(f"option url: {error}") from None
        return BrokerOptions(url, self._seconds("timeout", TIMEOUT_S))

    def _seconds(self, name: str, default: float) -> float:
        text = self.text(name)
        if text is None:
            return default
        try:
            seconds = float(text)
        except ValueError:
            seconds = -1.0
        if not 0 < seconds <= 86_400:
            raise OptionError(f"option {name} is a number of seconds up to 86400, not {text!r}")
        return seconds

    def columns(self) -> tuple[str, ...]:
        """The columns in the user's order; by default all but the headers."""
        text = self.text("columns")
        # headers are decoded one by one, so they are read only on request
        with_headers = self.truth("includeHeaders", text is not None)
        if text is None:
            return tuple(name for name in COLUMNS if with_headers or name != "headers")
        wanted = tuple(name.strip().lower() for name in text.split(","))
        for name in wanted:
            if name not in COLUMNS:
                nearest = difflib.get_close_matches(name, COLUMNS, 1, 0.0)[0]
                raise OptionError(f"option columns: there is no column {name!r}; did you mean {nearest}?")
        if len(set(wanted)) < len(wanted):
            raise OptionError("option columns names a column twice")
        if "headers" in wanted and not with_headers:
            raise OptionError("option columns asks for headers, and option includeHeaders says false")
        return wanted
