"""`warren client relay` and `warren client chase`: the outbox relay and the receipt monitor as processes.

A job prints `ready` on standard output when it is on standby or active, logs to standard error, and stops cleanly after
SIGTERM or Ctrl-C. An alert of the receipt monitor is the event `receipt.alert` of level error.

`--set NAME=VALUE` changes a setting of the job by its name in the program. Log lines look like those of a node: `time=…
level=… event=… key=value …`; a record that is a sentence has the name of its logger as event and the sentence as
`message`. `--telemetry` reports to OpenTelemetry, whose providers the operator sets up, for example with
`opentelemetry-instrument`.

Not here: the jobs and their settings (`client.outbox`, `client.receipts`), the format of log lines (`node.logs`), what
is reported (`client.telemetry`).
"""

import asyncio
import dataclasses
import difflib
import logging
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_type_hints

import typer

from warren.cli.client.databases import Database, engine_of, needed_packages, shown
from warren.client.errors import SettingsError
from warren.errors import ConfigError

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from warren.client.listening.blocking import Job
    from warren.client.measures import Measured
    from warren.client.outbox import RelaySettings
    from warren.client.receipts import ChasingSettings
    from warren.client.settings import Settings
    from warren.client.transport import Transport


def stop_by_signals(job: "Job") -> None:
    """Stop the job on signals; must be called in the running loop."""
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, job.stop)


async def run_job(job: "Job", engine: "Engine") -> None:
    """Run until the job is told to stop or fails."""
    print(f"ready database={shown(engine)}", flush=True)
    await job.run()


T = TypeVar("T")

NONE = "none"

Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the job; may be repeated.")
]


def chosen(kind: type[T], given: list[str] | None) -> T:
    """Settings with these changes; `ConfigError` for unknown names and invalid values."""
    kinds = get_type_hints(kind)
    names = [each.name for each in dataclasses.fields(kind)]  # type: ignore[arg-type]  # a dataclass, as all settings
    values: dict[str, object] = {}
    for each in given or []:
        name, separator, text = each.partition("=")
        if not separator:
            raise ConfigError(f"--set is NAME=VALUE, not {each!r}")
        if name not in names:
            nearest = difflib.get_close_matches(name, names, 1)
            hint = f"; did you mean {nearest[0]}?" if nearest else ""
            raise ConfigError(f"--set knows {', '.join(names)}, not {name!r}{hint}")
        values[name] = _value(name, text, kinds[name])
    try:
        return kind(**values)
    except SettingsError as error:
        raise ConfigError(str(error)) from None


def _value(name: str, text: str, kind: object) -> object:
    """A number of that type; `none` where it is optional."""
    kinds = get_args(kind) or (kind,)
    if text == NONE and type(None) in kinds:
        return None
    try:
        return int(text) if int in kinds else float(text)
    except ValueError:
        wanted = "a whole number" if int in kinds else "a number"
        raise ConfigError(f"--set {name} is {wanted}, not {text!r}") from None


FORMATS = ("plaintext", "json")
LOGGER = "warren.client"

LogFormat = Annotated[
    str,
    typer.Option(envvar="WARREN_CLIENT_LOG_FORMAT", metavar="FORMAT", help="Log format: plaintext or json."),
]

_EVENT = re.compile(r"[a-z_]+(\.[a-z_]+)+")
_OF_EVERY_RECORD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "taskName"}


@contextmanager
def logged_lines(form: str) -> Iterator[None]:
    """Within the context, the client's log of level info and above goes to standard error."""
    if form not in FORMATS:
        raise ConfigError(f"--log-format is one of {', '.join(FORMATS)}, not {form!r}")
    handler = logging.StreamHandler()
    handler.setFormatter(LogLineFormatter(form))
    logger = logging.getLogger(LOGGER)
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


class LogLineFormatter(logging.Formatter):
    """A record as one line; in plain text, its traceback follows."""

    def __init__(self, form: str) -> None:
        super().__init__()
        from warren.node.logs import render_line, render_object

        self._render = render_object if form == "json" else render_line

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")
        facts: dict[str, Any] = {"time": time, "level": record.levelname.lower()}
        said = record.getMessage()
        facts |= {"event": said} if _EVENT.fullmatch(said) else {"event": record.name, "message": said}
        facts |= {name: value for name, value in vars(record).items() if name not in _OF_EVERY_RECORD}
        if record.exc_info:
            facts["exception"] = self.formatException(record.exc_info)
        return self._render(None, "", facts)


Telemetry = Annotated[
    bool, typer.Option("--telemetry", help="Report to OpenTelemetry; the environment sets its providers.")
]


def check_telemetry() -> None:
    """`ConfigError` if OpenTelemetry is not installed."""
    try:
        import warren.client.telemetry  # noqa: F401 - a missing package is reported at once
    except ImportError as error:
        raise ConfigError(str(error)) from None


def traced(transport: "Transport") -> "Transport":
    from warren.client.telemetry import Traced

    return Traced(transport)


def observe_job(job: "Measured", engine: "Engine") -> None:
    """Report the job and the open items of its database."""
    from warren.client.ledgers import OpenRows
    from warren.client.telemetry import observe

    observe(job, OpenRows(engine))


NAME = "relay"


def add_relay(app: typer.Typer) -> None:
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
            help="The broker; several hosts are separated by commas. By default, as in the settings.",
        ),
    ] = "",
    settings: Annotated[
        str,
        typer.Option(
            metavar="FILE", help="Settings of a program: the broker, and the topology to declare before publishing."
        ),
    ] = "",
    choices: Set = None,
    once: Annotated[bool, typer.Option("--once", help="Publish the due rows, print their number, and end.")] = False,
    telemetry: Telemetry = False,
    log_format: LogFormat = "plaintext",
) -> int:
    """Publish the rows of an outbox until SIGTERM or Ctrl-C; one of several relays is active."""
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


def add_chase(app: typer.Typer) -> None:
    app.command(epilog="Example: warren client chase --database postgresql://shop@localhost/shop")(chase)


def chase(
    database: Database,
    choices: Set = None,
    once: Annotated[
        bool, typer.Option("--once", help="Handle overdue receipts once, print the result, and end.")
    ] = False,
    telemetry: Telemetry = False,
    log_format: LogFormat = "plaintext",
) -> int:
    """Handle overdue receipts until SIGTERM or Ctrl-C; one of several processes is active.

    Messages are resent, then compensated, and at last given up with an alert.
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
