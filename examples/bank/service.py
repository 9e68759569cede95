"""One process of one of the services: `python service.py ROLE --database URL --broker URL`.

    customers     people at the teller's window, who deposit and withdraw
    relay         publishes what is in the database's outbox; of several one is active
    booking       books the operations that come to the bank, each once

Each may be killed at any moment, and is started again by whoever runs it. SIGTERM ends it in good order.

Not here: what they do to the books (`teller`, `core_bank`).
"""

import argparse
import asyncio
import logging
import os
import random
import signal
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import core_bank
import teller
from operations import OPERATIONS
from sqlalchemy import Engine, create_engine
from sqlalchemy.exc import DBAPIError

from warren.client import recovering
from warren.client.inbox import Inbox
from warren.client.listening import Listener, Retries, backoff
from warren.client.outbox import Relay, RelaySettings

WINDOWS = 4
"""At which customers are served at once."""

HANDS = 8
"""How many operations the bank books at once, each of another account."""

# whatever the database is up to, an operation is tried until it is booked, and holds its account's next one meanwhile
PATIENT = Retries(tries=10_000, delays_s=backoff(0.1, 6), way="in_hand")
RELAYING = RelaySettings(lease_s=5, batch_rows=200)


def main() -> None:
    options = _options()
    _log_facts()
    # a connection that the database has cut is replaced before it is used, where that can be known
    engine = create_engine(options.database, pool_size=HANDS, max_overflow=4, pool_pre_ping=True)
    if options.role == "customers":
        Customers(engine, options.rate, options.told).serve()
    else:
        asyncio.run({"relay": relay, "booking": booking}[options.role](engine, options.broker))
    engine.dispose()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="One process of the teller or of the bank.")
    parser.add_argument("role", choices=["customers", "relay", "booking"])
    parser.add_argument("--database", required=True)
    parser.add_argument("--broker")
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


async def relay(engine: Engine, broker: str) -> None:
    async with await recovering.open(broker, name="relay") as transport:
        publishing = Relay(engine, transport, RELAYING)
        _when_ended(publishing.stop)
        await publishing.run()


async def booking(engine: Engine, broker: str) -> None:
    inbox = Inbox(engine, consumer="booking")
    async with await recovering.open(broker, name="booking") as transport:
        listener: Listener[bytes] = Listener(
            transport, OPERATIONS, inbox.handler(core_bank.book), retries=PATIENT, concurrency=HANDS, prefetch=50
        )
        async with listener:
            ended = asyncio.Event()
            _when_ended(ended.set)
            failing = asyncio.create_task(listener.wait())
            await asyncio.wait([failing, asyncio.create_task(ended.wait())], return_when=asyncio.FIRST_COMPLETED)
            if failing.done():
                await failing


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
    main()
