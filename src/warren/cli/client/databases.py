"""The database that a command is told of: `--database`, and the engine behind it.

Errors never show a password.

Not here: the tables in it (`warren.client.tables`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warren.errors import ConfigError

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine

DRIVER = "postgresql+psycopg"

Database = Annotated[
    str,
    typer.Option(
        envvar="WARREN_CLIENT_DATABASE",
        metavar="URL",
        help="The database with the tables: postgresql://USER:PASSWORD@HOST/NAME, or sqlite:///FILE.",
    ),
]


@contextmanager
def needed_packages() -> Iterator[None]:
    """For imports of what stands on a database, which need not be installed with the broker."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigError(f"a database needs more packages: pip install 'warren[database]' ({error.name})") from None


def engine_of(given: str, *, must_exist: bool = True) -> "Engine":
    """An engine for the URL; a `ConfigError` if it makes no sense, or names a file that is not there and must be."""
    with needed_packages():
        from sqlalchemy import create_engine
        from sqlalchemy.exc import ArgumentError, NoSuchModuleError
    try:
        url = _url_of(given, must_exist)
        with needed_packages():
            return create_engine(url)
    except NoSuchModuleError as error:
        raise ConfigError(f"--database is of a kind that nobody here knows: {error}") from None
    except ArgumentError:
        raise ConfigError("--database is no URL; one is postgresql://USER@HOST/NAME, or sqlite:///FILE") from None


def shown(engine: "Engine") -> str:
    """Where it is, without a password."""
    return engine.url.render_as_string(hide_password=True)


def _url_of(given: str, must_exist: bool) -> "URL":
    from sqlalchemy import make_url

    url = make_url(given)
    if url.drivername in ("postgres", "postgresql"):
        url = url.set(drivername=DRIVER)
    if url.get_backend_name() not in ("postgresql", "sqlite"):
        raise ConfigError(f"--database is PostgreSQL or SQLite, not {url.get_backend_name()}")
    if url.get_backend_name() == "sqlite":
        _check_file(url.database or ":memory:", must_exist)
    return url


def _check_file(name: str, must_exist: bool) -> None:
    """A file that is not there would be made, empty, and nobody would look into it."""
    if name == ":memory:":
        raise ConfigError("--database is a file of SQLite, sqlite:///FILE: nobody else sees a database in memory")
    if must_exist and not name.startswith("file:") and not Path(name).is_file():
        raise ConfigError(f"--database names a file that is not there: {name}")
