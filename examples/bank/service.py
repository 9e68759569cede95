"""One process of one of the services: `python service.py ROLE --database URL --broker URL`.

    customers     people at the teller's window, who deposit and withdraw
    relay         publishes what is in the database's outbox, the teller's or the bank's; of several one is active
    receipts      takes the bank's receipts, and chases those that do not come; of several one is active
    booking       books the operations that come to the bank, each once, and answers with receipts

Each may be killed at any moment, and is started again by whoever runs it. SIGTERM ends it in good order. Without a
database or a broker it ends with `NOBODY_THERE`.

Not here: what they do to the books (`teller`, `core_bank`).
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
from sqlalchemy import Engine, create_engine
from sqlalchemy.exc import DBAPIError, OperationalError
from staff import NOBODY_THERE

from warren.client import recovering
from warren.client.errors import CannotConnect
from warren.client.inbox import Inbox
from warren.client.listening import Arrival, Listener, Retries, backoff
from warren.client.outbox import Outbox, Relay, RelaySettings
from warren.client.receipts import Chaser, ChasingSettings, Receipts

WINDOWS = 4
"""At which customers are served at once."""

HANDS = 8
"""How many operations the bank books at once, each of another account."""

# whatever the database is up to, an operation is tried until it is booked, and holds its account's next one meanwhile
PATIENT = Retries(tries=10_000, delays_s=backoff(0.1, 6), way="in_hand")
# seconds in place of minutes, so that every outage is long enough to be chased for; the bank is asked until it answers
RELAYING = RelaySettings(lease_s=5, batch_rows=200, receipt_within_s=4, resent_receipt_within_s=3)
CHASING = ChasingSettings(lease_s=5, resends=1, compensations=1000)


def main() -> int:
    options = _options()
    _log_facts()
    try:
        _serve(options)
    except (CannotConnect, OperationalError):
        logging.exception("service.found_nobody")
        return NOBODY_THERE
    return 0


def _serve(options: argparse.Namespace) -> None:
    # a connection that the database has cut is replaced before it is used, where that can be known
    engine = create_engine(options.database, pool_size=HANDS, max_overflow=4, pool_pre_ping=True)
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
    parser.add_argument("--name", default="", help="by which the broker knows its connection")
    parser.add_argument("--rate", type=float, default=50.0, help="operations a second, of customers")
    parser.add_argument("--told", type=Path, help="the file where customers note what was accepted")
    return parser.parse_args()


def _log_facts() -> None:
    """Lines with everything that a record says besides its message."""
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
            transport, RECEIPTS, taking.handler, retries=PATIENT, concurrency=HANDS, prefetch=50
        )
        async with listener:
            await _first_of(listener.wait(), chaser.run(), _ending(chaser.stop))


async def booking(engine: Engine, broker: str, name: str) -> None:
    inbox = Inbox(engine, consumer="booking")
    handler = inbox.handler(core_bank.book, undo=core_bank.strike, money=_money, receipts=Outbox())
    async with await recovering.open(broker, name=name) as transport:
        listener = Listener(transport, OPERATIONS, handler, retries=PATIENT, concurrency=HANDS, prefetch=50)
        async with listener:
            await _first_of(listener.wait(), _ending())


def _money(message: Arrival[bytes]) -> tuple[Decimal, str]:
    return Operation.read(message.body).signed, CURRENCY


async def _first_of(*waiting: Coroutine[Any, Any, None]) -> None:
    """Until one of them has ended, with its error if it has one."""
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
    """They come at some rate, and each goes when the operation is accepted, whatever the database is up to."""

    def __init__(self, engine: Engine, rate: float, told: Path) -> None:
        self._engine = engine
        self._pause_s = WINDOWS / rate
        self._told = os.open(told, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._leaving = threading.Event()

    def serve(self) -> None:
        signal.signal(signal.SIGTERM, lambda *_: self._leaving.set())
        windows = [threading.Thread(target=self._window) for _ in range(WINDOWS)]
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
                    # perhaps it was committed all the same: asked again under the same id it is one operation
                    logging.warning("operation.asked_again %s %s", operation_id, type(trouble.orig).__name__)
                    time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
