"""`warren client relay`: a process that publishes what an outbox has.

Standard output says `ready` when it stands by or is active, standard error is its log.

Not here: the relay (`client.outbox`).
"""

import asyncio
import os
from typing import TYPE_CHECKING, Annotated

import typer

from warren.cli.client.choosing import Set, chosen
from warren.cli.client.databases import Database, engine_of, needed_packages
from warren.cli.client.log_lines import LogFormat, logged_lines
from warren.cli.client.observing import Telemetry, check_telemetry, observe_job, traced
from warren.cli.client.running import run_job, stop_by_signals
from warren.errors import ConfigError

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from warren.client.outbox import RelaySettings
    from warren.client.settings import Settings

NAME = "relay"


def add_to(app: typer.Typer) -> None:
    app.command(
        epilog="Example: warren client relay --database postgresql://shop@localhost/shop --url amqp://localhost\n\n"
        "Both have passwords in them: give them as WARREN_CLIENT_DATABASE and WARREN_CLIENT_URL where others can see "
        "command lines."
    )(relay)


def relay(
    database: Database,
    url: Annotated[
        str,
        typer.Option(
            envvar="WARREN_CLIENT_URL",
            metavar="URL",
            help="The broker; several hosts are separated by commas. Unless given, as the settings say.",
        ),
    ] = "",
    settings: Annotated[
        str,
        typer.Option(
            metavar="FILE", help="Settings of a program: where the broker is, and what is declared before publishing."
        ),
    ] = "",
    choices: Set = None,
    once: Annotated[bool, typer.Option("--once", help="Publish what may go, say how many, and end.")] = False,
    telemetry: Telemetry = False,
    log_format: LogFormat = "plaintext",
) -> int:
    """Publish the rows of an outbox until SIGTERM or Ctrl-C; of several relays one is active."""
    with needed_packages():
        from warren.client.outbox import RelaySettings
    relaying = chosen(RelaySettings, choices)
    if telemetry:
        check_telemetry()
    program = _program(url, settings)
    engine = engine_of(database)
    with logged_lines(log_format):
        asyncio.run(_relay(engine, program, relaying, once, telemetry))
    return 0


def _program(url: str, file: str) -> "Settings":
    from warren.client.errors import SettingsError, UriError
    from warren.client.settings import Settings, read_settings
    from warren.client.uri import parse_uri

    if not url and not file:
        raise ConfigError("where is the broker? Say --url URL, or --settings FILE")
    try:
        found = read_settings(file, os.environ) if file else Settings(url)
        if url:
            parse_uri(url)
    except (SettingsError, UriError) as error:
        raise ConfigError(str(error)) from None
    return Settings(url or found.url, found.name or NAME, found.layout)


async def _relay(engine: "Engine", program: "Settings", settings: "RelaySettings", once: bool, telemetry: bool) -> None:
    from warren.client import recovering
    from warren.client.outbox import Relay

    async with await recovering.open(program.url, name=program.name) as opened:
        await opened.declare(program.layout)
        relay = Relay(engine, traced(opened) if telemetry else opened, settings)
        if telemetry:
            observe_job(relay, engine)
        stop_by_signals(relay)
        if once:
            print(f"sent {await relay.drain()} rows", flush=True)
        else:
            await run_job(relay, engine)
    engine.dispose()
