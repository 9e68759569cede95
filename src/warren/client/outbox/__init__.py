"""The outbox: a committed message is published at least once, and in order per key.

    with engine.begin() as transaction:
        transaction.execute(...)                                  what happened
        outbox.add(transaction, b"...", ordering_key="account 7") that it happened

    await Relay(engine, transport).run()                          in a process of its own, or in several

Promises:

1. A row exists if and only if its transaction was committed, and then its message reaches the broker, or its row says
   why not.
2. At least once: a row is marked as sent only after the broker's confirm. A relay killed between the two leaves it
   pending, and it is published again with the same `message_id`; the inbox makes it once.
3. In order per key, repeats aside: a row with an ordering key is published when those before it are confirmed. A
   refused row holds back the later rows of its key, and no others. The order is that of the ids, so it is the order of
   the transactions if those with the same key exclude each other by a lock.
4. One relay of many is active. A relay that lost its lease, however late it wakes, marks nothing.
5. Making a row pending sends it again: same `message_id`, header `x-attempt` one higher.
6. A broker that is unreachable or nacks delays rows and fails none. Only a message that is unroutable, or that the
   broker could never take, is `failed` after its tries.

SQLAlchemy, from the extra `database`, is needed here and nowhere below.

Not here: tables and leases (`client.tables`), exactly-once handling (`client.inbox`), resending messages without a
receipt (`client.receipts`).
"""

from warren.client.outbox.outbox import Outbox
from warren.client.outbox.relay import Relay
from warren.client.outbox.table import RelaySettings

__all__ = ["Outbox", "Relay", "RelaySettings"]
