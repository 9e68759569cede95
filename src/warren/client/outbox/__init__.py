"""From a transaction to the broker: what is committed is published, at least once and in order per key.

    with engine.begin() as transaction:
        transaction.execute(...)                                  what happened
        outbox.add(transaction, b"...", ordering_key="account 7") that it happened

    await Relay(engine, transport).run()                          in a process of its own, or in several

Promises:

1. A row is there if and only if its transaction was committed, and then its message reaches the broker, or its row
   says why not.
2. At least once: a row is marked as sent only after the broker's confirm. Whoever is killed between the two leaves it
   pending, and it is published again with the same `message_id`; the inbox makes it once.
3. In order per key, repeats aside: a row with an ordering key is published when those before it are confirmed. One that
   is refused holds back the later rows of its key, and no others. The order is that of the ids, so it is the order of
   the transactions if those with the same key exclude each other, by a lock on what the key stands for.
4. One relay is active among many. One that lost its lease, however late it wakes, marks nothing.
5. A row is sent again by making it pending, which is enough: same `message_id`, header `x-attempt` one higher.
6. A broker that is away, or in such a state that it nacks, delays rows and fails none. Only what it cannot route, or
   could never take, is `failed` after its tries.

SQLAlchemy, from the extra `database`, is needed here and nowhere below.

Not here: the tables and leases (`client.tables`), once instead of at least once (`client.inbox`), resending what nobody
acknowledged (`client.receipts`).
"""

from warren.client.outbox.outbox import Outbox
from warren.client.outbox.relay import Relay
from warren.client.outbox.table import RelaySettings

__all__ = ["Outbox", "Relay", "RelaySettings"]
