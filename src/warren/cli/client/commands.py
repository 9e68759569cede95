"""The command lines of `warren client`.

Standard output has the findings, standard error reasons for refusals.

Exit codes: 0 nothing found; 1 something was found, or the broker cannot be asked; 2 wrong usage, or an invalid settings
file.

Not here: the checks (`client.settings.checks`), other commands of this package.
"""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from warren.cli.client import databases, jobs, open_items
from warren.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from warren.client.settings import Settings


app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

File = Annotated[str, typer.Argument(metavar="FILE", help="Settings of a program: NAME.toml or NAME.properties.")]


@app.callback(epilog="Example: warren client lint shop.toml")
def client() -> None:
    """For programs that use the client: check settings, manage tables, run jobs."""


@app.command(epilog="Example: warren client lint shop.toml")
def lint(file: File) -> int:
    """Check the names in a settings file against the naming convention.

    Variables that are not set stay as they are written; names that contain one are skipped.
    """
    from warren.client.settings import lint as findings_of

    findings = findings_of(_settings(file, _AsWritten(os.environ)))
    for finding in findings:
        print(finding)
    print(f"{file}: {_counted(len(findings), 'finding')}" if findings else f"{file}: all names follow the convention")
    return 1 if findings else 0


@app.command(epilog="Example: warren client check shop.toml")
def check(file: File) -> int:
    """Check that the broker has every exchange and queue of a settings file; nothing is declared.

    Bindings are not checked: AMQP cannot query them.
    """
    import asyncio

    from warren.client.settings import absences

    settings = _settings(file, os.environ)
    found = asyncio.run(absences(settings))
    for absence in found:
        print(absence)
    print(f"{file}: {_counted(len(found), 'problem')} found" if found else f"{file}: the broker has everything")
    return 1 if found else 0


open_items.add_open_items(app)
jobs.add_relay(app)
jobs.add_chase(app)
databases.add_tables(app)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


class _AsWritten(dict[str, str]):
    """Variables; one that is not set stands for itself as it is written in the file."""

    def __missing__(self, name: str) -> str:
        return f"${{{name}}}"


def _settings(file: str, environment: "Mapping[str, str]") -> "Settings":
    from warren.client.errors import SettingsError
    from warren.client.settings import read_settings

    try:
        return read_settings(file, environment)
    except SettingsError as error:
        raise ConfigError(str(error)) from None
