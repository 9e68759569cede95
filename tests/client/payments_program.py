"""A consumer as a process of its own: books each payment once, and kills itself at a given point.

    python -m tests.client.payments_program AMQP_URL QUEUE DATABASE_URL [PLACE BODY]

PLACE is `before-commit` or `after-commit`: there it kills itself, when it handles the message with that body. After
SIGTERM it stops its listener, and prints its counts on standard output.
"""

import asyncio
import os
import signal
import sys

from sqlalchemy import Connection, create_engine, text

from warren.client import recovering
from warren.client.inbox import Inbox
from warren.client.listening import Arrival, Listener

PAY = text("INSERT INTO paid VALUES (:reference)")


async def serve(url: str, queue: str, database: str, place: str = "", body: str = "") -> None:
    inbox = Inbox(create_engine(database), "payments")

    def die(where: str, message: Arrival[bytes]) -> None:
        if (where, message.body.decode()) == (place, body):
            os.kill(os.getpid(), signal.SIGKILL)

    def pay(connection: Connection, message: Arrival[bytes]) -> None:
        connection.execute(PAY, {"reference": message.body.decode()})
        die("before-commit", message)

    pay_once = inbox.handler(pay)

    def handle(message: Arrival[bytes]) -> None:
        pay_once(message)
        die("after-commit", message)

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with await recovering.open(url) as transport:
        listener = Listener(transport, queue, handle, declares=False, prefetch=20)
        await listener.start()
        print("ready", flush=True)
        await stop.wait()
        await listener.stop()
    print(inbox.handled, inbox.duplicates, flush=True)


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
