"""`--database` and its engine, and `warren client tables`.

Errors never show a password.

Not here: valid URLs (`client.ledgers.database`), the tables and their upgrades (`client.tables`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from warren.errors import ConfigError

if TYPE_CHECKING:
    from sqlalchemy import Engine


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
    """Wraps imports of database packages, which are optional."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigError(f"a database needs more packages: pip install 'warren[database]' ({error.name})") from None


def engine_of(given: str, *, must_exist: bool = True) -> "Engine":
    """An engine for the URL; `ConfigError` if the URL is invalid or names a missing file."""
    from warren.client.errors import SettingsError

    with needed_packages():
        from warren.client.ledgers.database import open_database

        try:
            return open_database(given, named="--database", must_exist=must_exist)
        except SettingsError as error:
            raise ConfigError(str(error)) from None


def shown(engine: "Engine") -> str:
    """The database's location without a password."""
    from warren.client.ledgers import database

    return database.redacted_url(engine)


def add_tables(app: typer.Typer) -> None:
    app.command(epilog="Example: warren client tables --database postgresql://shop@localhost/shop")(tables)


def tables(
    database: Database,
    check: Annotated[bool, typer.Option("--check", help="Only check whether they exist, and change nothing.")] = False,
) -> int:
    """Create or upgrade the tables of outbox, inbox and leases."""
    engine = engine_of(database, must_exist=check)
    from warren.client.ledgers.database import database_errors
    from warren.client.tables import check_tables, create_tables

    try:
        with database_errors(engine):
            if check:
                with engine.connect() as connection:
                    check_tables(connection)
            else:
                create_tables(engine)
    finally:
        engine.dispose()
    print(f"{shown(engine)}: the tables exist and are up to date")
    return 0
