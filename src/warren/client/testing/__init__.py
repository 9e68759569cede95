"""For the tests of programs that use this client: a broker in memory, and every fault between a program and a broker.

    MemoryBroker   a broker without a process: routes, queues, prefetch, redelivery, expiry, limits and dead letters as
                   RabbitMQ has them, its time in the test's hands. `transport()` gives what template, listener and
                   relay stand on
    Faults         what it does wrong on demand, as `broker.faults`: refuse, lose, repeat, delay, block
    FaultProxy     the same for real brokers, between a program and its broker's port: cut, stall, delay, close after
                   so many bytes, in either direction

Promises: the same suite of tests holds for memory, for Warren and for RabbitMQ (tests/client/test_transports*.py); what
memory does not know, such as streams and quorum queues, it refuses to declare. A memory broker may be used by several
threads. pytest is needed only by `testing.fixtures`, which a test suite enables as a plugin.

Not here: how the seam is done over AMQP (`client.recovering`).
"""

from warren.client.testing.broker import Faults, MemoryBroker
from warren.client.testing.proxy import FaultProxy
from warren.client.testing.queues import StoredMessage
from warren.client.testing.transport import MemoryTransport

__all__ = ["FaultProxy", "Faults", "MemoryBroker", "MemoryTransport", "StoredMessage"]
