"""The tables, as SQLAlchemy sees them. Rows may as well be written in plain SQL: what can have a default has one.

| column of the outbox      | what it says                                                                             |
|---------------------------|------------------------------------------------------------------------------------------|
| `id`                      | the order; ids of transactions that ran side by side may become visible in any order     |
| `business_id`             | the message's `message_id`, the same however often it is sent                            |
| `kind`                    | `message`; `confirmation` or `reversal` of one; `receipt` for one of somebody else's     |
| `ordering_key`            | rows with the same one go in the order of their ids; empty: no order is wanted           |
| `status`                  | `pending`, `sent`, `done` (there is a receipt), `refused` (by who received it), `failed`,|
|                           | `confirming` or `reversing` (another row does that), `reversed`                          |
| `attempt`                 | how often it was published                                                               |
| `refusals`                | how often the broker has refused it since it became pending                              |
| `due_at`                  | pending: not before; sent: the receipt is expected by then, also if made pending again   |
| `resends`                 | how often it was sent again because there was no receipt                                 |
| `compensation`            | what is done if none comes: `confirm`, `reverse`, or nothing but an alert                |
| `settles`                 | the business id of the row that this one confirms or reverses                            |
| `alerted_at`              | failed: when somebody was told                                                           |
| `refused_at`              | refused, or failed after that: when who received it said so                              |

| column of the inbox       | what it says                                                                             |
|---------------------------|------------------------------------------------------------------------------------------|
| `outcome`                 | `done`; `refused`; `taken_back`, after it was done or in place of it                     |
| `digest`                  | what tells it from another message with the same id; none: it is taken for any such      |

Not here: how they are made and brought up to date (`tables.versions`).
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    false,
    text,
)

from warren.client.tables.column_types import Counted, Money, UtcTime

METADATA = MetaData()

OUTBOX = Table(
    "warren_outbox",
    METADATA,
    Column("id", Counted, Identity(), primary_key=True),
    Column("business_id", String(255), nullable=False, unique=True),
    Column("kind", String(20), nullable=False, server_default="message"),
    Column("ordering_key", String(255), nullable=False, server_default=""),
    Column("exchange", String(255), nullable=False, server_default=""),
    Column("routing_key", String(255), nullable=False, server_default=""),
    Column("properties", Text, nullable=False, server_default="{}"),
    Column("body", LargeBinary, nullable=False),
    Column("status", String(20), nullable=False, server_default="pending"),
    Column("attempt", Integer, nullable=False, server_default=text("0")),
    Column("refusals", Integer, nullable=False, server_default=text("0")),
    Column("wants_receipt", Boolean, nullable=False, server_default=false()),
    Column("amount", Money),
    Column("currency", String(3)),
    Column("created_at", UtcTime),
    Column("sent_at", UtcTime),
    Column("due_at", UtcTime),
    Column("done_at", UtcTime),
    Column("last_error", Text),
    Column("resends", Integer, nullable=False, server_default=text("0")),
    Column("compensation", String(20), nullable=False, server_default=""),
    Column("settles", String(255)),
    Column("alerted_at", UtcTime),
    Column("refused_at", UtcTime),
    # an id is never given twice, not even after its row was cleaned away
    sqlite_autoincrement=True,
)

# each has a few of the many rows, so that those that are through with cost nothing
for _name, _columns, _where in (
    ("pending", [OUTBOX.c.id], "status = 'pending'"),
    ("held", [OUTBOX.c.ordering_key], "sent_at IS NULL AND (status = 'failed' OR due_at IS NOT NULL)"),
    ("due", [OUTBOX.c.status, OUTBOX.c.due_at], "due_at IS NOT NULL"),
    ("open", [OUTBOX.c.status, OUTBOX.c.id], "status IN ('failed', 'refused', 'confirming', 'reversing')"),
    ("alarming", [OUTBOX.c.id], "status = 'failed' AND alerted_at IS NULL"),
    ("settling", [OUTBOX.c.settles], "settles IS NOT NULL"),
):
    Index(f"warren_outbox_{_name}", *_columns, postgresql_where=text(_where), sqlite_where=text(_where))

INBOX = Table(
    "warren_inbox",
    METADATA,
    Column("consumer", String(255), primary_key=True),
    Column("business_id", String(255), primary_key=True),
    Column("received_at", UtcTime, nullable=False),
    Column("amount", Money),
    Column("currency", String(3)),
    Column("attempt", Integer, nullable=False, server_default=text("1")),
    Column("outcome", String(20), nullable=False, server_default="done"),
    Column("digest", String(32)),
    Index("warren_inbox_received_at", "consumer", "received_at"),
)

LEASES = Table(
    "warren_leases",
    METADATA,
    Column("name", String(255), primary_key=True),
    Column("holder", String(255), nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("expires_at", UtcTime, nullable=False),
)

VERSIONS = Table(
    "warren_tables",
    METADATA,
    Column("part", String(255), primary_key=True),
    Column("version", Integer, nullable=False),
)
