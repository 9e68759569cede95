"""A relay as a process of its own, to be stopped and killed: `python relay_process.py DATABASE BROKER LEASE_S`.

It prints `ready` when its transport is open, and exits with 0 after SIGTERM.
"""

import asyncio
import signal
import sys

from sqlalchemy import create_engine

from warren.client import recovering
from warren.client.outbox import Relay, RelaySettings


async def main(database: str, broker: str, lease_s: float) -> None:
    engine = create_engine(database, pool_size=2, max_overflow=0)
    transport = await recovering.open(broker)
    # small batches, so that there are many moments to be killed in
    relay = Relay(engine, transport, RelaySettings(lease_s=lease_s, batch_rows=20, poll_s=0.02))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, relay.stop)
    print("ready", flush=True)
    await relay.run()
    await transport.close()
    engine.dispose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
