"""Consuming: a handler is given messages, and what becomes of each of them is decided here.

    listener = Listener(transport, "orders", handle, concurrency=8, retries=Retries(5, backoff(1, 4)))
    await listener.run()

    Transport.subscribe ──▶ Dispatch ──▶ workers ──▶ handler ──▶ ack
                            by key,                     └ failed ──▶ retry queue, parking queue, or rejected
                            by weight

Promises:

- Every message is settled once, after its handler is done with it. Modes: `auto`, by how the handler ended; `manual`,
  by the handler; `none`, by the broker before the handler begins.
- Messages with the same key are handled one after the other, in the order of their queue; others in parallel, no more
  than `concurrency` of them. A message that is tried again by a queue or an exchange loses its place; one that is tried
  again in hand keeps it.
- A message that fails is tried a limited number of times and is then parked. Tries by queues or an exchange are counted
  in a header that outlives this process, tries in hand by the process. On its way it is confirmed where it goes before
  it is acked where it was: it may be doubled and is never lost.
- What cannot be read is parked at once.
- Stopping takes no longer than its deadline, and what is not done by then goes back.

So a handler is given a message at least once, and twice when a connection, a broker or a process dies at the wrong
moment; `client.inbox` makes it once. Order by key holds for one listener; across processes there is
`x-single-active-consumer`, and the groups of streams (`listening.groups`).

Not here: connections and their recovery (`client.recovering`), publishing (`client.template`), handling once
(`client.inbox`), a message that kills its process whenever it is handled, which no header counts.
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
