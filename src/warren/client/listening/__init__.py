"""Consuming: a listener gives messages to a handler and settles them by its result.

    listener = Listener(transport, "orders", handle, concurrency=8, retries=Retries(5, backoff(1, 4)))
    await listener.run()

    Transport.subscribe ──▶ Dispatch ──▶ workers ──▶ handler ──▶ ack
                            by key,                     └ failed ──▶ retry queue, parking queue, or rejected
                            by weight

Promises:

- Every message is settled once, after its handler. Modes: `auto`, by how the handler ended; `manual`, by the handler;
  `none`, by the broker before the handler begins.
- Messages with the same key are handled one after the other, in the order of their queue; others in parallel, at most
  `concurrency` of them. A message retried through a queue or an exchange loses its place; one retried in hand keeps it.
- A message that fails is tried a limited number of times and then parked. Tries through queues or an exchange are
  counted in a header that survives the process, tries in hand by the process. A moved message is confirmed at its
  destination before it is acked at its origin: it may be duplicated and is never lost.
- A message that cannot be read is parked at once.
- Stopping takes no longer than its deadline, and unfinished messages are requeued.

So a handler gets a message at least once, and twice when a connection, a broker or a process dies at the wrong moment;
`client.inbox` makes it once. Order by key holds within one listener; across processes use `x-single-active-consumer` or
stream groups (`listening.subscriptions`).

Not here: connections and recovery (`client.recovering`), publishing (`client.template`), handling once
(`client.inbox`). A message that kills its process each time is not counted by any header.
"""

from warren.client.listening.arrival import Arrival
from warren.client.listening.blocking import Program
from warren.client.listening.handler import Acknowledge, Handler, Unwanted
from warren.client.listening.listener import Listener, header_key
from warren.client.listening.puller import MessageGroup, Puller
from warren.client.listening.requester import Requester
from warren.client.listening.retries import (
    ImmediateAck,
    RejectAndDontRequeue,
    Retries,
    backoff,
    parking_queue,
    retry_queue,
)
from warren.client.listening.subscriptions import Filter, StreamReading, group_layout, group_queue, routed, tagged

__all__ = [
    "Acknowledge",
    "Arrival",
    "Filter",
    "Handler",
    "ImmediateAck",
    "Listener",
    "MessageGroup",
    "Program",
    "Puller",
    "RejectAndDontRequeue",
    "Requester",
    "Retries",
    "StreamReading",
    "Unwanted",
    "backoff",
    "group_layout",
    "group_queue",
    "header_key",
    "parking_queue",
    "retry_queue",
    "routed",
    "tagged",
]
