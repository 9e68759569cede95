"""The tables as SQLAlchemy sees them, and their migrations. Rows may also be inserted in plain SQL.

| column of the outbox      | what it says                                                                             |
|---------------------------|------------------------------------------------------------------------------------------|
| `id`                      | the order; ids of concurrent transactions may become visible in any order                |
| `business_id`             | the message's `message_id`, the same however often it is sent                            |
| `kind`                    | `message`; `confirmation` or `reversal` of one; `receipt` for a received message         |
| `ordering_key`            | rows with the same key are sent in the order of their ids; empty: no order               |
| `status`                  | `pending`, `sent`, `done` (there is a receipt), `refused` (by the receiver), `failed`,   |
|                           | `confirming` or `reversing` (another row does that), `reversed`                          |
| `attempt`                 | how often it was published                                                               |
| `refusals`                | how often the broker has refused it since it became pending                              |
| `due_at`                  | pending: not before; sent: the receipt is due by then, also if made pending again        |
| `resends`                 | how often it was resent because no receipt came                                          |
| `compensation`            | what is done if no receipt comes: `confirm`, `reverse`, or nothing but an alert          |
| `settles`                 | the business id of the row that this one confirms or reverses                            |
| `alerted_at`              | failed: when the alert was raised                                                        |
| `refused_at`              | refused, or failed after that: when the receiver refused it                              |

| column of the inbox       | what it says                                                                             |
|---------------------------|------------------------------------------------------------------------------------------|
| `outcome`                 | `done`; `refused`; `taken_back`, after it was done or in place of it                     |
| `digest`                  | distinguishes messages with the same id; without one the row matches any of them         |

**Migrations.** `warren_tables` has the version of each group. The state found decides, before anything is changed:

    no row, no table             the tables are created
    no row, a table of the name  of another program: refused
    an older version             its migrations run, one version after the other
    this version                 nothing to do; a dropped table is created again
    a later version              refused

All of it is one transaction, and processes take turns: in PostgreSQL by an advisory lock, in SQLite because it begins
as a writer. A migration is written for its version and never changes, because the current tables may have moved on. It
skips a table that was dropped, which is created again in its current form.

Not here: what is written into the tables (`client.outbox`, `client.inbox`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Engine,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    false,
    inspect,
    select,
    text,
)

from warren.client.errors import TablesRefused
from warren.client.tables.columns import Money, RowId, UtcTime
from warren.client.tables.connections import connection_of, dialect_of, insert_into

METADATA = MetaData()

OUTBOX = Table(
    "warren_outbox",
    METADATA,
    Column("id", RowId, Identity(), primary_key=True),
    Column("business_id", String(255), nullable=False, unique=True),
    Column("kind", String(20), nullable=False, server_default="message"),
    Column("ordering_key", String(255), nullable=False, server_default=""),
    Column("exchange", String(255), nullable=False, server_default=""),
    Column("routing_key", String(255), nullable=False, server_default=""),
    Column("properties", Text, nullable=False, server_default="{}"),
    Column("body", LargeBinary, nullable=False),
    Column("status", String(20), nullable=False, server_default="pending"),
    Column("attempt", Integer, nullable=False, server_default=text("0")),
    Column("refusals", Integer, nullable=False, server_default=text("0")),
    Column("wants_receipt", Boolean, nullable=False, server_default=false()),
    Column("amount", Money),
    Column("currency", String(3)),
    Column("created_at", UtcTime),
    Column("sent_at", UtcTime),
    Column("due_at", UtcTime),
    Column("done_at", UtcTime),
    Column("last_error", Text),
    Column("resends", Integer, nullable=False, server_default=text("0")),
    Column("compensation", String(20), nullable=False, server_default=""),
    Column("settles", String(255)),
    Column("alerted_at", UtcTime),
    Column("refused_at", UtcTime),
    # an id is never reused, not even after its row was deleted
    sqlite_autoincrement=True,
)

# partial indexes of few rows, so that finished rows cost nothing
for _name, _columns, _where in (
    ("pending", [OUTBOX.c.id], "status = 'pending'"),
    ("held", [OUTBOX.c.ordering_key], "sent_at IS NULL AND (status = 'failed' OR due_at IS NOT NULL)"),
    ("due", [OUTBOX.c.status, OUTBOX.c.due_at], "due_at IS NOT NULL"),
    ("open", [OUTBOX.c.status, OUTBOX.c.id], "status IN ('failed', 'refused', 'confirming', 'reversing')"),
    ("alarming", [OUTBOX.c.id], "status = 'failed' AND alerted_at IS NULL"),
    ("settling", [OUTBOX.c.settles], "settles IS NOT NULL"),
):
    Index(f"warren_outbox_{_name}", *_columns, postgresql_where=text(_where), sqlite_where=text(_where))

INBOX = Table(
    "warren_inbox",
    METADATA,
    Column("consumer", String(255), primary_key=True),
    Column("business_id", String(255), primary_key=True),
    Column("received_at", UtcTime, nullable=False),
    Column("amount", Money),
    Column("currency", String(3)),
    Column("attempt", Integer, nullable=False, server_default=text("1")),
    Column("outcome", String(20), nullable=False, server_default="done"),
    Column("digest", String(32)),
    Index("warren_inbox_received_at", "consumer", "received_at"),
)

LEASES = Table(
    "warren_leases",
    METADATA,
    Column("name", String(255), primary_key=True),
    Column("holder", String(255), nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("expires_at", UtcTime, nullable=False),
)

VERSIONS = Table(
    "warren_tables",
    METADATA,
    Column("part", String(255), primary_key=True),
    Column("version", Integer, nullable=False),
)


OUTBOX_2 = (
    "ALTER TABLE warren_outbox ADD COLUMN resends INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE warren_outbox ADD COLUMN compensation VARCHAR(20) NOT NULL DEFAULT ''",
    "ALTER TABLE warren_outbox ADD COLUMN settles VARCHAR(255)",
    "ALTER TABLE warren_outbox ADD COLUMN alerted_at {time}",
    "ALTER TABLE warren_outbox ADD COLUMN refused_at {time}",
    "CREATE INDEX warren_outbox_open ON warren_outbox (status, id)"
    " WHERE status IN ('failed', 'refused', 'confirming', 'reversing')",
    "CREATE INDEX warren_outbox_alarming ON warren_outbox (id) WHERE status = 'failed' AND alerted_at IS NULL",
    "CREATE INDEX warren_outbox_settling ON warren_outbox (settles) WHERE settles IS NOT NULL",
)
INBOX_2 = ("ALTER TABLE warren_inbox ADD COLUMN outcome VARCHAR(20) NOT NULL DEFAULT 'done'",)
INBOX_3 = ("ALTER TABLE warren_inbox ADD COLUMN digest VARCHAR(32)",)
TIMES = {"sqlite": "DATETIME", "postgresql": "TIMESTAMP WITH TIME ZONE"}


def outbox_to_2(connection: Connection) -> None:
    """Add resends, compensations and alerts."""
    _change(connection, "warren_outbox", OUTBOX_2)


def inbox_to_2(connection: Connection) -> None:
    """Add the outcome of a message."""
    _change(connection, "warren_inbox", INBOX_2)


def inbox_to_3(connection: Connection) -> None:
    """Add the digest; existing rows have none."""
    _change(connection, "warren_inbox", INBOX_3)


def _change(connection: Connection, table: str, statements: Sequence[str]) -> None:
    if inspect(connection).has_table(table):
        for statement in statements:
            connection.execute(text(statement.format(time=TIMES[connection.dialect.name])))


Migration = Callable[[Connection], None]

# "warren" as bytes: a number that other advisory locks do not use
ADVISORY_LOCK = 0x77617272656E


@dataclass(frozen=True, slots=True)
class TableGroup:
    """Tables that change together; `steps[n]` migrates them from version n + 1 to the next."""

    name: str
    tables: tuple[Table, ...]
    steps: tuple[Migration, ...] = ()

    @property
    def version(self) -> int:
        return len(self.steps) + 1


TABLE_GROUPS = (
    TableGroup("outbox", (OUTBOX,), (outbox_to_2,)),
    TableGroup("inbox", (INBOX,), (inbox_to_2, inbox_to_3)),
    TableGroup("leases", (LEASES,)),
)


def create_tables(engine: Engine) -> None:
    """Create and migrate all tables; `TablesRefused` if that would do harm."""
    migrate_tables(engine, TABLE_GROUPS)


def check_tables(connection: Connection) -> None:
    """`TablesRefused` unless every table exists in this program's version; changes nothing."""
    connection_of(connection)
    present = set(inspect(connection).get_table_names())
    found = _versions_found(connection, present)
    for part in TABLE_GROUPS:
        version = found.get(part.name)
        _check(part, version, present)
        if version != part.version or any(table.name not in present for table in part.tables):
            raise TablesRefused(
                f"the {part.name} tables are missing or of an older version;"
                " call warren.client.tables.create_tables(engine) once"
            )


def migrate_tables(engine: Engine, parts: Sequence[TableGroup]) -> None:
    with engine.begin() as connection:
        _begin_exclusive(connection)
        present = set(inspect(connection).get_table_names())
        found = _versions_found(connection, present)
        for part in parts:
            _check(part, found.get(part.name), present)
        VERSIONS.create(connection, checkfirst=True)
        # running programs lock a row of the inbox, then one of the outbox: the other order could deadlock
        for part in reversed(parts):
            _migrate_group(connection, part, found.get(part.name))


def _begin_exclusive(connection: Connection) -> None:
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


def _check(part: TableGroup, found: int | None, present: set[str]) -> None:
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


def _migrate_group(connection: Connection, part: TableGroup, found: int | None) -> None:
    if found is not None:
        for step in part.steps[found - 1 :]:
            step(connection)
    for table in part.tables:
        table.create(connection, checkfirst=True)
    row = insert_into(connection, VERSIONS).values(part=part.name, version=part.version)
    connection.execute(row.on_conflict_do_update(index_elements=[VERSIONS.c.part], set_={"version": part.version}))
