"""The checks of the bank example find every planted error, and none in books that balance.

Not here: the example itself, under random kills (`test_bank`).
"""

import importlib
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy import create_engine

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "bank"
MODULES = ("operations", "databases", "teller", "core_bank", "books")
ACCOUNT = "A0001"

# each planted error, its database, and the sentence that reports it
WRONGS = {
    "a lost operation": ("bank", "DELETE FROM entries WHERE number = 2", "what stands for the teller and for the bank"),
    "a cent": (
        "bank",
        "UPDATE entries SET amount = amount + 0.01 WHERE number = 1",
        "are not what was booked",
    ),
    "a duplicate": (
        "bank",
        "INSERT INTO entries (operation, account, number, amount, currency)"
        " SELECT operation, account, number, amount, currency FROM entries WHERE number = 1",
        "1 operations are booked twice, one is o1",
    ),
    "an undo that ran twice": (
        "bank",
        "INSERT INTO strikes (operation, account, amount) SELECT operation, account, amount FROM strikes",
        "1 operations are struck twice, one is o3",
    ),
    "an undo of what was never booked": (
        "bank",
        f"INSERT INTO strikes (operation, account, amount) VALUES ('o9', '{ACCOUNT}', -7)",
        "1 operations are struck and were never booked, one is o9",
    ),
    "another order": (
        "bank",
        "UPDATE entries SET number = 3 - number WHERE number < 3",
        "1 operations are booked out of order, one is o2",
    ),
    "money paid twice": (
        "teller",
        "INSERT INTO drawer (operation, amount) VALUES ('o2', -5), ('elsewhere', 5)",
        "1 operations are paid twice, one is o2",
    ),
    "money that is gone": ("teller", "DELETE FROM drawer WHERE operation = 'o1'", "the drawer has -5.00"),
    "an answer that never came": (
        "teller",
        "UPDATE operations SET state = 'asked' WHERE id = 'o3'",
        "1 operations are not settled, one is o3",
    ),
    "an operation that was accepted": (
        "teller",
        "DELETE FROM operations WHERE id = 'o3'",
        "1 operations that were accepted are in no books, one is o3",
    ),
}


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """Both databases with books that balance: a deposit, a withdrawal, and one that was reversed."""
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(EXAMPLE))
        modules = SimpleNamespace(**{name: importlib.import_module(name) for name in MODULES})
    told = tmp_path_factory.mktemp("bank") / "accepted.txt"
    told.write_text("o1\no2\no3\n")
    with modules.databases.Database("teller") as tellers, modules.databases.Database("bank") as banks:
        trade(modules, tellers, banks)
        yield SimpleNamespace(books=modules.books.Books(tellers, banks), teller=tellers, bank=banks, told=told)


def trade(modules: SimpleNamespace, tellers, banks) -> None:
    engines = create_engine(tellers.url), create_engine(banks.url)
    modules.teller.open_books(engines[0])
    modules.core_bank.open_books(engines[1])
    with engines[0].begin() as at_teller, engines[1].begin() as at_bank:
        for number, (kind, amount, state) in enumerate(
            [("deposit", "20.00", "done"), ("withdrawal", "5.00", "done"), ("withdrawal", "7.00", "reversed")], 1
        ):
            name = f"o{number}"
            modules.teller.ask(at_teller, name, ACCOUNT, kind, Decimal(amount))
            message = modules.operations.Operation(name, ACCOUNT, number, kind, Decimal(amount)).message()
            modules.core_bank.book(at_bank, message)
            if state == "reversed":
                modules.core_bank.strike(at_bank, message)
            modules.teller.settle(at_teller, name, state)
            at_teller.exec_driver_sql(f"UPDATE warren_outbox SET status = '{state}' WHERE business_id = '{name}'")
        # the inbox rows of the operations that stand
        at_bank.exec_driver_sql(
            "INSERT INTO warren_inbox (consumer, business_id, received_at, amount, currency)"
            " SELECT 'booking', operation, booked_at, amount, currency FROM entries WHERE number < 3"
        )
    for engine in engines:
        engine.dispose()


def test_books_that_balance_have_nothing_wrong(bank: SimpleNamespace) -> None:
    assert bank.books.wrongs(bank.told) == []


def test_a_repeated_request_is_one_operation(bank: SimpleNamespace) -> None:
    teller = importlib.import_module("teller")
    engine = create_engine(bank.teller.url)
    with engine.begin() as transaction:
        teller.ask(transaction, "o1", ACCOUNT, "deposit", Decimal("20.00"))
    engine.dispose()
    assert bank.books.wrongs(bank.told) == []


@pytest.mark.parametrize("status", ["pending", "sent", "failed", "reversing"])
def test_a_row_that_is_stuck_in_an_outbox_is_open(bank: SimpleNamespace, status: str) -> None:
    assert not bank.books.is_anything_open()
    with bank.teller.connect() as connection:
        stuck = "UPDATE warren_outbox SET status = %s, due_at = now() WHERE business_id = 'o1'"
        connection.execute(stuck, [status])
        try:
            assert bank.books.is_anything_open()
        finally:
            connection.execute("UPDATE warren_outbox SET status = 'done', due_at = NULL WHERE business_id = 'o1'")


@pytest.mark.timeout(600)
def test_a_cent_that_moved_from_one_operation_to_another_is_found_by_the_reconciliation(
    bank: SimpleNamespace, tmp_path: Path
) -> None:
    code, words = reconciled(bank, tmp_path / "right")
    assert code == 0, words
    moved = "UPDATE entries SET amount = amount + CASE number WHEN 1 THEN 0.01 ELSE -0.01 END * %s WHERE number < 3"
    with bank.bank.connect() as connection:
        connection.execute(moved, [1])
        try:
            # sums are what they were, so SQL over sums sees nothing
            assert bank.books.wrongs(bank.told) == []
            code, words = reconciled(bank, tmp_path / "wrong")
        finally:
            connection.execute(moved, [-1])
    assert code == 1, words
    assert re.search(r"differs +2 keys", words), words


def reconciled(bank: SimpleNamespace, directory: Path) -> tuple[int, str]:
    directory.mkdir()
    bank.books.write_ledgers(directory)
    return importlib.import_module("books").reconciled(directory)


@pytest.mark.parametrize("what", WRONGS)
def test_the_checks_see(what: str, bank: SimpleNamespace) -> None:
    service, planted, sentence = WRONGS[what]
    database = getattr(bank, service)
    tables = ("operations", "drawer") if service == "teller" else ("entries", "strikes", "accounts")
    with database.connect() as connection:
        for table in tables:
            connection.execute(f"CREATE TABLE kept_{table} AS TABLE {table}")
        try:
            connection.execute(planted)
            assert sentence in "; ".join(bank.books.wrongs(bank.told))
        finally:
            for table in tables:
                connection.execute(f"TRUNCATE {table}")
                connection.execute(f"INSERT INTO {table} SELECT * FROM kept_{table}")
                connection.execute(f"DROP TABLE kept_{table}")


def test_an_undo_that_the_bank_runs_twice_is_written_twice(bank: SimpleNamespace) -> None:
    core_bank, operations = importlib.import_module("core_bank"), importlib.import_module("operations")
    reversal = operations.Operation("o3", ACCOUNT, 3, "withdrawal", Decimal("7.00")).message()
    engine = create_engine(bank.bank.url)
    with engine.connect() as connection, connection.begin() as transaction:
        core_bank.strike(connection, reversal)
        struck = connection.exec_driver_sql("SELECT operation, count(*) FROM strikes GROUP BY operation").all()
        transaction.rollback()
    engine.dispose()
    assert struck == [("o3", 2)]
