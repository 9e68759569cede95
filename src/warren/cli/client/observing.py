"""`--telemetry`: the jobs of commands, told to OpenTelemetry.

Its providers are set by whoever starts the command: `opentelemetry-instrument`, or a program of one's own. Without any,
nothing is told to nobody.

Not here: what is told (`client.telemetry`).
"""

from typing import TYPE_CHECKING, Annotated

import typer

from warren.errors import ConfigError

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from warren.client.measures import Measured
    from warren.client.transport import Transport

Telemetry = Annotated[
    bool, typer.Option("--telemetry", help="Tell OpenTelemetry, whose providers the environment sets, how it goes.")
]


def check_telemetry() -> None:
    """A `ConfigError` if OpenTelemetry is not installed."""
    try:
        import warren.client.telemetry  # noqa: F401 - what is missing is told at once
    except ImportError as error:
        raise ConfigError(str(error)) from None


def traced(transport: "Transport") -> "Transport":
    from warren.client.telemetry import Traced

    return Traced(transport)


def observe_job(job: "Measured", engine: "Engine") -> None:
    """The job, and what is open in its database."""
    from warren.client.ledgers import OpenRows
    from warren.client.telemetry import observe

    observe(job, OpenRows(engine))
