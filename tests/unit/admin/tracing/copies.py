"""Copies of the Firehose, as behind the recorded files of RabbitMQ 3.10.8's tracing plugin (`recorded`).

Not here: what is expected of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from warren.wire.method_stream import ReceivedMethod
from warren.wire.methods import BasicDeliver
from warren.wire.properties import Properties, encode_header_payload

RECORDED = Path(__file__).with_name("recorded")

ALL_PROPERTIES: dict[str, object] = {
    "cluster_id": "clu",
    "app_id": "app",
    "user_id": "guest",
    "type": "typ",
    "timestamp": 1_700_000_000,
    "message_id": "mid",
    "expiration": "60000",
    "reply_to": "rep",
    "correlation_id": "corr",
    "priority": 3,
    "delivery_mode": 2,
    "headers": {
        "s": "str",
        "i": 5,
        "big": 1099511627776,
        "neg": -3,
        "d": Decimal("1.5"),
        "b": True,
        "n": None,
        "t": {"k": "v"},
        "l": [1, "a"],
        "by": b"\xff\x00",
    },
    "content_encoding": "utf-8",
    "content_type": "text/plain",
}


@dataclass(frozen=True)
class Copy:
    """A message published to the queues `routed`, or received from `queue`."""

    at: str
    body: bytes
    exchange: str = ""
    key: str = "tq"
    routed: tuple[str, ...] | None = None
    queue: str = ""
    properties: Mapping[str, object] | None = None
    connection: str = "127.0.0.1:51196 -> 127.0.0.1:5681"
    user: str = "guest"

    @property
    def at_ms(self) -> int:
        return round(datetime.fromisoformat(f"2026-11-15T{self.at}+00:00").timestamp() * 1000)

    def heard(self) -> ReceivedMethod:
        is_publish = self.routed is not None
        headers: dict[str, object] = {
            "exchange_name": self.exchange,
            "routing_keys": [self.key],
            "properties": dict(self.properties or {}),
            "node": "s1@localhost",
            **({} if is_publish else {"redelivered": 0}),
            "vhost": "traced",
            "connection": self.connection,
            "channel": 1,
            "user": self.user,
            **({"routed_queues": list(self.routed or ())} if is_publish else {}),
        }
        properties = Properties()
        properties.headers = headers
        key = f"publish.{self.exchange}" if is_publish else f"deliver.{self.queue}"
        heard = ReceivedMethod(1, BasicDeliver("ctag", 1, False, "amq.rabbitmq.trace", key))
        heard.header = encode_header_payload(properties, len(self.body))
        heard.body = self.body
        return heard


HTTP_LINK = "<s1@localhost.1794735498.13575.1>"

RECORDED_COPIES = [
    Copy("09:51:50.014", b"hello\nworld", "tx", "rk", ("tq", "tq2"), properties=ALL_PROPERTIES),
    Copy("09:51:50.015", b"bin \xff\x00 bytes", routed=("tq",)),
    Copy("09:51:50.015", "é".encode(), routed=("tq",)),
    Copy("09:51:50.314", b"off", "tx", "rk", queue="tq"),
    Copy("09:51:50.315", b"off", "tx", "rk", queue="tq2"),
    Copy("09:51:50.315", b"hello\nworld", "tx", "rk", queue="tq2", properties=ALL_PROPERTIES),
    Copy("09:51:50.318", b"via http", routed=("tq",), connection=HTTP_LINK),
]
