"""The teller: its own database, and what happens in it when a customer comes and when the bank answers.

A deposit's money is in the drawer when the customer hands it over; if the bank does not answer, it is asked to confirm
until it does. A withdrawal's is paid out when the bank has said yes, in the transaction that takes note of the receipt;
if it says no, or nothing in time, the withdrawal is reversed, and the money stays in the drawer.

Nothing in the tables keeps money from being paid out twice.

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
    """Note the operation and its message; nothing if it is noted already, as when nobody knows whether that was."""
    # whoever has the account's row adds, and so sends, its operations in the order of their numbers
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
    """The bank has the last word: `done` or `reversed`, each once, in the transaction of its receipt."""
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
    """What a customer comes for."""
    kind: Kind = "deposit" if chance.random() < 0.5 else "withdrawal"
    return chance.choice(account_names()), kind, Decimal(chance.randrange(1, 50_000)) / 100
