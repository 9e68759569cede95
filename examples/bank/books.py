"""Checks that the books of both services agree: plain SQL in each database, and the reconcile job over both ledgers.

An operation *stands* in the teller's books when the bank's receipt says so, and in the bank's books when it is booked
and not struck. An operation that the bank refused or did not answer stands in neither.

Not here: writing the books (`teller`, `core_bank`).
"""

import subprocess
from collections import defaultdict
from pathlib import Path
from string import Template
from typing import Any

from cluster import WARREN
from core_bank import OPENED_WITH
from databases import Database

LEDGERS = Path(__file__).resolve().with_name("ledgers.toml")
SIGNED = "CASE kind WHEN 'deposit' THEN amount ELSE -amount END"

# the teller's
STANDING = f"SELECT count(*), coalesce(sum({SIGNED}), 0) FROM operations WHERE state = 'done'"
PAID_OUT = "SELECT count(*) FROM drawer WHERE amount < 0"
REVERSED = "SELECT count(*) FROM operations WHERE state = 'reversed'"
UNSETTLED = "SELECT id FROM operations WHERE state NOT IN ('done', 'reversed')"
DRAWER = "SELECT coalesce(sum(amount), 0) FROM drawer"
PAID_TWICE = "SELECT operation FROM drawer GROUP BY operation HAVING count(*) > 1"
SENDINGS = """
SELECT coalesce(sum(attempt), 0), coalesce(sum(resends), 0),
    count(*) FILTER (WHERE kind = 'confirmation'), count(*) FILTER (WHERE kind = 'reversal') FROM warren_outbox
"""
NEVER_RESENT = """
SELECT business_id FROM warren_outbox AS sent WHERE kind = 'message' AND resends = 0
    AND NOT EXISTS (SELECT FROM warren_outbox AS other WHERE other.settles = sent.business_id)
"""
# the bank's
NOT_STRUCK = "NOT EXISTS (SELECT FROM strikes WHERE strikes.operation = entries.operation)"
BOOKED = f"SELECT count(*), coalesce(sum(amount), 0) FROM entries WHERE {NOT_STRUCK}"
STRUCK = "SELECT count(*) FROM strikes"
BALANCES = "SELECT sum(balance) - count(*) * %s FROM accounts"
BOOKED_TWICE = "SELECT operation FROM entries GROUP BY operation HAVING count(*) > 1"
STRUCK_TWICE = "SELECT operation FROM strikes GROUP BY operation HAVING count(*) > 1"
STRUCK_FOR_NOTHING = """
SELECT operation FROM strikes WHERE NOT EXISTS (
    SELECT FROM entries WHERE entries.operation = strikes.operation AND entries.amount = strikes.amount)
"""
WRONG_BALANCES = """
SELECT id FROM accounts WHERE balance < 0 OR balance <> %s
    + (SELECT coalesce(sum(amount), 0) FROM entries WHERE entries.account = accounts.id)
    - (SELECT coalesce(sum(amount), 0) FROM strikes WHERE strikes.account = accounts.id)
"""
ENTRIES = "SELECT operation, account, number FROM entries ORDER BY id"
LEDGER_OF_TELLER = f"""
SELECT id AS operation, {SIGNED} AS amount, currency FROM operations WHERE state = 'done'
"""
LEDGER_OF_BANK = f"SELECT operation, amount, currency FROM entries WHERE {NOT_STRUCK}"


class Books:
    """Both databases, after all messages have arrived."""

    def __init__(self, teller: Database, bank: Database) -> None:
        self._teller = teller
        self._bank = bank

    def is_anything_open(self) -> bool:
        """True if either outbox has an incomplete operation, as `warren client open` says."""
        return any(_open_items(database) for database in (self._teller, self._bank))

    def settlings(self) -> tuple[int, int]:
        """The counts of confirmations and of struck entries; waits until both databases answer."""
        sent = self._teller.patiently(lambda: _row(self._teller, SENDINGS))
        return sent[2], self._bank.patiently(lambda: _one(self._bank, STRUCK))

    def figures(self) -> list[tuple[str, str]]:
        standing, standing_sum = _row(self._teller, STANDING)
        booked, booked_sum = _row(self._bank, BOOKED)
        sent, resent, confirmations, reversals = _row(self._teller, SENDINGS)
        return [
            ("teller: operations that stand", f"{standing:,}, together {standing_sum:,} EUR"),
            ("teller: withdrawals paid out", f"{_one(self._teller, PAID_OUT):,}"),
            ("teller: reversed", f"{_one(self._teller, REVERSED):,}"),
            ("teller: money in the drawer", f"{_one(self._teller, DRAWER):,} EUR"),
            ("teller: messages published", f"{sent:,} times, {resent:,} of them for want of a receipt"),
            ("teller: confirmations, reversals", f"{confirmations:,}, {reversals:,}"),
            ("bank: entries that stand", f"{booked:,}, together {booked_sum:,} EUR"),
            ("bank: booked in their order", f"{len(self._sent_once()):,}, which were sent once"),
            ("bank: struck", f"{_one(self._bank, STRUCK):,}"),
            ("bank: accounts", f"changed by {_one(self._bank, BALANCES, OPENED_WITH):,} EUR"),
        ]

    def wrongs(self, told: Path) -> list[str]:
        """The errors in the books, as sentences; an empty list if there are none."""
        standing, booked = _row(self._teller, STANDING), _row(self._bank, BOOKED)
        drawer, balances = _one(self._teller, DRAWER), _one(self._bank, BALANCES, OPENED_WITH)
        found = []
        if standing != booked:
            sides = (f"{count} operations of {amount}" for count, amount in (standing, booked))
            found.append(f"what stands for the teller and for the bank: {', '.join(sides)}")
        if drawer != standing[1]:
            found.append(f"the drawer has {drawer}, and operations of {standing[1]} stand")
        if balances != booked[1]:
            found.append(f"accounts have changed by {balances}, and entries of {booked[1]} stand")
        for what, names in (
            ("operations are not settled", _names(self._teller, UNSETTLED)),
            ("operations are paid twice", _names(self._teller, PAID_TWICE)),
            ("operations are booked twice", _names(self._bank, BOOKED_TWICE)),
            ("operations are struck twice", _names(self._bank, STRUCK_TWICE)),
            ("operations are struck and were never booked", _names(self._bank, STRUCK_FOR_NOTHING)),
            ("balances are not what was booked", _names(self._bank, WRONG_BALANCES, OPENED_WITH)),
            ("operations are booked out of order", self._out_of_order()),
            ("operations that were accepted are in no books", self._forgotten(told)),
        ):
            if names:
                found.append(f"{len(names)} {what}, one is {names[0]}")
        return found

    def write_ledgers(self, directory: Path) -> None:
        """Write both ledgers as CSV, and the configuration of the comparison, into one folder."""
        _export(self._teller, LEDGER_OF_TELLER, directory / "teller.csv")
        _export(self._bank, LEDGER_OF_BANK, directory / "bank.csv")
        description = Template(LEDGERS.read_text())
        places = {"TELLER": self._teller.url, "BANK": self._bank.url}
        (directory / LEDGERS.name).write_text(description.substitute(places))

    def _out_of_order(self) -> list[str]:
        last: dict[str, int] = defaultdict(int)
        found = []
        for operation, account, number in self._sent_once():
            if number <= last[account]:
                found.append(operation)
            last[account] = max(number, last[account])
        return found

    def _sent_once(self) -> list[tuple[Any, ...]]:
        """Entries that must be in order: those that were sent once. A resent message has lost its place."""
        straight = set(_names(self._teller, NEVER_RESENT))
        return [entry for entry in _rows(self._bank, ENTRIES) if entry[0] in straight]

    def _forgotten(self, told: Path) -> list[str]:
        return sorted(set(told.read_text().split()) - set(_names(self._teller, "SELECT id FROM operations")))


def reconciled(directory: Path) -> tuple[int, str]:
    """The exit code of the reconcile job, which is 0 if the ledgers balance, and its output."""
    command = [WARREN, "pipeline", "reconcile", str(directory / LEDGERS.name), "--out", str(directory / "found")]
    done = subprocess.run([*command, "--master", "local[2]"], capture_output=True, text=True)
    return done.returncode, done.stdout.strip() or done.stderr.strip()


def _open_items(database: Database) -> bool:
    done = subprocess.run([WARREN, "client", "open", "--database", database.url], capture_output=True, text=True)
    if done.returncode > 1:
        raise BooksUnread(done.stderr.strip())
    return done.returncode == 1


class BooksUnread(Exception):
    """`warren client open` failed."""


def _one(database: Database, query: str, *values: Any) -> Any:
    return _row(database, query, *values)[0]


def _row(database: Database, query: str, *values: Any) -> tuple[Any, ...]:
    return _rows(database, query, *values)[0]


def _names(database: Database, query: str, *values: Any) -> list[str]:
    return [row[0] for row in _rows(database, query, *values)]


def _rows(database: Database, query: str, *values: Any) -> list[tuple[Any, ...]]:
    with database.connect() as connection:
        # without parameters the driver does not interpret percent signs
        return connection.execute(query, values or None).fetchall()


def _export(database: Database, query: str, path: Path) -> None:
    copy = f"COPY ({query}) TO STDOUT WITH (FORMAT csv, HEADER)"
    with database.connect() as connection, path.open("wb") as file, connection.cursor().copy(copy) as rows:
        for chunk in rows:
            file.write(chunk)
