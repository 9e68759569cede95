"""Values as RabbitMQ's JSON has them: AMQP tables, TLS cipher suites, and constant fields about Erlang.

Most tables contain texts, numbers and booleans only and are used unchanged. Fields that describe the Erlang VM have no
counterpart here. Monitoring agents expect numbers there, so the fields have the values of an idle process.

Not here: tables from JSON (`http.documents`), TLS connections (`node.client_sockets`).
"""

import re
from decimal import Decimal
from typing import Any, Final

from warren.wire.field_tables import Long, Table, Timestamp

_PLAIN = (str, int, float)


def amqp_json(table: Table) -> dict[str, Any]:
    for value in table.values():
        if not isinstance(value, _PLAIN):
            return {name: _json_value(item) for name, item in table.items()}
    return table


def _json_value(value: object) -> Any:
    if isinstance(value, dict):
        return {name: _json_value(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_json_value(item) for item in value]
    if isinstance(value, Timestamp):
        return value.seconds
    if isinstance(value, Long):
        return value.value
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return value


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
"""Clients compare these versions. They do not describe the program that runs."""

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


_ANY: Final = "any"
_AEAD: Final = "aead"
_MODERN = re.compile(r"TLS_(?P<cipher>.+)_(?P<hash>SHA\d+)")
_AES = re.compile(r"AES(\d+)")


def suite_words(name: str) -> tuple[str, str, str]:
    """Key exchange, cipher and hash of a suite: `ECDHE-RSA-AES256-GCM-SHA384` or `TLS_AES_256_GCM_SHA384`."""
    modern = _MODERN.fullmatch(name)
    if modern is not None:
        return _ANY, modern["cipher"].lower(), _AEAD
    parts = name.split("-")
    exchange = [part for part in parts[:2] if part in ("DHE", "ECDHE", "RSA", "ECDSA", "PSK")]
    rest = [_AES.sub(r"AES_\1", part) for part in parts[len(exchange) :]]
    hashed = rest.pop() if rest and rest[-1].startswith("SHA") else ""
    cipher = "_".join(rest).lower()
    authenticated = cipher.endswith(("gcm", "ccm", "ccm8", "poly1305"))
    if not authenticated and cipher.startswith("aes"):
        cipher += "_cbc"
    return "_".join(exchange or ["RSA"]).lower(), cipher, _AEAD if authenticated else hashed.lower()
