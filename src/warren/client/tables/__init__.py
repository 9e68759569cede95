"""The tables of the reliability kit in a team's own database: what they are, how they come to be, and whose turn it is.

    outbox      warren_outbox     what is to be published, written in the transaction that it tells of
    inbox       warren_inbox      what has been handled, written in the transaction that handled it
    leases      warren_leases     who among many does a job that one must do
                warren_tables     the version of each of these parts

Promises and invariants:

1. `create_tables` makes what is missing, brings older parts up to date, and leaves the rest alone, all in one
   transaction and one process at a time. Tables of a later version, or of somebody else, are a `TablesRefused`; then
   nothing was changed.
2. Every deadline is compared by the database with the database's own clock (`database_time`): processes need not agree
   on the time. Times are UTC, and come back with their zone.
3. A lease has a *fence*, a number that grows whenever the lease changes hands. Whoever writes under a lease renews it
   first, in the same transaction: the row is then locked until that ends, and if the fence has moved nothing is
   written. So a holder that slept through its lease cannot write a word after its successor began.

SQLite and PostgreSQL. All of it is SQLAlchemy Core, synchronous: what a caller passes is a `Connection` or a `Session`
with a transaction of the caller's own.

Not here: what is written into them (`client.outbox`, `client.inbox`, `client.receipts`).
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
