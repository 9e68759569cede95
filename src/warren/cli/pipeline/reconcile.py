"""`warren pipeline reconcile`: compare ledgers by business id.

Exit codes are those of `diff`: 0 in balance, 1 differences, 2 any error. So a script that checks for 1 never mistakes
an unreachable database for a difference.

Not here: the comparison (`pipeline.reconcile`).
"""

from typing import Annotated, Any

import typer

from warren.cli.pipeline.options import LOCAL, MEMORY, Conf, Master, Memory, needed_packages, spark_session
from warren.cli.terminal import say
from warren.errors import ConfigError, WarrenError

EPILOG = (
    "Examples: warren pipeline reconcile ledgers.toml --day 2026-11-15 --out result\n\n"
    "warren pipeline reconcile orders.csv payments.csv --key order_id --amount amount --out result"
)


def add_to(app: typer.Typer) -> None:
    app.command(epilog=EPILOG)(reconcile)


def _option(metavar: str, sentence: str) -> Any:
    return typer.Option(metavar=metavar, help=sentence)


def reconcile(
    ledgers: Annotated[
        list[str], typer.Argument(metavar="FILE.toml | LEFT RIGHT", help="A description, or two files.")
    ],
    out: Annotated[str, _option("DIR", "Where to write the result: a table, a summary and a page.")],
    day: Annotated[str, _option("YYYY-MM-DD", "The business day.")] = "",
    key: Annotated[list[str] | None, _option("NAME", "Key column of two files; may be repeated.")] = None,
    amount: Annotated[list[str] | None, _option("NAME", "Amount that must match; may be repeated.")] = None,
    compare: Annotated[list[str] | None, _option("NAME", "Another column that must match; may be repeated.")] = None,
    authority: Annotated[str, _option("left|right", "Which of two files is authoritative; left by default.")] = "",
    time: Annotated[str, _option("NAME", "Time column of two files.")] = "",
    zone: Annotated[str, _option("ZONE", "Time zone of the business day, and of times without one.")] = "",
    grace: Annotated[str, _option("6h", "How long after the day its rows may arrive.")] = "",
    tolerance: Annotated[str, _option("NUMBER", "Allowed difference of amounts.")] = "",
    relative: Annotated[
        str, _option("NUMBER", "Allowed difference relative to the authority's amount, such as 0.001.")
    ] = "",
    where: Annotated[str, _option("SQL", "Filter for rows of two files.")] = "",
    allow_empty: Annotated[bool, typer.Option("--allow-empty", help="One of two files may have no rows.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Also keep keys that are in balance.")] = False,
    master: Master = LOCAL,
    memory: Memory = MEMORY,
    conf: Conf = None,
) -> int:
    """Compare ledgers by business id: missing, different and duplicate entries.

    Exit codes: 0 in balance, 1 differences, 2 any error.
    """
    given: dict[str, Any] = {
        "key": key, "amounts": amount, "compared": compare, "authority": authority, "time": time, "zone": zone,
        "grace": grace, "tolerance": tolerance, "relative": relative, "where": where, "may_be_empty": allow_empty,
    }  # fmt: skip
    try:
        return _reconcile(ledgers, given, day, out, everything, (master, memory, conf))
    except ConfigError:
        raise
    except WarrenError as error:
        raise ConfigError(str(error)) from error


def _reconcile(
    ledgers: list[str],
    given: dict[str, Any],
    day: str,
    out: str,
    everything: bool,
    spark: tuple[str, str, list[str] | None],
) -> int:
    with needed_packages():
        from warren.pipeline.folder import Folder
        from warren.pipeline.reconcile import job
        from warren.pipeline.reconcile.describing import described, two_paths
        from warren.pipeline.reconcile.summary import summary_text

    if len(ledgers) == 1 and ledgers[0].endswith(".toml"):
        needless = [name for name, value in given.items() if value]
        if needless:
            raise ConfigError(f"{needless[0]} belongs into {ledgers[0]}, or to two files")
        settings = described(ledgers[0], day, everything)
    elif len(ledgers) == 2:
        settings = two_paths(ledgers[0], ledgers[1], given | {"day": day, "everything": everything})
    else:
        raise ConfigError("reconcile takes one description (.toml) or two files")
    folder = Folder(out)
    with spark_session("reconcile", *spark) as session:
        outcome = job.run(session, settings, folder)
    say(summary_text(outcome))
    print(f"{folder}/{job.REPORT}")
    return 0 if outcome.balanced else 1
