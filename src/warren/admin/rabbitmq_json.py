"""Values as RabbitMQ's JSON has them: AMQP tables, TLS cipher suites, and constant fields about Erlang.

In definitions, JSON must give back the arguments that it was made of. A table that JSON cannot hold (bytes, text that
is not UTF-8, void, decimals, timestamps, deep nesting) is written twice: in `arguments` as far as JSON goes, for
RabbitMQ and for readers, and whole in `arguments_table`, in AMQP's encoding and base64.

Most tables contain texts, numbers and booleans only and are used unchanged. Fields that describe the Erlang VM have no
counterpart here. Monitoring agents expect numbers there, so the fields have the values of an idle process.

Not here: tables from JSON (`http.documents`), TLS connections (`node.client_sockets`).
"""

import re
from base64 import b64encode
from decimal import Decimal
from typing import Any, Final

from warren.wire.field_tables import Long, Table, Timestamp, encode_table

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


ARGUMENTS: Final = "arguments"
ARGUMENTS_TABLE: Final = "arguments_table"
NESTED_MAX: Final = 50
INTEGER_MAX: Final = 2**63 - 1


def exact_arguments(table: Table) -> dict[str, Any]:
    """The fields of a definition with these arguments."""
    if _is_json(table, 0):
        return {ARGUMENTS: table}
    return {ARGUMENTS: _nearest_json(table, 0), ARGUMENTS_TABLE: b64encode(encode_table(table)).decode()}


def _is_json(value: object, depth: int) -> bool:
    """Whether JSON gives the value back as it is."""
    if isinstance(value, str):
        return _is_text(value)
    if isinstance(value, dict):
        return depth < NESTED_MAX and all(_is_text(name) and _is_json(value[name], depth + 1) for name in value)
    if isinstance(value, list):
        return depth < NESTED_MAX and all(_is_json(item, depth + 1) for item in value)
    return isinstance(value, int | float)


def _is_text(value: str) -> bool:
    return value.isascii() or _readable(value) == value


def _nearest_json(value: object, depth: int) -> Any:
    """The value without the parts that RabbitMQ refuses in JSON: null, and what is nested deeply."""
    if isinstance(value, dict):
        found = {} if depth >= NESTED_MAX else {_readable(name): item for name, item in value.items()}
        return {name: _nearest_json(item, depth + 1) for name, item in found.items() if item is not None}
    if isinstance(value, list):
        items = [] if depth >= NESTED_MAX else value
        return [_nearest_json(item, depth + 1) for item in items if item is not None]
    plain = _json_value(value)
    if isinstance(plain, int):
        # a timestamp may have 64 unsigned bits
        return min(plain, INTEGER_MAX)
    return _readable(plain) if isinstance(plain, str) else plain


def _readable(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


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
