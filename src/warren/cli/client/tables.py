"""`warren client tables`: have the tables of the reliability kit in a database.

Not here: what they are, and how older ones are brought up to date (`client.tables`).
"""

from typing import Annotated

import typer

from warren.cli.client.databases import Database, engine_of, shown


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: warren client tables --database postgresql://shop@localhost/shop")(tables)


def tables(
    database: Database,
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether they are there, and change nothing.")
    ] = False,
) -> int:
    """Make the tables of outbox, inbox and leases, or bring older ones up to date."""
    engine = engine_of(database, must_exist=check)
    from sqlalchemy.exc import DBAPIError

    from warren.client.errors import CannotConnect
    from warren.client.tables import check_tables, create_tables

    try:
        if check:
            with engine.connect() as connection:
                check_tables(connection)
        else:
            create_tables(engine)
    except DBAPIError as trouble:
        reason = str(trouble.orig).strip().partition("\n")[0]
        raise CannotConnect([(shown(engine), reason)]) from trouble
    finally:
        engine.dispose()
    print(f"{shown(engine)}: the tables are there, and up to date")
    return 0
