"""`warren pipeline audit`: lost, duplicated and reordered messages by queue.

Standard output has a row for each queue and a few of the affected messages.

Exit codes: 0 nothing found; 1 messages are lost, duplicated or out of order, or the audit failed.

Not here: the audit (`warren.pipeline.audit`).
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from warren.cli.pipeline.options import LOCAL, MEMORY, Conf, Master, Memory, needed_packages, spark_session
from warren.cli.terminal import say
from warren.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import Row

    from warren.pipeline.audit.job import AuditOutcome


SHOWN = 5
COLUMNS = (
    "vhost",
    "queue",
    "published",
    "confirmed",
    "delivered",
    "acked",
    "in_queue",
    "lost",
    "duplicated",
    "out_of_order",
    "excused",
)
SUMS = ("lost", "duplicated", "out_of_order", "excused")


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: warren pipeline audit --lake lake --http http://localhost:15672")(audit)


def audit(
    lake: Annotated[str, typer.Option(metavar="DIR", help="The lake of `warren pipeline trace`.")],
    http: Annotated[str, typer.Option(metavar="URL", help="The HTTP API of the broker, for its counters.")] = "",
    user: Annotated[str, typer.Option(metavar="NAME", help="A user with the tag monitoring.")] = "guest",
    password: Annotated[str, typer.Option(metavar="WORD", help="The password of the user.")] = "guest",
    counters: Annotated[
        str, typer.Option(metavar="FILE", help="Instead of --http: a response of GET /api/queues.")
    ] = "",
    until: Annotated[
        str,
        typer.Option(metavar="TIME", help="With --counters: when they were requested, such as 2026-11-16T08:30:00Z."),
    ] = "",
    answered: Annotated[
        str, typer.Option(metavar="TIME", help="With --until: when the response arrived; the same by default.")
    ] = "",
    queue: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this queue; may be repeated.")] = None,
    out: Annotated[str, typer.Option(metavar="DIR", help="Where to write the result; LAKE/audit by default.")] = "",
    listed: Annotated[
        int, typer.Option(metavar="N", min=1, help="Number of findings to list for each queue and kind.")
    ] = 100,
    master: Master = LOCAL,
    memory: Memory = MEMORY,
    conf: Conf = None,
) -> int:
    """Find lost, duplicated and reordered messages, queue by queue."""
    if bool(http) == bool(counters):
        raise ConfigError("an audit needs the broker's counters: give either --http or --counters")
    if until and not counters:
        raise ConfigError("--until belongs to --counters: counters that are taken by --http are of this moment")
    if answered and not until:
        raise ConfigError(
            "--answered belongs to --until: it says when the counters were there that were asked for then"
        )
    with needed_packages():
        from warren.pipeline.audit import counters as broker
        from warren.pipeline.audit.checks import CountersInterval
        from warren.pipeline.audit.job import Settings, run
        from warren.pipeline.folder import Folder

    asked_at = datetime.now(UTC) if http else _time(until)
    said = broker.from_broker(http, user, password) if http else broker.from_file(counters)
    answered_at = datetime.now(UTC) if http else _time(answered) or asked_at
    taken = CountersInterval(asked_at, answered_at) if asked_at and answered_at else None
    target = Folder(out) if out else Folder(lake).child("audit")
    settings = Settings(Folder(lake), said, target, taken, tuple(queue or ()), listed)
    settings.check()
    with spark_session("audit", master, memory, conf) as spark:
        outcome = run(spark, settings)
    say(outcome_text(outcome))
    return 0 if outcome.is_well else 1


def outcome_text(outcome: "AuditOutcome") -> str:
    """The outcome as text."""
    lines = _aligned([COLUMNS, *([_cell(row[name]) for name in COLUMNS] for row in outcome.queues)])
    for row in outcome.queues:
        lines += _findings(row)
    lines += [f"{row['queue']}: {row['note']}" for row in outcome.queues if row["note"]]
    if outcome.unroutable:
        lines.append(f"{outcome.unroutable} publishes came to no queue")
    if outcome.copies_dropped:
        lines.append(f"traces have dropped {outcome.copies_dropped} copies: missing messages may be among them")
    sums = [f"{outcome.total(name)} {name.replace('_', ' ')}" for name in SUMS]
    return "\n".join([*lines, f"{len(outcome.queues)} queues: {', '.join(sums)}"])


def _findings(row: "Row") -> list[str]:
    lines: list[str] = []
    for kind in ("lost", "duplicated", "out of order"):
        found = [each for each in row["findings"] if each["finding"] == kind]
        lines += [f"{row['queue']}: {kind}: {each['message_key']}" for each in found[:SHOWN]]
        if len(found) > SHOWN:
            lines.append(f"{row['queue']}: {kind}: and more; the result lists {len(found)}")
    return lines


def _cell(value: object) -> str:
    return "-" if value is None else str(value)


def _aligned(rows: list["tuple[str, ...] | list[str]"]) -> list[str]:
    titles = [name.replace("_", " ") for name in rows[0]]
    cells = [titles, *rows[1:]]
    widths = [max(len(row[at]) for row in cells) for at in range(len(titles))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def _time(text: str) -> datetime | None:
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{text!r} is no time such as 2026-11-16T08:30:00Z") from None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
