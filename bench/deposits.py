"""Deposits as transactions of PostgreSQL, alone and with the inbox, in turns.

Not here: how to run it (`bench/inbox`).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from measure import machine, median, progress
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    Identity,
    Integer,
    MetaData,
    Numeric,
    String,
    Table,
    bindparam,
    create_engine,
    insert,
    update,
)

from tests.support.postgres import DATABASE, USER, Postgres
from warren.client import Properties
from warren.client.inbox import Inbox
from warren.client.tables import create_tables

ACCOUNTS = 1000
WARMING_UP = 100
"""As many go by before any is measured: connections are opened, statements are prepared."""

TABLES = MetaData()
BALANCES = Table("balances", TABLES, Column("id", Integer, primary_key=True), Column("amount", Numeric(20, 2)))
ENTRIES = Table(
    "entries",
    TABLES,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("account", Integer, nullable=False),
    Column("reference", String(64), nullable=False),
    Column("amount", Numeric(20, 2), nullable=False),
)
ADD = update(BALANCES).where(BALANCES.c.id == bindparam("account")).values(amount=BALANCES.c.amount + bindparam("plus"))
ENTER = insert(ENTRIES)


@dataclass(frozen=True)
class Paid:
    """A message as a transport delivers it."""

    number: int
    body: bytes = b"{}"
    properties: Properties = field(default_factory=Properties)
    headers: dict[str, object] = field(default_factory=dict)
    exchange: str = ""
    routing_key: str = "payments"
    redelivered: bool = False
    is_ours: bool = True

    def ack(self) -> None:
        """Do nothing: no broker waits for it."""

    def nack(self, *, requeue: bool = True) -> None:
        """Do nothing: no broker waits for it."""


def deposit(accounts: int) -> Callable[[Connection, Paid], None]:
    """The work of a handler: two statements for each account."""

    def work(connection: Connection, message: Paid) -> None:
        for number in range(message.number, message.number + accounts):
            account, reference = number % ACCOUNTS, f"payment-{message.number}"
            connection.execute(ADD, {"account": account, "plus": 1})
            connection.execute(ENTER, {"account": account, "reference": reference, "amount": 1})

    return work


def measure(transactions: int) -> int:
    print(f"{machine()}. PostgreSQL, {transactions:,} transactions of each kind, medians.\n")
    print("| PostgreSQL | statements of the handler | alone | with the inbox | ratio |")
    print("|---|---:|---:|---:|---:|")
    for durable in (True, False):
        server = Postgres(durable=durable)
        try:
            engine = create_engine(f"postgresql+psycopg://{USER}@127.0.0.1:{server.port}/{DATABASE}")
            prepare(engine)
            for accounts in (1, 2):
                progress(f"{'durable' if durable else 'not flushing'}: {2 * accounts} statements")
                alone, once = compare(engine, deposit(accounts), transactions)
                kind = "as installed" if durable else "that flushes nothing"
                print(f"| {kind} | {2 * accounts} | {alone:,.0f} µs | {once:,.0f} µs | {once / alone:.2f}× |")
            engine.dispose()
        finally:
            server.stop()
    return 0


def prepare(engine: Engine) -> None:
    create_tables(engine)
    TABLES.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(BALANCES), [{"id": number, "amount": 0} for number in range(ACCOUNTS)])


def compare(engine: Engine, work: Callable[[Connection, Paid], None], transactions: int) -> tuple[float, float]:
    """The medians in microseconds."""
    inbox = Inbox(engine, f"bench-{time.monotonic_ns()}")
    handle = inbox.handler(work)

    def alone(message: Paid) -> None:
        with engine.begin() as connection:
            work(connection, message)

    took: dict[bool, list[float]] = {True: [], False: []}
    for number in range(WARMING_UP + transactions):
        # change the order, so that neither always comes second
        for with_inbox in (number % 2 == 0, number % 2 == 1):
            message = Paid(number, properties=Properties(message_id=f"payment-{number}"))
            began_s = time.perf_counter()
            (handle if with_inbox else alone)(message)
            took[with_inbox].append((time.perf_counter() - began_s) * 1e6)
    assert inbox.handled == WARMING_UP + transactions
    return median(took[False][WARMING_UP:]) or 0.0, median(took[True][WARMING_UP:]) or 0.0
