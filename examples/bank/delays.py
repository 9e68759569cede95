"""Receipts that come too late: while the bank dawdles, its database dates some of them so that the relay has to wait.

Of every operation it is the same receipt, however often it is asked for. So its deadline passes, that of the resend as
well, and the teller has a deposit confirmed and a withdrawal reversed that the bank has long booked.

Not here: when that happens (`faults`).
"""

import contextlib
from collections.abc import Iterator

from databases import Database

PER_CENT = 10
LATE_BY_S = 20
"""More than the deadlines of an operation and its resend together."""

TABLES = f"""
CREATE TABLE dawdling (is_so boolean NOT NULL);
INSERT INTO dawdling VALUES (false);
CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.due_at IS NULL AND abs(hashtext(NEW.business_id)) % 100 < {PER_CENT} AND (SELECT is_so FROM dawdling) THEN
        NEW.due_at := clock_timestamp() + interval '{LATE_BY_S} s';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER dawdle BEFORE INSERT OR UPDATE ON warren_outbox
    FOR EACH ROW WHEN (NEW.status = 'pending') EXECUTE FUNCTION dawdle();
"""


class Delays:
    """In the bank's database, whose tables must be there."""

    def __init__(self, bank: Database) -> None:
        self._bank = bank
        with bank.connect() as connection:
            connection.execute(TABLES)

    @contextlib.contextmanager
    def dawdling(self) -> Iterator[None]:
        """Within a `with`; at its end new receipts go as they come."""
        self._bank.patiently(lambda: self._say(True))
        try:
            yield
        finally:
            self._bank.patiently(lambda: self._say(False))

    def _say(self, is_so: bool) -> None:
        with self._bank.connect() as connection:
            connection.execute("UPDATE dawdling SET is_so = %s", [is_so])
