"""Tools for the tests of programs that use this client: a broker in memory, and faults on demand.

    MemoryBroker   Warren's broker core without a process, its clock controlled by the test. `transport()` makes the
                   transport for templates, listeners and relays
    Faults         the faults of a memory broker, as `broker.faults`: refuse, lose, repeat, delay, block
    FaultProxy     faults of real connections: a proxy in front of a broker's port that cuts, stalls, delays, or closes
                   after a number of bytes, in either direction

Promises: one suite of tests holds for memory, Warren and RabbitMQ (tests/client/test_transports*.py). A memory broker
refuses queue arguments that the documentation does not name, such as those of streams. Several threads may use one
memory broker. Only `testing.fixtures` needs pytest; a test suite enables it as a plugin.

This package is the one part of the client that imports the broker.

Not here: the transport over AMQP (`client.recovering`).
"""

from warren.client.testing.broker import MemoryBroker, StoredMessage
from warren.client.testing.proxy import FaultProxy
from warren.client.testing.transport import Faults, MemoryTransport

__all__ = ["FaultProxy", "Faults", "MemoryBroker", "MemoryTransport", "StoredMessage"]
