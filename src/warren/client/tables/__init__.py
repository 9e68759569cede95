"""The tables of the reliability kit in a team's own database: their schema, migrations and leases.

    outbox      warren_outbox     messages to publish, written in the transaction that they report
    inbox       warren_inbox      handled messages, written in the transaction that handled them
    leases      warren_leases     which of several processes does a job that only one may do
                warren_tables     the version of each of these groups

Promises and invariants:

1. `create_tables` creates missing tables, migrates older ones, and leaves the rest alone, in one transaction and one
   process at a time. Tables of a later version, or with the same name from another program, raise `TablesRefused` and
   change nothing.
2. The database compares every deadline with its own clock (`database_time`), so processes need not agree on the time.
   Times are UTC, and are returned with their zone.
3. A lease has a *fence*, a number that grows whenever the lease changes hands. A holder that writes renews the lease
   first, in the same transaction: the row is then locked until the transaction ends, and if the fence has moved nothing
   is written. So a holder that slept beyond its lease cannot write after its successor has begun.

SQLite and PostgreSQL. All of it is SQLAlchemy Core, synchronous: a caller passes a `Connection` or a `Session` with its
own transaction.

Not here: the contents (`client.outbox`, `client.inbox`, `client.receipts`).
"""

from warren.client.tables.connections import Executor, connection_of, insert_unless_there
from warren.client.tables.leases import LEASE_S_MAX, Lease, database_time, release_lease, renew_lease, take_lease
from warren.client.tables.schema import INBOX, LEASES, METADATA, OUTBOX, VERSIONS, check_tables, create_tables

__all__ = [
    "INBOX",
    "LEASES",
    "LEASE_S_MAX",
    "METADATA",
    "OUTBOX",
    "VERSIONS",
    "Executor",
    "Lease",
    "check_tables",
    "connection_of",
    "create_tables",
    "database_time",
    "insert_unless_there",
    "release_lease",
    "renew_lease",
    "take_lease",
]
