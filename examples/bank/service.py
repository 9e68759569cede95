"""One process of one of the services: `python service.py ROLE --database URL --broker URL`.

    customers     customers of the teller, who deposit and withdraw
    relay         publishes the outbox of a database, the teller's or the bank's; of several one is active
    receipts      handles the bank's receipts, and chases missing ones; of several one is active
    booking       books the operations that come to the bank, each once, and answers with receipts

Each may be killed at any moment; `processes` starts it again. SIGTERM stops it gracefully. Without a database or a
broker it exits with `UNAVAILABLE`.

Not here: the transactions (`teller`, `core_bank`).
"""

import argparse
import asyncio
import logging
import os
import random
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Coroutine
from decimal import Decimal
from pathlib import Path
from typing import Any

import core_bank
import teller
from operations import CURRENCY, OPERATIONS, RECEIPTS, Operation
from processes import UNAVAILABLE
from sqlalchemy import Engine, create_engine
from sqlalchemy.exc import DBAPIError, OperationalError

from warren.client import recovering
from warren.client.errors import CannotConnect
from warren.client.inbox import Inbox
from warren.client.listening import Arrival, Listener, Retries, backoff
from warren.client.outbox import Outbox, Relay, RelaySettings
from warren.client.receipts import Chaser, ChasingSettings, Receipts

CUSTOMERS_AT_ONCE = 4
"""How many customers are served at once."""

BOOKINGS_AT_ONCE = 8
"""How many operations the bank books at once, each of another account."""

# an operation is retried until it is booked, also while the database is down; the account's next operation waits for it
PATIENT = Retries(tries=10_000, delays_s=backoff(0.1, 6), way="in_hand")
# seconds instead of minutes, so that every outage passes a deadline; confirmations are repeated until the bank answers
RELAYING = RelaySettings(lease_s=5, batch_rows=200, receipt_within_s=4, resent_receipt_within_s=3)
CHASING = ChasingSettings(lease_s=5, resends=1, compensations=1000)


def main() -> int:
    options = _options()
    _log_facts()
    try:
        _serve(options)
    except (CannotConnect, OperationalError):
        logging.exception("service.unavailable")
        return UNAVAILABLE
    return 0


def _serve(options: argparse.Namespace) -> None:
    # replaces a closed connection before it is used, if the close is detectable
    engine = create_engine(options.database, pool_size=BOOKINGS_AT_ONCE, max_overflow=4, pool_pre_ping=True)
    if options.role == "customers":
        Customers(engine, options.rate, options.told).serve()
    else:
        roles = {"relay": relay, "receipts": receipts, "booking": booking}
        asyncio.run(roles[options.role](engine, options.broker, options.name))
    engine.dispose()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="One process of the teller or of the bank.")
    parser.add_argument("role", choices=["customers", "relay", "receipts", "booking"])
    parser.add_argument("--database", required=True)
    parser.add_argument("--broker")
    parser.add_argument("--name", default="", help="name of its connection at the broker")
    parser.add_argument("--rate", type=float, default=50.0, help="operations a second, of customers")
    parser.add_argument("--told", type=Path, help="file in which customers record accepted operations")
    return parser.parse_args()


def _log_facts() -> None:
    """Log lines with all extra fields of a record."""
    known = set(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}

    class Facts(logging.Formatter):
        def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
            facts = [f"{name}={value!r}" for name, value in record.__dict__.items() if name not in known]
            return " ".join([super().formatMessage(record), *facts])

    handler = logging.StreamHandler()
    handler.setFormatter(Facts("%(asctime)s %(process)d %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


async def relay(engine: Engine, broker: str, name: str) -> None:
    async with await recovering.open(broker, name=name) as transport:
        publishing = Relay(engine, transport, RELAYING)
        _when_ended(publishing.stop)
        await publishing.run()


async def receipts(engine: Engine, broker: str, name: str) -> None:
    taking = Receipts(engine, settled=teller.settle)
    chaser = Chaser(engine, CHASING)
    async with await recovering.open(broker, name=name) as transport:
        listener: Listener[bytes] = Listener(
            transport, RECEIPTS, taking.handler, retries=PATIENT, concurrency=BOOKINGS_AT_ONCE, prefetch=50
        )
        async with listener:
            await _first_of(listener.wait(), chaser.run(), _ending(chaser.stop))


async def booking(engine: Engine, broker: str, name: str) -> None:
    inbox = Inbox(engine, consumer="booking")
    handler = inbox.handler(core_bank.book, undo=core_bank.strike, money=_money, receipts=Outbox())
    async with await recovering.open(broker, name=name) as transport:
        listener = Listener(transport, OPERATIONS, handler, retries=PATIENT, concurrency=BOOKINGS_AT_ONCE, prefetch=50)
        async with listener:
            await _first_of(listener.wait(), _ending())


def _money(message: Arrival[bytes]) -> tuple[Decimal, str]:
    return Operation.read(message.body).signed, CURRENCY


async def _first_of(*waiting: Coroutine[Any, Any, None]) -> None:
    """Wait until one of them has ended; raise its error, if any."""
    tasks = [asyncio.create_task(each) for each in waiting]
    done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    for task in done:
        await task


async def _ending(act: Callable[[], None] = lambda: None) -> None:
    ended = asyncio.Event()
    _when_ended(ended.set)
    await ended.wait()
    act()


def _when_ended(act: Callable[[], None]) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, act)


class Customers:
    """Customers come at a given rate. Each waits until its operation is accepted, also while the database is down."""

    def __init__(self, engine: Engine, rate: float, told: Path) -> None:
        self._engine = engine
        self._pause_s = CUSTOMERS_AT_ONCE / rate
        self._told = os.open(told, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._leaving = threading.Event()

    def serve(self) -> None:
        signal.signal(signal.SIGTERM, lambda *_: self._leaving.set())
        windows = [threading.Thread(target=self._window) for _ in range(CUSTOMERS_AT_ONCE)]
        for window in windows:
            window.start()
        for window in windows:
            window.join()

    def _window(self) -> None:
        chance = random.Random()
        while not self._leaving.wait(chance.uniform(0, 2 * self._pause_s)):
            account, kind, amount = teller.wish(chance)
            operation_id = f"{kind}-{uuid.uuid4().hex}"
            while not self._leaving.is_set():
                try:
                    with self._engine.begin() as transaction:
                        teller.ask(transaction, operation_id, account, kind, amount)
                    os.write(self._told, f"{operation_id}\n".encode())
                    break
                except DBAPIError as trouble:
                    # the transaction may have been committed: a retry with the same id is the same operation
                    logging.warning("operation.asked_again %s %s", operation_id, type(trouble.orig).__name__)
                    time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
