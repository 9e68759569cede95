"""`warren client chase`: a process that goes after receipts that are overdue.

Standard output says `ready` when it stands by or is active, standard error is its log; an alert is an event there,
`receipt.alert`, of level error.

Not here: the chaser (`client.receipts`).
"""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from warren.cli.client.choosing import Set, chosen
from warren.cli.client.databases import Database, engine_of, needed_packages
from warren.cli.client.log_lines import LogFormat, logged_lines
from warren.cli.client.observing import Telemetry, check_telemetry, observe_job
from warren.cli.client.running import run_job, stop_by_signals

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from warren.client.receipts import ChasingSettings


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: warren client chase --database postgresql://shop@localhost/shop")(chase)


def chase(
    database: Database,
    choices: Set = None,
    once: Annotated[
        bool, typer.Option("--once", help="Deal with what is overdue, say what was done, and end.")
    ] = False,
    telemetry: Telemetry = False,
    log_format: LogFormat = "plaintext",
) -> int:
    """Go after receipts that are overdue until SIGTERM or Ctrl-C; of several chasers one is active.

    Messages are sent again, then compensated for, and if nothing helps given up with an alert.
    """
    with needed_packages():
        from warren.client.receipts import ChasingSettings
    chasing = chosen(ChasingSettings, choices)
    if telemetry:
        check_telemetry()
    engine = engine_of(database)
    with logged_lines(log_format):
        asyncio.run(_chase(engine, chasing, once, telemetry))
    engine.dispose()
    return 0


async def _chase(engine: "Engine", settings: "ChasingSettings", once: bool, telemetry: bool) -> None:
    from warren.client.receipts import Chaser

    chaser = Chaser(engine, settings)
    if telemetry:
        observe_job(chaser, engine)
    stop_by_signals(chaser)
    if once:
        chased = await chaser.once()
        print(f"resent {chased.resent}, compensated {chased.compensated}, failed {chased.failed} rows", flush=True)
    else:
        await run_job(chaser, engine)
