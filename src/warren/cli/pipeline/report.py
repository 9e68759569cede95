"""`warren pipeline report`: traffic, latency and growth of a lake as one HTML page.

Not here: the report (`warren.pipeline.report`).
"""

from datetime import datetime
from typing import Annotated, Any

import typer

from warren.cli.pipeline.options import LOCAL, MEMORY, Conf, Master, Memory, needed_packages, spark_session
from warren.errors import ConfigError
from warren.pipeline.html.quantities import bytes_of

EXAMPLE = "Example: warren pipeline report --lake lake --out report.html --rate 5000 --disk 500GB"


def _day(sentence: str) -> Any:
    return typer.Option(formats=["%Y-%m-%d"], metavar="DAY", help=sentence)


def add_to(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLE)(report)


def report(
    lake: Annotated[str, typer.Option(metavar="DIR", help="The lake that 'warren pipeline trace' writes.")],
    out: Annotated[str, typer.Option(metavar="FILE", help="The page to write; an existing file is replaced.")],
    since: Annotated[datetime | None, _day("The first day, in UTC, such as 2026-11-01.")] = None,
    until: Annotated[datetime | None, _day("The last day, in UTC.")] = None,
    vhost: Annotated[str | None, typer.Option(metavar="NAME", help="Only this virtual host.")] = None,
    rate: Annotated[
        float | None, typer.Option(metavar="N", help="Forecast when the busiest hour reaches N messages per second.")
    ] = None,
    disk: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Forecast when payloads fill this much disk, such as 500GB.")
    ] = None,
    master: Master = LOCAL,
    memory: Memory = MEMORY,
    conf: Conf = None,
) -> int:
    """Show traffic, latencies, hot queues, growth and a forecast of a lake as one HTML page."""
    if rate is not None and not 0 < rate < float("inf"):
        raise ConfigError("--rate is a number of messages a second, and more than 0")
    disk_bytes = None if disk is None else bytes_of(disk)
    if disk is not None and not disk_bytes:
        raise ConfigError(f"--disk is a size such as 500GB or 1.5TiB, not {disk!r}")
    with needed_packages():
        from warren.pipeline.folder import Folder
        from warren.pipeline.report import job
        from warren.pipeline.report.outlook import Limits
    first, last = (None if day is None else day.date() for day in (since, until))
    settings = job.Settings(Folder(lake), out, first, last, vhost, Limits(disk_bytes, rate))
    settings.check()
    with spark_session("report", master, memory, conf) as spark:
        outcome = job.run(spark, settings)
    print(f"{outcome.path}: {outcome.events:,} events")
    return 0
