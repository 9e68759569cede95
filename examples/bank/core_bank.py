"""The bank: its own database with the accounts, and the effect of an operation and of its reversal.

No constraint of the tables prevents an operation from being booked or struck twice. The inbox does, and the checks at
the end verify it.

Not here: the processes (`service`), the other side (`teller`).
"""

from dataclasses import asdict
from decimal import Decimal

from operations import CURRENCY, Operation
from sqlalchemy import Connection, Engine, text
from teller import account_names

from warren.client.inbox import Refused
from warren.client.tables import create_tables
from warren.client.transport import Incoming

OPENED_WITH = Decimal("1000.00")
TABLES = """
CREATE TABLE accounts (id varchar(20) PRIMARY KEY, balance numeric(14, 2) NOT NULL);
CREATE TABLE entries (
    id bigserial PRIMARY KEY, operation varchar(60) NOT NULL, account varchar(20) NOT NULL, number integer NOT NULL,
    amount numeric(12, 2) NOT NULL, currency varchar(3) NOT NULL, booked_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE strikes (
    id bigserial PRIMARY KEY, operation varchar(60) NOT NULL, account varchar(20) NOT NULL,
    amount numeric(12, 2) NOT NULL, struck_at timestamptz NOT NULL DEFAULT now());
CREATE INDEX entries_of ON entries (operation);
CREATE INDEX strikes_of ON strikes (operation);
"""


def open_books(engine: Engine) -> None:
    create_tables(engine)
    with engine.begin() as transaction:
        transaction.execute(text(TABLES))
        rows = [{"id": account, "balance": OPENED_WITH} for account in account_names()]
        transaction.execute(text("INSERT INTO accounts VALUES (:id, :balance)"), rows)


def book(transaction: Connection, message: Incoming) -> None:
    """Book the operation, or refuse a withdrawal that exceeds the balance."""
    operation = Operation.read(message.body)
    changed = transaction.execute(
        text("UPDATE accounts SET balance = balance + :amount WHERE id = :id AND balance + :amount >= 0 RETURNING id"),
        {"amount": operation.signed, "id": operation.account},
    ).first()
    if changed is None:
        raise Refused("there is not enough money on the account")
    transaction.execute(
        text(
            "INSERT INTO entries (operation, account, number, amount, currency)"
            f" VALUES (:id, :account, :number, :signed, '{CURRENCY}')"
        ),
        asdict(operation) | {"signed": operation.signed},
    )


def strike(transaction: Connection, message: Incoming) -> None:
    """Strike the entry, because the teller reversed the operation. Does not check the balance."""
    operation = Operation.read(message.body)
    transaction.execute(
        text("INSERT INTO strikes (operation, account, amount) VALUES (:id, :account, :signed)"),
        asdict(operation) | {"signed": operation.signed},
    )
    transaction.execute(
        text("UPDATE accounts SET balance = balance - :amount WHERE id = :id"),
        {"amount": operation.signed, "id": operation.account},
    )
