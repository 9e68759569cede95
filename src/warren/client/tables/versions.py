"""How the tables come to be, and are brought up to date.

`warren_tables` has the version of each part. What is found decides, before anything is changed:

    no row, no table             the part is made
    no row, a table of the name  somebody else's: refused
    an older version             its steps are taken, one version after the other
    this version                 nothing to do; a table that somebody dropped is made again
    a later version              refused

All of it is one transaction, for which processes queue up: in PostgreSQL by an advisory lock, in SQLite because it
begins as a writer.

Not here: the tables as they are (`tables.metadata`), the steps (`tables.steps`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, Table, inspect, select, text

from warren.client.errors import TablesRefused
from warren.client.tables.inserting import insert_into
from warren.client.tables.metadata import INBOX, LEASES, OUTBOX, VERSIONS
from warren.client.tables.steps import inbox_to_2, inbox_to_3, outbox_to_2
from warren.client.tables.transactions import connection_of, dialect_of

Step = Callable[[Connection], None]

# "warren" as octets: any number that nobody else's advisory locks have
ADVISORY_LOCK = 0x77617272656E


@dataclass(frozen=True, slots=True)
class Part:
    """Tables that change together; `steps[n]` takes them from version n + 1 to the next."""

    name: str
    tables: tuple[Table, ...]
    steps: tuple[Step, ...] = ()

    @property
    def version(self) -> int:
        return len(self.steps) + 1


PARTS = (
    Part("outbox", (OUTBOX,), (outbox_to_2,)),
    Part("inbox", (INBOX,), (inbox_to_2, inbox_to_3)),
    Part("leases", (LEASES,)),
)


def create_tables(engine: Engine) -> None:
    """Have every table, in this program's version; a `TablesRefused` if that cannot be without harm."""
    bring_up(engine, PARTS)


def check_tables(connection: Connection) -> None:
    """A `TablesRefused` unless every table is there, in this program's version; changes nothing."""
    connection_of(connection)
    present = set(inspect(connection).get_table_names())
    found = _versions_found(connection, present)
    for part in PARTS:
        version = found.get(part.name)
        _check(part, version, present)
        if version != part.version or any(table.name not in present for table in part.tables):
            raise TablesRefused(
                f"the {part.name} tables are missing or of an older version;"
                " call warren.client.tables.create_tables(engine) once"
            )


def bring_up(engine: Engine, parts: Sequence[Part]) -> None:
    with engine.begin() as connection:
        _begin_alone(connection)
        present = set(inspect(connection).get_table_names())
        found = _versions_found(connection, present)
        for part in parts:
            _check(part, found.get(part.name), present)
        VERSIONS.create(connection, checkfirst=True)
        # those that run take a row of the inbox, then one of the outbox: in another order each would wait for the other
        for part in reversed(parts):
            _bring_up(connection, part, found.get(part.name))


def _begin_alone(connection: Connection) -> None:
    if dialect_of(connection) == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})
    elif not getattr(connection.connection.dbapi_connection, "in_transaction", False):
        # the driver begins a transaction before an INSERT, but not before a CREATE
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _versions_found(connection: Connection, present: set[str]) -> dict[str, int]:
    if VERSIONS.name not in present:
        return {}
    columns = {column["name"] for column in inspect(connection).get_columns(VERSIONS.name)}
    if columns != set(VERSIONS.columns.keys()):
        raise TablesRefused(_foreign(VERSIONS.name))
    return {row.part: row.version for row in connection.execute(select(VERSIONS))}


def _check(part: Part, found: int | None, present: set[str]) -> None:
    if found is None:
        for table in part.tables:
            if table.name in present:
                raise TablesRefused(_foreign(table.name))
    elif found > part.version:
        raise TablesRefused(
            f"the {part.name} tables are of version {found} and this program knows up to {part.version};"
            " update the program, and leave the tables as they are"
        )
    elif found < 1:
        raise TablesRefused(f"the {part.name} tables claim to be of version {found}, which there never was")


def _foreign(name: str) -> str:
    return f"the database has a table {name} that is not ours; rename it, or use another database or schema"


def _bring_up(connection: Connection, part: Part, found: int | None) -> None:
    if found is not None:
        for step in part.steps[found - 1 :]:
            step(connection)
    for table in part.tables:
        table.create(connection, checkfirst=True)
    row = insert_into(connection, VERSIONS).values(part=part.name, version=part.version)
    connection.execute(row.on_conflict_do_update(index_elements=[VERSIONS.c.part], set_={"version": part.version}))
