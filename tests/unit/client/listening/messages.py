"""Deliveries made by hand, and their acks and nacks."""

from dataclasses import dataclass, field

from warren.errors import FRAME_ERROR, ConnectionFault
from warren.wire.field_tables import Table
from warren.wire.properties import Properties


@dataclass(eq=False)
class HandMade:
    """An `Incoming` that records its ack or nack."""

    body: bytes = b"body"
    properties: Properties = field(default_factory=Properties)
    exchange: str = "shop"
    routing_key: str = "orders.new"
    redelivered: bool = False
    is_ours: bool = True
    answers: list[str] = field(default_factory=list)

    @property
    def headers(self) -> Table:
        return self.properties.headers or {}

    def ack(self) -> None:
        self.answers.append("ack")

    def nack(self, *, requeue: bool = True) -> None:
        self.answers.append("requeue" if requeue else "reject")


class Unreadable(HandMade):
    """Its properties are no properties."""

    def __getattribute__(self, name: str) -> object:
        if name == "properties":
            raise ConnectionFault(FRAME_ERROR, "cannot decode")
        return super().__getattribute__(name)


def with_headers(**headers: object) -> HandMade:
    return HandMade(properties=Properties(headers={name.replace("_", "-"): value for name, value in headers.items()}))
