"""Rows in PostgreSQL that the outbox's relay publishes to a node.

Not here: how to run it (`bench/outbox`).
"""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from brokers import Broker, NotAvailable, warren
from measure import cpu_s, machine, progress
from sqlalchemy import Engine, create_engine, text

from tests.support.postgres import DATABASE, USER, Postgres
from warren.client.outbox import Relay
from warren.client.recovering import open as open_transport
from warren.client.tables import OUTBOX, create_tables
from warren.client.transport import Layout, QueueLayout

QUEUE = "bench.outbox"
PROPERTIES = '{"delivery_mode":2,"content_type":"application/octet-stream"}'
KINDS = {"without a key": 0, "10,000 keys": 10_000, "1,000 keys": 1_000, "100 keys": 100, "one key": 1}
ONE_KEY_SHARE = 20
"""A twentieth of the rows is enough to see how fast one key is."""

FILL = text(
    "INSERT INTO warren_outbox (business_id, ordering_key, routing_key, properties, body, created_at)"
    " SELECT 'row ' || number, CASE WHEN :keys = 0 THEN '' ELSE 'key ' || number % greatest(:keys, 1) END, :queue,"
    " :properties, decode(repeat('2a', :size), 'hex'),"
    " statement_timestamp() FROM generate_series(1, :rows) AS number"
)


@dataclass(frozen=True)
class Taken:
    rows: int
    seconds: float
    cpu_seconds: float


def measure(rows: int, size_bytes: int) -> int:
    print(f"{machine()}. Bodies of {size_bytes} B.\n")
    print("| rows | how many | rows/s | CPU for 10,000 |\n|---|---:|---:|---:|")
    try:
        with _database() as (server, engine), warren() as broker:
            for kind, keys in KINDS.items():
                progress(kind)
                count = rows if keys != 1 else max(rows // ONE_KEY_SHARE, 1)
                taken = _taken(server, engine, broker, keys, count, size_bytes)
                cpu = taken.cpu_seconds / taken.rows * 10_000
                print(f"| {kind} | {taken.rows:,} | {taken.rows / taken.seconds:,.0f} | {cpu:.2f} s |", flush=True)
    except (NotAvailable, OSError) as reason:
        print(f"outbox: {reason}", file=sys.stderr)
        return 1
    return 0


@contextlib.contextmanager
def _database() -> Iterator[tuple[Postgres, Engine]]:
    server = Postgres(durable=True)
    engine = create_engine(f"postgresql+psycopg://{USER}@127.0.0.1:{server.port}/{DATABASE}")
    try:
        create_tables(engine)
        yield server, engine
    finally:
        engine.dispose()
        server.stop()


def _taken(server: Postgres, engine: Engine, broker: Broker, keys: int, rows: int, size_bytes: int) -> Taken:
    with engine.begin() as connection:
        connection.execute(OUTBOX.delete())
        given = {"keys": keys, "rows": rows, "size": size_bytes, "queue": QUEUE, "properties": PROPERTIES}
        connection.execute(FILL, given)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE warren_outbox"))
    processes = (os.getpid(), broker.pid, server.process.pid)
    return asyncio.run(_drained(engine, broker, rows, processes))


async def _drained(engine: Engine, broker: Broker, rows: int, processes: tuple[int, ...]) -> Taken:
    host, port = broker.address
    transport = await open_transport(f"amqp://guest:guest@{host}:{port}/%2F")
    try:
        await transport.declare(Layout(queues=(QueueLayout(QUEUE),)))
        began, cpu_before = time.monotonic(), cpu_s(*processes)
        sent = await Relay(engine, transport).drain()
        seconds, cpu = time.monotonic() - began, cpu_s(*processes) - cpu_before
    finally:
        await transport.close()
    if sent != rows:
        raise OSError(f"{sent} rows of {rows} were sent")
    return Taken(rows, seconds, cpu)
