"""Receipts that come too late: a trigger in the bank's database gives some of them a later due time for the relay.

An operation has one receipt, also when it is resent. So the deadline passes, that of the resend as well, and the teller
asks for confirmation of a deposit, or reverses a withdrawal, that the bank has already booked.

Not here: the times of the faults (`faults`).
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
    """The trigger in the bank's database; the tables must exist."""

    def __init__(self, bank: Database) -> None:
        self._bank = bank
        with bank.connect() as connection:
            connection.execute(TABLES)

    @contextlib.contextmanager
    def dawdling(self) -> Iterator[None]:
        """A context manager; after its end new receipts are sent at once."""
        self._bank.patiently(lambda: self._say(True))
        try:
            yield
        finally:
            self._bank.patiently(lambda: self._say(False))

    def _say(self, is_so: bool) -> None:
        with self._bank.connect() as connection:
            connection.execute("UPDATE dawdling SET is_so = %s", [is_so])
