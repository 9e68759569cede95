"""What a shovel's definition says, once it has passed.

Names of fields that RabbitMQ had before 3.7 (`prefetch-count`, `delete-after`, `add-forward-headers`,
`publish-properties`) mean the same as theirs with `src-` or `dest-` before them, which count if both are there.

Not here: what is wrong with a definition (`shovels.fields`), living by it (`shovels.shovel`).
"""

from dataclasses import dataclass, field
from typing import Final, cast

from warren.bridges.carrying.terms import ON_CONFIRM, PREFETCH, AckMode
from warren.bridges.checking import uri_list
from warren.policy.parameters import Parameter
from warren.wire.values import Table

NEVER: Final = "never"
QUEUE_LENGTH: Final = "queue-length"
RECONNECT_DELAY_S: Final = 5.0
DEFAULT_VHOST: Final = "/"
"""Of a URI that names none, as in RabbitMQ, wherever the shovel itself is defined."""


@dataclass(frozen=True)
class Source:
    """Where messages are taken from: a queue, or an exchange by a queue of the shovel's own."""

    uris: tuple[str, ...]
    queue: str | None = None
    queue_arguments: Table = field(default_factory=dict)
    exchange: str | None = None
    exchange_key: str = ""
    consumer_arguments: Table = field(default_factory=dict)
    prefetch: int = PREFETCH
    delete_after: int | str = NEVER


@dataclass(frozen=True)
class Destination:
    """Where they go. Without a queue and an exchange: to the exchange, and with the key, they were published with."""

    uris: tuple[str, ...]
    queue: str | None = None
    queue_arguments: Table = field(default_factory=dict)
    exchange: str | None = None
    exchange_key: str | None = None
    forward_headers: bool = False
    timestamp_header: bool = False
    properties: Table = field(default_factory=dict)
    mandatory: bool = False
    """Whether what no queue is there for stays at the source, also on its way to an exchange; RabbitMQ has no such."""


@dataclass(frozen=True)
class Definition:
    """One shovel."""

    vhost: str
    name: str
    source: Source
    destination: Destination
    ack_mode: AckMode = ON_CONFIRM
    reconnect_delay_s: float = RECONNECT_DELAY_S


def shovel_of(parameter: Parameter) -> Definition:
    """The definition of a parameter that was not refused."""
    value = _Fields(cast("Table", parameter.value))
    return Definition(
        vhost=parameter.vhost,
        name=parameter.name,
        source=_source(value),
        destination=_destination(value),
        ack_mode=value.choice("ack-mode", ON_CONFIRM),
        reconnect_delay_s=float(cast("float", value.of("reconnect-delay", otherwise=RECONNECT_DELAY_S))),
    )


def _source(value: "_Fields") -> Source:
    after = value.of("src-delete-after", "delete-after", otherwise=NEVER)
    return Source(
        uris=value.uris("src-uri"),
        queue=value.text("src-queue"),
        queue_arguments=value.table("src-queue-args"),
        exchange=value.text("src-exchange"),
        exchange_key=value.text("src-exchange-key") or "",
        consumer_arguments=value.table("src-consumer-args"),
        prefetch=int(cast("int", value.of("src-prefetch-count", "prefetch-count", otherwise=PREFETCH))),
        delete_after=after if isinstance(after, int) else str(after),
    )


def _destination(value: "_Fields") -> Destination:
    return Destination(
        uris=value.uris("dest-uri"),
        queue=value.text("dest-queue"),
        queue_arguments=value.table("dest-queue-args"),
        exchange=value.text("dest-exchange"),
        exchange_key=value.text("dest-exchange-key"),
        forward_headers=bool(value.of("dest-add-forward-headers", "add-forward-headers", otherwise=False)),
        timestamp_header=bool(value.of("dest-add-timestamp-header", "add-timestamp-header", otherwise=False)),
        properties=value.table("dest-publish-properties", "publish-properties"),
        mandatory=bool(value.of("dest-mandatory", otherwise=False)),
    )


class _Fields:
    """A parameter's value, whose fields have the types they should."""

    def __init__(self, value: Table) -> None:
        self._value = value

    def of(self, *names: str, otherwise: object) -> object:
        return next((self._value[name] for name in names if name in self._value), otherwise)

    def text(self, name: str) -> str | None:
        return cast("str | None", self._value.get(name))

    def table(self, *names: str) -> Table:
        # an object that is empty may have been written as a list
        return dict(cast("Table", self.of(*names, otherwise={}) or {}))

    def uris(self, name: str) -> tuple[str, ...]:
        return tuple(uri_list(self._value[name]))

    def choice(self, name: str, otherwise: AckMode) -> AckMode:
        return cast("AckMode", self._value.get(name, otherwise))
