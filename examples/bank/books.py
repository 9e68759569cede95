"""Whether the books of both services agree: plain SQL in each database, and the reconcile job over both ledgers.

Not here: how the books come to be (`teller`, `core_bank`).
"""

import subprocess
from decimal import Decimal
from pathlib import Path
from typing import Any

from cluster import WARREN
from core_bank import OPENED_WITH
from databases import Database

LEDGERS = Path(__file__).resolve().with_name("ledgers.toml")

OPEN = "SELECT count(*) FROM warren_outbox WHERE status = 'pending'"
ASKED = """
SELECT count(*), coalesce(sum(CASE kind WHEN 'deposit' THEN amount ELSE -amount END), 0) FROM operations
"""
BOOKED = "SELECT count(*), coalesce(sum(amount), 0) FROM entries"
BALANCES = "SELECT sum(balance) - count(*) * %s FROM accounts"
TWICE = "SELECT operation FROM entries GROUP BY operation HAVING count(*) > 1"
WRONG_BALANCES = """
SELECT id FROM accounts
WHERE balance <> %s + (SELECT coalesce(sum(amount), 0) FROM entries WHERE entries.account = accounts.id)
"""
OUT_OF_ORDER = """
SELECT operation FROM (
    SELECT operation, number, lag(number) OVER (PARTITION BY account ORDER BY id) AS before FROM entries) AS entry
WHERE number <> coalesce(before, 0) + 1
"""
TELLERS_LEDGER = """
SELECT id AS operation, CASE kind WHEN 'deposit' THEN amount ELSE -amount END AS amount, currency, asked_at AS at
FROM operations
"""
BANKS_LEDGER = "SELECT operation, amount, currency, booked_at AS at FROM entries"


class Books:
    """Both databases, when everything is at rest."""

    def __init__(self, teller: Database, bank: Database) -> None:
        self._teller = teller
        self._bank = bank

    def open_rows(self) -> int:
        """How many messages are still on their way, as far as the databases know."""
        return sum(int(_row(database, OPEN)[0]) for database in (self._teller, self._bank))

    def figures(self) -> list[tuple[str, str]]:
        asked, asked_sum = _row(self._teller, ASKED)
        booked, booked_sum = _row(self._bank, BOOKED)
        balances = _row(self._bank, BALANCES, OPENED_WITH)[0]
        sent = _row(self._teller, "SELECT coalesce(sum(attempt), 0) FROM warren_outbox")[0]
        return [
            ("teller: operations", f"{asked:,}, together {asked_sum:,} EUR; published {sent:,} times"),
            ("bank: entries", f"{booked:,}, together {booked_sum:,} EUR"),
            ("bank: accounts", f"changed by {balances:,} EUR"),
        ]

    def wrongs(self, told: Path) -> list[str]:
        """What is wrong with the books, in sentences; none if all is well."""
        asked, booked = _row(self._teller, ASKED), _row(self._bank, BOOKED)
        balances: Decimal = _row(self._bank, BALANCES, OPENED_WITH)[0]
        found = []
        if asked != booked:
            found.append(f"the teller has {asked[0]} operations of {asked[1]}, the bank {booked[0]} of {booked[1]}")
        if balances != booked[1]:
            found.append(f"accounts have changed by {balances}, and the entries are {booked[1]}")
        for what, query, *values in (
            ("operations are booked twice", TWICE),
            ("balances are not what was booked", WRONG_BALANCES, OPENED_WITH),
            ("operations are booked out of order", OUT_OF_ORDER),
        ):
            if rows := _rows(self._bank, query, *values):
                found.append(f"{len(rows)} {what}, the first is {rows[0][0]}")
        accepted = set(told.read_text().split())
        lost = accepted - {row[0] for row in _rows(self._teller, "SELECT id FROM operations")}
        if lost:
            found.append(f"{len(lost)} operations that were accepted are not in the teller's books: {min(lost)}")
        return found

    def write_ledgers(self, directory: Path) -> None:
        """Both sides' ledgers as CSV, and what they are compared by, in one folder."""
        _export(self._teller, TELLERS_LEDGER, directory / "teller.csv")
        _export(self._bank, BANKS_LEDGER, directory / "bank.csv")
        (directory / LEDGERS.name).write_text(LEDGERS.read_text())


def reconciled(directory: Path) -> tuple[int, str]:
    """The exit code of the reconcile job, which is 0 if all is in balance, and what it says."""
    command = [WARREN, "pipeline", "reconcile", str(directory / LEDGERS.name), "--out", str(directory / "found")]
    done = subprocess.run([*command, "--master", "local[2]"], capture_output=True, text=True)
    return done.returncode, (done.stdout + done.stderr).strip()


def _row(database: Database, query: str, *values: Any) -> tuple[Any, ...]:
    return _rows(database, query, *values)[0]


def _rows(database: Database, query: str, *values: Any) -> list[tuple[Any, ...]]:
    with database.connect() as connection:
        return connection.execute(query, values).fetchall()


def _export(database: Database, query: str, path: Path) -> None:
    with database.connect() as connection, path.open("wb") as file, connection.cursor() as cursor:
        # an ISO time with its zone, whatever the server's taste is
        cursor.execute("SET timezone = 'UTC'")
        with cursor.copy(f"COPY ({query}) TO STDOUT WITH (FORMAT csv, HEADER)") as rows:
            for chunk in rows:
                file.write(chunk)
