"""A transport over AMQP that recovers by itself, on Warren and on RabbitMQ.

    transport = await recovering.open("amqp://app:secret@one,two,three/%2F?connection_attempts=5")

**Promises.**

- `open` returns when the broker has accepted the login, or raises a one-sentence error.
- A connection that ends is made again: to the next host, with growing delays, until it works. Only a login that every
  host refuses for a minute is final. Then the layout is declared again, subscriptions are resumed, and undecided
  publishes are resent in order, before any later ones.
- A confirmed publish is never sent again. An unconfirmed one is resent until it is decided or its caller's time is
  over, so it may arrive twice. Each caller learns what is certain: the broker has it (`None`), does not have it
  (`rejected`, `not_sent`), or may have it (`unknown`).
- Settling a message after its connection has ended has no effect: the broker redelivers it.
- `close` ends within its deadline, and reports undecided publishes as such.

**Invariants.** Publishing and consuming have a connection each, so that acks go through while the broker blocks
publishes. The layout is declared on a connection before anything else uses it.

    transport ── sender ── publish_call      publishes and their outcomes
        │           └─────── connection, layouts      a connection that is made again
        └── subscription, incoming      deliveries

Not here: the interface (`client.transport`); storing messages beyond the life of the process (`client.outbox`).
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
