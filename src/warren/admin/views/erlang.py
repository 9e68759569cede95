"""Fields of RabbitMQ that tell of Erlang's machine, and have no counterpart here.

Monitoring agents read them and expect a number of a kind, so they are there: zero, or what an idle process has.

Not here: anything that is measured.
"""

from typing import Any

GARBAGE_COLLECTION: dict[str, Any] = {
    "fullsweep_after": 65535,
    "max_heap_size": 0,
    "min_bin_vheap_size": 46422,
    "min_heap_size": 233,
    "minor_gcs": 0,
}

NO_RATE: dict[str, Any] = {"rate": 0.0}

ERLANG_VERSION = "25.2.3"
ERLANG_FULL_VERSION = "Erlang/OTP 25 [erts-13.1.5] [source] [64-bit] [smp:2:2] [ds:2:2:10] [async-threads:1] [jit:ns]"
"""Clients compare these; of the machine that really runs, `erlang_version` says nothing."""

METRICS_GC_QUEUE_LENGTH: dict[str, int] = dict.fromkeys(
    (
        "connection_closed",
        "channel_closed",
        "consumer_deleted",
        "exchange_deleted",
        "queue_deleted",
        "vhost_deleted",
        "node_node_deleted",
        "channel_consumer_deleted",
    ),
    0,
)
