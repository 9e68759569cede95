"""The teller: its own database, and what happens in it when a customer comes.

A deposit's money is in the drawer when the customer hands it over. A withdrawal's is paid out when the bank has said
yes, in the transaction that takes note of the receipt; if there is no answer in time the teller has it reversed, and
keeps the money.

Not here: the processes (`service`), the other side (`core_bank`).
"""

import random
from decimal import Decimal

from operations import CURRENCY, OPERATIONS, Kind, Operation
from sqlalchemy import Connection, Engine, text

from warren.client.outbox import Outbox
from warren.client.tables import create_tables

ACCOUNTS = 200
OUTBOX = Outbox(routing_key=OPERATIONS)
TABLES = """
CREATE TABLE customers (account varchar(20) PRIMARY KEY, operations integer NOT NULL DEFAULT 0);
CREATE TABLE operations (
    id varchar(60) PRIMARY KEY, account varchar(20) NOT NULL, number integer NOT NULL, kind varchar(10) NOT NULL,
    amount numeric(12, 2) NOT NULL, currency varchar(3) NOT NULL, asked_at timestamptz NOT NULL DEFAULT now());
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
    # the update locks the account: operations on it are added, and so sent, in the order of their numbers
    number = transaction.execute(
        text("UPDATE customers SET operations = operations + 1 WHERE account = :account RETURNING operations"),
        {"account": account},
    ).scalar_one()
    noted = transaction.execute(
        text(
            "INSERT INTO operations (id, account, number, kind, amount, currency)"
            " VALUES (:id, :account, :number, :kind, :amount, :currency) ON CONFLICT DO NOTHING RETURNING id"
        ),
        {
            "id": operation_id,
            "account": account,
            "number": number,
            "kind": kind,
            "amount": amount,
            "currency": CURRENCY,
        },
    ).first()
    if noted is None:
        transaction.execute(
            text("UPDATE customers SET operations = operations - 1 WHERE account = :account"), {"account": account}
        )
        return
    operation = Operation(operation_id, account, number, kind, amount)
    OUTBOX.add(
        transaction,
        operation.message(),
        business_id=operation_id,
        ordering_key=account,
        amount=operation.signed,
        currency=CURRENCY,
    )


def wish(chance: random.Random) -> tuple[str, Kind, Decimal]:
    """What a customer comes for."""
    kind: Kind = "deposit" if chance.random() < 0.5 else "withdrawal"
    return chance.choice(account_names()), kind, Decimal(chance.randrange(1, 50_000)) / 100
