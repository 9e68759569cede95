"""Old rows go, in steps so small that nobody who handles messages waits for them.

Not here: when that is done (`Inbox.prune`, `Inbox.keep_pruned`).
"""

from sqlalchemy import Engine, delete, select

from warren.client.tables import INBOX, database_time


def prune_step(engine: Engine, consumer: str, keep_s: float, rows: int) -> int:
    """Remove the oldest rows that are older than that, at most so many; how many it were."""
    is_old = (INBOX.c.consumer == consumer, INBOX.c.received_at < database_time(-keep_s))
    old = select(INBOX.c.business_id).where(*is_old).order_by(INBOX.c.received_at).limit(rows)
    with engine.begin() as connection:
        # what another process is removing is left to it
        found = connection.execute(old.with_for_update(skip_locked=True)).scalars().all()
        # SQLite locks nothing by that: by now a row may be another, and young
        return connection.execute(delete(INBOX).where(*is_old, INBOX.c.business_id.in_(found))).rowcount
