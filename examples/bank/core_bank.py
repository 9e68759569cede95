"""The bank: its own database with the accounts, and what an operation does to them.

Nothing in the tables keeps an operation from being booked twice: that is for the inbox to do, and for the checks at the
end to see.

Not here: the processes (`service`), the other side (`teller`).
"""

from decimal import Decimal

from operations import Operation
from sqlalchemy import Connection, Engine, text
from teller import account_names

from warren.client.tables import create_tables
from warren.client.transport import Incoming

OPENED_WITH = Decimal("1000.00")
TABLES = """
CREATE TABLE accounts (id varchar(20) PRIMARY KEY, balance numeric(14, 2) NOT NULL);
CREATE TABLE entries (
    id bigserial PRIMARY KEY, operation varchar(60) NOT NULL, account varchar(20) NOT NULL, number integer NOT NULL,
    amount numeric(12, 2) NOT NULL, currency varchar(3) NOT NULL, booked_at timestamptz NOT NULL DEFAULT now());
"""


def open_books(engine: Engine) -> None:
    create_tables(engine)
    with engine.begin() as transaction:
        transaction.execute(text(TABLES))
        rows = [{"id": account, "balance": OPENED_WITH} for account in account_names()]
        transaction.execute(text("INSERT INTO accounts VALUES (:id, :balance)"), rows)


def book(transaction: Connection, message: Incoming) -> None:
    operation = Operation.read(message.body)
    transaction.execute(
        text("UPDATE accounts SET balance = balance + :amount WHERE id = :account"),
        {"amount": operation.signed, "account": operation.account},
    )
    transaction.execute(
        text(
            "INSERT INTO entries (operation, account, number, amount, currency)"
            " VALUES (:operation, :account, :number, :amount, 'EUR')"
        ),
        {
            "operation": operation.id,
            "account": operation.account,
            "number": operation.number,
            "amount": operation.signed,
        },
    )
