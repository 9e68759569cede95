"""What older tables lack: the statements of each step, in words that SQLite and PostgreSQL share.

A step says what its version had, and is never changed: the tables as they are may have gone on since. A table that
somebody dropped is left to those who make it anew.

Not here: which steps are taken, and when (`tables.versions`).
"""

from collections.abc import Sequence

from sqlalchemy import Connection, inspect, text

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
    """Resends, compensations and alerts."""
    _change(connection, "warren_outbox", OUTBOX_2)


def inbox_to_2(connection: Connection) -> None:
    """What a message came to."""
    _change(connection, "warren_inbox", INBOX_2)


def inbox_to_3(connection: Connection) -> None:
    """What tells a message from another one with the same id; rows that are there have none."""
    _change(connection, "warren_inbox", INBOX_3)


def _change(connection: Connection, table: str, statements: Sequence[str]) -> None:
    if inspect(connection).has_table(table):
        for statement in statements:
            connection.execute(text(statement.format(time=TIMES[connection.dialect.name])))
