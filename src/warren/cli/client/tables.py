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
    from warren.client.ledgers.database import reached
    from warren.client.tables import check_tables, create_tables

    try:
        with reached(engine):
            if check:
                with engine.connect() as connection:
                    check_tables(connection)
            else:
                create_tables(engine)
    finally:
        engine.dispose()
    print(f"{shown(engine)}: the tables are there, and up to date")
    return 0
