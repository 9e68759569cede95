"""A transport over AMQP that keeps itself alive, on Warren and on RabbitMQ.

    transport = await recovering.open("amqp://app:secret@one,two,three/%2F?connection_attempts=5")

**Promises.**

- `open` returns when the broker has let the program in, or says in one sentence why it did not.
- When a connection ends it is made again: to the next host, with growing delays, until it works. Only a login that
  every host refuses for a minute ends the trying. Then the layout is declared again, subscriptions are taken up, and
  publishes that were not decided go out once more, in their order, before any that came later.
- A publish that was confirmed is never sent again. One that was not is sent until it is decided or its caller has no
  more time; so it may arrive twice, and each caller learns what is certain: the broker has it (`None`), has it not
  (`rejected`, `not_sent`), or may have it (`unknown`).
- Settling a message whose connection has ended does nothing: the broker delivers it again.
- `close` ends within its deadline, and what it leaves undecided is told as such.

**Invariants.** Publishing and consuming have a connection each, so that a broker that takes no publishes still takes
acks. Everything on a connection from here finds the layout declared.

    transport ── sending ── call          what is published, and what became of it
        │           └─────── line ── backoff, layouts, notices      a connection, made again
        └── subscription, fetching, incoming ── judging             what is consumed

Not here: the calls themselves (`client.transport`); keeping messages beyond the life of the process (`client.outbox`).
"""

from warren.client.recovering.connection import (
    ConnectionDown,
    ConnectionUp,
    GivenUp,
    LayoutRefused,
    Notice,
    ReconnectFailed,
    SubscriptionDown,
    SubscriptionUp,
)
from warren.client.recovering.transport import RecoveringTransport, open

__all__ = [
    "ConnectionDown",
    "ConnectionUp",
    "GivenUp",
    "LayoutRefused",
    "Notice",
    "ReconnectFailed",
    "RecoveringTransport",
    "SubscriptionDown",
    "SubscriptionUp",
    "open",
]
