"""The broker's own counters of its queues, from its HTTP API or from a saved file.

    counters = from_broker("http://localhost:15672", "guest", "guest")
    counters = from_file("counters.json")           # what GET /api/queues answers
    counters = from_file("counters.json")           # or {"queues": …, "traces": what GET /api/traces answers}

Names and meanings are RabbitMQ's. `message_stats` restarts with a node, so it may count less than a trace; it is
compared with the trace and decides nothing by itself, except how many equal messages were not traced.

Not here: the comparison (`audit.checks`).
"""

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from warren.pipeline.errors import PipelineError
from warren.pipeline.folder import Folder

TIMEOUT_S: Final = 60.0
COLUMNS: Final = "vhost,name,type,state,arguments,effective_policy_definition,messages,messages_ready,message_stats"
LIMITS: Final = ("message-ttl", "max-length", "max-length-bytes")
LENGTHS: Final = ("max-length", "max-length-bytes")
UNKNOWN: Final = frozenset({401, 403, 404, 405})
"""Status codes of a broker that has no traces, or does not show them to this user."""
SCHEMA: Final = (
    "vhost string, queue string, stream boolean, may_drop boolean, in_queue bigint, "
    "broker_published bigint, broker_delivered bigint, broker_acked bigint"
)


@dataclass(frozen=True)
class QueueCounters:
    """One queue; a counter that the broker does not have is None."""

    vhost: str
    queue: str
    stream: bool
    may_drop: bool
    """Whether messages may go without a dead letter."""
    in_queue: int | None
    """How many messages wait in it, undelivered or requeued."""
    broker_published: int | None
    broker_delivered: int | None
    broker_acked: int | None


@dataclass(frozen=True)
class Counters:
    """All queues, and how many copies were dropped before they reached a trace's file."""

    queues: tuple[QueueCounters, ...]
    copies_dropped: int


def from_broker(url: str, user: str, password: str) -> Counters:
    """Ask the broker now."""
    queues = _asked(url, f"queues?columns={COLUMNS}", user, password)
    traces = _asked(url, "traces", user, password, UNKNOWN)
    return parsed({"queues": queues, "traces": traces or []}, url)


def from_file(path: str) -> Counters:
    """Read saved counters."""
    folder, slash, name = path.rpartition("/")
    document = Folder(folder or slash or ".").read_json(name)
    if document is None:
        raise PipelineError(f"there is no file {path} with the broker's counters")
    return parsed(document, path)


def parsed(document: Any, where: str) -> Counters:
    """Parse the API's answer; `where` names it in errors."""
    parts: dict[str, Any] = document if isinstance(document, dict) else {"queues": document}
    try:
        queues = [_queue(row) for row in parts["queues"]]
        dropped = sum(int(trace.get("dropped", 0)) for trace in parts.get("traces", []))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise PipelineError(f"{where} has no counters of queues as /api/queues has them") from None
    return Counters(tuple(sorted(queues, key=lambda each: (each.vhost, each.queue))), dropped)


def frame(spark: SparkSession, queues: Iterable[QueueCounters]) -> DataFrame:
    """As rows, in the order of `SCHEMA`."""
    rows = [
        (
            each.vhost,
            each.queue,
            each.stream,
            each.may_drop,
            each.in_queue,
            each.broker_published,
            each.broker_delivered,
            each.broker_acked,
        )
        for each in queues
    ]
    return spark.createDataFrame(rows, SCHEMA)


def _queue(row: dict[str, Any]) -> QueueCounters:
    counted = row.get("message_stats") or {}
    waiting = row.get("messages_ready", row.get("messages"))
    return QueueCounters(
        str(row["vhost"]),
        str(row["name"]),
        row.get("type") == "stream",
        _may_drop(row),
        None if waiting is None else int(waiting),
        *(None if name not in counted else int(counted[name]) for name in ("publish", "deliver_get", "ack")),
    )


def _may_drop(row: dict[str, Any]) -> bool:
    """Limits dead-letter messages, unless there is no exchange for that or the queue rejects publishes."""
    in_force: dict[str, Any] = dict(row.get("effective_policy_definition") or {})
    in_force |= {name.removeprefix("x-"): value for name, value in (row.get("arguments") or {}).items()}
    if str(in_force.get("overflow", "")).startswith("reject-publish") and any(name in in_force for name in LENGTHS):
        return True
    return "dead-letter-exchange" not in in_force and any(name in in_force for name in LIMITS)


def _asked(url: str, path: str, user: str, password: str, unknown: frozenset[int] = frozenset()) -> Any:
    login = base64.b64encode(f"{user}:{password}".encode()).decode()
    place = f"{url.rstrip('/')}/api/{path}"
    try:
        request = urllib.request.Request(place, headers={"authorization": f"Basic {login}"})
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code in unknown:
            return None
        if error.code == 401:
            raise PipelineError(f"{url} does not accept this user name and password") from None
        raise PipelineError(f"{url} does not report its counters: {error.code} {error.reason}") from None
    except (OSError, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise PipelineError(f"the HTTP API of the broker does not answer at {url}: {reason}") from None
