"""A chaser as a process of its own, to be stopped and killed: `python chaser_process.py DATABASE LEASE_S`.

It prints `ready` at its start, then the business id of each alert, and exits with 0 after SIGTERM.
"""

import asyncio
import signal
import sys

from sqlalchemy import create_engine

from warren.client.receipts import Alert, Chaser, ChasingSettings

RESENDS = 2
COMPENSATIONS = 3


def alert(told: Alert) -> None:
    print(told.business_id, flush=True)


async def main(database: str, lease_s: float) -> None:
    engine = create_engine(database, pool_size=2, max_overflow=0)
    # small batches, so that there are many moments to be killed in
    settings = ChasingSettings(RESENDS, COMPENSATIONS, batch_rows=3, poll_s=0.01, lease_s=lease_s, backoff_s=0.05)
    chaser = Chaser(engine, settings, on_alert=alert)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, chaser.stop)
    print("ready", flush=True)
    await chaser.run()
    engine.dispose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
