"""The teller: its own database, and its transactions for a customer's operation and for the bank's receipt.

A deposit's money is in the drawer when the customer hands it over. If the bank does not answer, the teller asks for
confirmation until it does. A withdrawal is paid out when the bank has booked it, in the transaction that records the
receipt. If the bank refuses, or does not answer in time, the withdrawal is reversed, and the money stays in the drawer.

No constraint of the tables prevents money from being paid out twice.

Not here: the processes (`service`), the other side (`core_bank`).
"""

import random
from dataclasses import asdict
from decimal import Decimal

from operations import CURRENCY, OPERATIONS, Kind, Operation
from sqlalchemy import Connection, Engine, text

from warren.client.outbox import Outbox
from warren.client.tables import Executor, create_tables

ACCOUNTS = 200
OUTBOX = Outbox(routing_key=OPERATIONS)
TABLES = """
CREATE TABLE customers (account varchar(20) PRIMARY KEY, operations integer NOT NULL DEFAULT 0);
CREATE TABLE operations (
    id varchar(60) PRIMARY KEY, account varchar(20) NOT NULL, number integer NOT NULL, kind varchar(10) NOT NULL,
    amount numeric(12, 2) NOT NULL, currency varchar(3) NOT NULL, asked_at timestamptz NOT NULL DEFAULT now(),
    state varchar(10) NOT NULL DEFAULT 'asked');
CREATE TABLE drawer (id bigserial PRIMARY KEY, operation varchar(60) NOT NULL, amount numeric(12, 2) NOT NULL);
"""


def account_names() -> list[str]:
    return [f"A{number:04}" for number in range(ACCOUNTS)]


def open_books(engine: Engine) -> None:
    create_tables(engine)
    with engine.begin() as transaction:
        transaction.execute(text(TABLES))
        rows = [{"account": account} for account in account_names()]
        transaction.execute(text("INSERT INTO customers (account) VALUES (:account)"), rows)


def ask(transaction: Connection, operation_id: str, account: str, kind: Kind, amount: Decimal) -> None:
    """Write the operation and its message, unless a transaction with an unknown outcome has already written it."""
    # the lock on the account's row puts its operations into the outbox in the order of their numbers
    number = transaction.execute(
        text("SELECT operations + 1 FROM customers WHERE account = :account FOR UPDATE"), {"account": account}
    ).scalar_one()
    operation = Operation(operation_id, account, number, kind, amount)
    if not _is_noted(transaction, operation):
        return
    transaction.execute(
        text("UPDATE customers SET operations = :number WHERE account = :account"),
        {"number": number, "account": account},
    )
    if kind == "deposit":
        _put_in_drawer(transaction, operation_id, amount)
    OUTBOX.add(
        transaction,
        operation.message(),
        business_id=operation_id,
        ordering_key=account,
        amount=operation.signed,
        currency=CURRENCY,
        wants_receipt=True,
        compensation="confirm" if kind == "deposit" else "reverse",
    )


def settle(executor: Executor, operation_id: str, state: str) -> None:
    """Apply the bank's receipt, `done` or `reversed`, once, in the transaction that records it."""
    operation = executor.execute(
        text("UPDATE operations SET state = :state WHERE id = :id RETURNING kind, amount"),
        {"state": state, "id": operation_id},
    ).one()
    if operation.kind == "withdrawal" and state == "done":
        _put_in_drawer(executor, operation_id, -operation.amount)


def _is_noted(transaction: Connection, operation: Operation) -> bool:
    statement = text(
        "INSERT INTO operations (id, account, number, kind, amount, currency)"
        f" VALUES (:id, :account, :number, :kind, :amount, '{CURRENCY}') ON CONFLICT (id) DO NOTHING RETURNING id"
    )
    return transaction.execute(statement, asdict(operation)).first() is not None


def _put_in_drawer(executor: Executor, operation_id: str, amount: Decimal) -> None:
    executor.execute(
        text("INSERT INTO drawer (operation, amount) VALUES (:operation, :amount)"),
        {"operation": operation_id, "amount": amount},
    )


def wish(chance: random.Random) -> tuple[str, Kind, Decimal]:
    """A random operation of a customer."""
    kind: Kind = "deposit" if chance.random() < 0.5 else "withdrawal"
    return chance.choice(account_names()), kind, Decimal(chance.randrange(1, 50_000)) / 100
