"""A shovel's definition: its fields, their checks, and loops.

RabbitMQ's field names from before 3.7 (`prefetch-count`, `delete-after`, `add-forward-headers`, `publish-properties`)
mean the same as the names with `src-` or `dest-`, which win if both are there.

RabbitMQ accepts definitions that fail later: a queue without a name, values out of AMQP's range, a shovel onto its own
queue. They are refused here.

**Loops.** A shovel whose destination leads back to its source queue would move the same messages for ever. The
destination leads back if it is that queue, by name or through the default exchange, or the exchange and key that the
messages came with. That is a loop only if both ends are the same virtual host of one broker. Some URIs show it (both
without a host, or with the same host and port); for others the two connections are compared once they are open
(`bridges.connections`). Loops through other routing keys, or through several shovels, are not detected.

Not here: running a shovel (`bridges.shovels`), federation's hop counts (`bridges.federation.headers`).
"""

from dataclasses import dataclass, field
from typing import Final, cast

from warren.bridges.connections import Place, is_same_vhost, uri_places
from warren.bridges.field_checks import (
    DefinitionField,
    arguments,
    boolean,
    field_errors,
    one_of,
    quoted,
    seconds,
    short_text,
    timestamp,
    uri_list,
    uris,
    whole_number,
)
from warren.bridges.transfer_options import NO_ACK, ON_CONFIRM, PREFETCH, AckMode
from warren.broker.policies.parameters import Parameter, ParameterComponent
from warren.client.connection import Connection
from warren.client.errors import ClientError
from warren.wire.field_tables import Table

NEVER: Final = "never"
QUEUE_LENGTH: Final = "queue-length"
RECONNECT_DELAY_S: Final = 5.0
DEFAULT_VHOST: Final = "/"
"""The virtual host of a URI that has none, as in RabbitMQ: not the virtual host of the shovel."""


@dataclass(frozen=True)
class ShovelSource:
    """The source: a queue, or an exchange through the shovel's own queue."""

    uris: tuple[str, ...]
    queue: str | None = None
    queue_arguments: Table = field(default_factory=dict)
    exchange: str | None = None
    exchange_key: str = ""
    consumer_arguments: Table = field(default_factory=dict)
    prefetch: int = PREFETCH
    delete_after: int | str = NEVER


@dataclass(frozen=True)
class ShovelDestination:
    """The destination. Without a queue and an exchange, messages keep the exchange and the key they came with."""

    uris: tuple[str, ...]
    queue: str | None = None
    queue_arguments: Table = field(default_factory=dict)
    exchange: str | None = None
    exchange_key: str | None = None
    forward_headers: bool = False
    timestamp_header: bool = False
    properties: Table = field(default_factory=dict)
    mandatory: bool = False
    """Whether unroutable messages stay at the source, also for an exchange. RabbitMQ has no such field."""


@dataclass(frozen=True)
class ShovelDefinition:
    """One shovel."""

    vhost: str
    name: str
    source: ShovelSource
    destination: ShovelDestination
    ack_mode: AckMode = ON_CONFIRM
    reconnect_delay_s: float = RECONNECT_DELAY_S
    definer: str | None = ""


def parse_shovel(parameter: Parameter) -> ShovelDefinition:
    """The definition of a parameter that passed the checks."""
    value = _Fields(cast("Table", parameter.value))
    return ShovelDefinition(
        vhost=parameter.vhost,
        name=parameter.name,
        source=_source(value),
        destination=_destination(value),
        ack_mode=value.choice("ack-mode", ON_CONFIRM),
        reconnect_delay_s=float(cast("float", value.of("reconnect-delay", otherwise=RECONNECT_DELAY_S))),
        definer=parameter.definer,
    )


def _source(value: "_Fields") -> ShovelSource:
    after = value.of("src-delete-after", "delete-after", otherwise=NEVER)
    return ShovelSource(
        uris=value.uris("src-uri"),
        queue=value.text("src-queue"),
        queue_arguments=value.table("src-queue-args"),
        exchange=value.text("src-exchange"),
        exchange_key=value.text("src-exchange-key") or "",
        consumer_arguments=value.table("src-consumer-args"),
        prefetch=int(cast("int", value.of("src-prefetch-count", "prefetch-count", otherwise=PREFETCH))),
        delete_after=after if isinstance(after, int) else str(after),
    )


def _destination(value: "_Fields") -> ShovelDestination:
    return ShovelDestination(
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
    """A parameter's value, with fields of the right types."""

    def __init__(self, value: Table) -> None:
        self._value = value

    def of(self, *names: str, otherwise: object) -> object:
        return next((self._value[name] for name in names if name in self._value), otherwise)

    def text(self, name: str) -> str | None:
        return cast("str | None", self._value.get(name))

    def table(self, *names: str) -> Table:
        # an empty object may have been written as a list
        return dict(cast("Table", self.of(*names, otherwise={}) or {}))

    def uris(self, name: str) -> tuple[str, ...]:
        return tuple(uri_list(self._value[name]))

    def choice(self, name: str, otherwise: AckMode) -> AckMode:
        return cast("AckMode", self._value.get(name, otherwise))


DEFAULT_EXCHANGE: Final = ""


class ShovelLoop(ClientError):
    """The shovel would move the same messages for ever, so it is not started."""


def loop_error(shovel: ShovelDefinition) -> list[str]:
    """Why a shovel is refused whose URIs lead to one place; "" if it is not."""
    if not is_loop_in_one_vhost(shovel):
        return []
    shared = _places(shovel.source.uris) & _places(shovel.destination.uris)
    return [_sentence(shovel)] if shared else []


def is_loop_in_one_vhost(shovel: ShovelDefinition) -> bool:
    """Whether the shovel is a loop if both ends are the same virtual host."""
    source, destination = shovel.source, shovel.destination
    if destination.queue is not None:
        return destination.queue == source.queue
    exchange, key = destination.exchange, destination.exchange_key
    if source.queue is None:
        return exchange in (None, source.exchange) and key in (None, source.exchange_key)
    # the default exchange routes to the queue named by the key, and a message published that way came with this key
    return exchange in (None, DEFAULT_EXCHANGE) and key in (None, source.queue)


async def refuse_loop(shovel: ShovelDefinition, source: Connection, destination: Connection) -> None:
    """Raises `ShovelLoop` if the two connections make a loop."""
    if is_loop_in_one_vhost(shovel) and await is_same_vhost(source, destination):
        raise ShovelLoop(_sentence(shovel))


def _sentence(shovel: ShovelDefinition) -> str:
    source = shovel.source
    what = f"queue '{source.queue}'" if source.queue is not None else f"exchange '{source.exchange}'"
    return (
        f"a shovel from {what} to itself would carry the same messages for ever; "
        "name another queue, exchange, virtual host or broker as its destination"
    )


def _places(uris: tuple[str, ...]) -> set[Place]:
    return {place for uri in uris for place in uri_places(uri, DEFAULT_VHOST)}


PROTOCOL: Final = "amqp091"


class ShovelComponent(ParameterComponent):
    """Parameters of the component `shovel`."""

    def refusals(self, parameter: Parameter) -> list[str]:
        return shovel_errors(parameter)


def shovel_errors(parameter: Parameter) -> list[str]:
    """All errors of a shovel's definition."""
    value = {} if parameter.value == [] else parameter.value
    if not isinstance(value, dict):
        return [f"{parameter.name} not a list {quoted(value)}"]
    reasons = _ends(value) + field_errors(parameter.name, FIELDS, value)
    return reasons or loop_error(parse_shovel(parameter))


def _ends(value: dict[str, object]) -> list[str]:
    """Errors of two fields together."""
    reasons = []
    if "src-queue" in value and "src-exchange" in value:
        reasons.append("Cannot specify 'src-exchange' and 'src-queue'")
    if "src-queue" not in value and "src-exchange" not in value:
        reasons.append("Must specify 'src-exchange' or 'src-queue'")
    if "dest-queue" in value and "dest-exchange" in value:
        reasons.append("Cannot specify 'dest-exchange' and 'dest-queue'")
    after = value.get("src-delete-after", value.get("delete-after"))
    if value.get("ack-mode") == NO_ACK and isinstance(after, int):
        reasons.append("Cannot specify 'no-ack' and numerical 'delete-after'")
    if value.get("dest-mandatory") is True and value.get("ack-mode", ON_CONFIRM) != ON_CONFIRM:
        reasons.append("Cannot specify 'dest-mandatory' and an 'ack-mode' that does not wait for confirms")
    return reasons


def _protocol(name: str, value: object) -> list[str]:
    if value == PROTOCOL:
        return []
    return [f'{name} should be "{PROTOCOL}", the one protocol there is here, actually was {quoted(value)}']


def _name(name: str, value: object) -> list[str]:
    return [f"{name} should be a name, actually was empty"] if value == "" else short_text(name, value)


def _delete_after(name: str, value: object) -> list[str]:
    if value in (NEVER, QUEUE_LENGTH) or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return []
    wanted = f'a number greater than or equal to 0, "{NEVER}" or "{QUEUE_LENGTH}"'
    return [f"{name} should be {wanted}, actually was {quoted(value)}"]


def _publish_properties(name: str, value: object) -> list[str]:
    return field_errors(name, PUBLISH_PROPERTIES, value)


_prefetch = whole_number(0, 65_535)

# in the order of RabbitMQ's error texts
PUBLISH_PROPERTIES: Final = (
    DefinitionField("content_type", short_text),
    DefinitionField("content_encoding", short_text),
    DefinitionField("delivery_mode", whole_number(0, 255)),
    DefinitionField("priority", whole_number(0, 255)),
    DefinitionField("correlation_id", short_text),
    DefinitionField("reply_to", short_text),
    DefinitionField("expiration", short_text),
    DefinitionField("message_id", short_text),
    DefinitionField("timestamp", timestamp),
    DefinitionField("type", short_text),
    DefinitionField("user_id", short_text),
    DefinitionField("app_id", short_text),
    DefinitionField("cluster_id", short_text),
)
FIELDS: Final = (
    DefinitionField("src-protocol", _protocol),
    DefinitionField("dest-protocol", _protocol),
    DefinitionField("reconnect-delay", seconds),
    DefinitionField("ack-mode", one_of("no-ack", "on-publish", "on-confirm")),
    DefinitionField("src-uri", uris, mandatory=True),
    DefinitionField("src-exchange", _name),
    DefinitionField("src-exchange-key", short_text),
    DefinitionField("src-queue", _name),
    DefinitionField("src-queue-args", arguments),
    DefinitionField("src-consumer-args", arguments),
    DefinitionField("prefetch-count", _prefetch),
    DefinitionField("src-prefetch-count", _prefetch),
    DefinitionField("delete-after", _delete_after),
    DefinitionField("src-delete-after", _delete_after),
    DefinitionField("dest-uri", uris, mandatory=True),
    DefinitionField("dest-exchange", short_text),
    DefinitionField("dest-exchange-key", short_text),
    DefinitionField("dest-queue", _name),
    DefinitionField("dest-queue-args", arguments),
    DefinitionField("add-forward-headers", boolean),
    DefinitionField("add-timestamp-header", boolean),
    DefinitionField("dest-add-forward-headers", boolean),
    DefinitionField("dest-add-timestamp-header", boolean),
    DefinitionField("publish-properties", _publish_properties),
    DefinitionField("dest-publish-properties", _publish_properties),
    DefinitionField("dest-mandatory", boolean),
)
