"""Shovels: connecting both ends, declaring, transferring, and the status rows.

A queue that the definition names is declared durable if it is missing, and used as it is otherwise. An exchange must
exist. A shovel from an exchange has its own queue, which goes with the connection: messages published while the shovel
is not connected are not kept for it.

Properties and headers are published as they came, byte for byte, unless the definition sets properties, a timestamp
header, or the list `x-shovelled`, whose first item is the last shovel. A client's value of that header that is no list
moves to `x-invalid-headers`, as in RabbitMQ.

Status rows have RabbitMQ's fields, and three more: why the shovel broke (`reason`), how many messages it has moved
(`forwarded`), and how many may have arrived twice (`uncertain`).

Not here: starting runs (`bridges.supervisor`), acks (`bridges.settlement`).
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from warren.bridges.bridge import Bridge, BridgeRun
from warren.bridges.connections import connect_first
from warren.bridges.host import BridgeHost
from warren.bridges.shovel_definition import (
    DEFAULT_VHOST,
    QUEUE_LENGTH,
    ShovelDefinition,
    ShovelDestination,
    parse_shovel,
    refuse_loop,
)
from warren.bridges.supervisor import RUNNING, BridgeWorker
from warren.bridges.transfer import transfer
from warren.bridges.transfer_options import (
    NO_ACK,
    ON_CONFIRM,
    ON_PUBLISH,
    Rewrite,
    RewrittenMessage,
    TransferOptions,
    raw_properties,
)
from warren.broker.policies.parameters import Parameter
from warren.client.channel import DeclaredQueue
from warren.client.connection import Connection
from warren.client.errors import ChannelClosed, ClientError
from warren.client.machine.deliveries import Delivery
from warren.wire.field_tables import Long, Table
from warren.wire.properties import Properties, decode_properties, edit_headers, encode_properties
from warren.wire.property_scan import PropertyScan

SHOVELLED: Final = "x-shovelled"
SHOVELLED_AT: Final = "x-shovelled-timestamp"
INVALID_HEADERS: Final = "x-invalid-headers"
_FLAGS_AT: Final = 12
_CONTENT_TYPE, _CONTENT_ENCODING, _HEADERS = 0x8000, 0x4000, 0x2000


def shovel_rewrite(shovel: ShovelDefinition, cluster_name: str, source_uri: str, destination_uri: str) -> Rewrite:
    """The rewrite of one run. The URIs are the ones that answered, without passwords."""
    destination = shovel.destination
    stamp = _stamp(shovel, cluster_name, source_uri, destination_uri) if destination.forward_headers else None
    is_plain = stamp is None and not destination.timestamp_header and not destination.properties
    exchange, key = _route(destination)

    def rewrite(delivery: Delivery) -> RewrittenMessage:
        properties = raw_properties(delivery) if is_plain else _edited(delivery, destination, stamp)
        return RewrittenMessage(
            delivery.exchange if exchange is None else exchange,
            delivery.routing_key if key is None else key,
            properties,
            delivery.body,
        )

    return rewrite


def _route(destination: ShovelDestination) -> tuple[str | None, str | None]:
    """Exchange and key; None means those the message came with."""
    if destination.queue is not None:
        return "", destination.queue
    return destination.exchange, destination.exchange_key


def _stamp(shovel: ShovelDefinition, cluster_name: str, source_uri: str, destination_uri: str) -> Table:
    stamp: Table = {
        "shovelled-by": cluster_name,
        "shovel-type": "dynamic",
        "shovel-name": shovel.name,
        "shovel-vhost": shovel.vhost,
        "src-uri": source_uri,
        "dest-uri": destination_uri,
    }
    return stamp | {name.replace("_", "-"): value for name, value in endpoint_names(shovel).items()}


def endpoint_names(shovel: ShovelDefinition) -> dict[str, str]:
    """The queues and exchanges of a definition under RabbitMQ's field names, without unset ones."""
    source, destination = shovel.source, shovel.destination
    found = {
        "src_queue": source.queue,
        "src_exchange": source.exchange,
        "src_exchange_key": None if source.exchange is None else source.exchange_key,
        "dest_queue": destination.queue,
        "dest_exchange": destination.exchange,
        "dest_exchange_key": destination.exchange_key if destination.queue is None else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _edited(delivery: Delivery, destination: ShovelDestination, stamp: Table | None) -> bytes:
    """Flags and properties in wire format, with the additions of the definition."""
    payload = delivery.header_payload
    added: Table = {}
    if stamp is not None:
        added |= _way(delivery.headers, stamp)
    if destination.timestamp_header:
        added[SHOVELLED_AT] = Long(int(time.time()))
    if added:
        payload = edit_headers(payload, [], added)
    if destination.properties:
        return _with_properties(payload, destination.properties)
    return payload[_FLAGS_AT:]


def _way(headers: Table, stamp: Table) -> Table:
    before = headers.get(SHOVELLED, [])
    if isinstance(before, list):
        return {SHOVELLED: [stamp, *before]}
    others = headers.get(INVALID_HEADERS)
    invalid: Table = dict(others) if isinstance(others, dict) else {}
    listed = invalid.get(SHOVELLED)
    invalid[SHOVELLED] = [before, *(listed if isinstance(listed, list) else [])]
    return {INVALID_HEADERS: invalid, SHOVELLED: [stamp]}


def _with_properties(payload: bytes, wanted: Table) -> bytes:
    """Replace some properties. The headers keep their bytes, because a decoded table loses the integer widths."""
    scan = PropertyScan()
    scan.scan(payload, 0, len(payload))
    table = payload[int(scan.headers_start) - 4 : int(scan.headers_end)] if int(scan.flags) & _HEADERS else b""
    fields = dict(decode_properties(payload, 0, len(payload)).fields()) | wanted | {"headers": None}
    return _with_table(encode_properties(_properties(fields)), table)


def _properties(fields: Table) -> Properties:
    properties = Properties()
    for name, value in fields.items():
        setattr(properties, name, int(value) if isinstance(value, float) else value)
    return properties


def _with_table(encoded: bytes, table: bytes) -> bytes:
    """Insert the bytes of a header table into properties that were encoded without headers."""
    if not table:
        return encoded
    flags = int.from_bytes(encoded[:2])
    at = 2
    for flag in (_CONTENT_TYPE, _CONTENT_ENCODING):
        if flags & flag:
            at += 1 + encoded[at]
    return (flags | _HEADERS).to_bytes(2) + encoded[2:at] + table + encoded[at:]


COMPONENT: Final = "shovel"
NOT_FOUND: Final = 404


def shovel_key(vhost: str, name: str) -> str:
    return f"{COMPONENT}:{vhost}:{name}"


@dataclass(frozen=True)
class Shovel(Bridge):
    """A shovel defined by a parameter."""

    definition: ShovelDefinition

    @property
    def key(self) -> str:
        return shovel_key(self.definition.vhost, self.definition.name)

    @property
    def reconnect_delay_s(self) -> float:
        return self.definition.reconnect_delay_s

    def describe(self) -> dict[str, object]:
        return {"kind": COMPONENT, "vhost": self.definition.vhost, "name": self.definition.name}

    async def live(self, run: BridgeRun) -> None:
        definition, host = self.definition, run.host
        shown = f"Shovel {definition.name}"
        with _at_endpoint("source"):
            source = await connect_first(host, definition.source.uris, DEFAULT_VHOST, shown, definition.definer)
        async with source.connection as taking:
            with _at_endpoint("destination"):
                destination = await connect_first(
                    host, definition.destination.uris, DEFAULT_VHOST, shown, definition.definer
                )
            async with destination.connection as giving:
                await refuse_loop(definition, taking, giving)
                with _at_endpoint("destination"):
                    await self._prepare(giving)
                with _at_endpoint("source"):
                    queue = await self._source_queue(taking)
                run.is_up(
                    src_uri=source.uri,
                    src_protocol="amqp091",
                    dest_protocol="amqp091",
                    dest_uri=destination.uri,
                    **endpoint_names(definition),
                )
                rewrite = shovel_rewrite(definition, host.cluster_name, source.uri, destination.uri)
                await transfer(taking, queue.name, giving, rewrite, self._options(queue, run), run)
        await clear_finished(host, self)

    async def _prepare(self, giving: Connection) -> None:
        destination = self.definition.destination
        if destination.queue is not None:
            await _ensure_queue(giving, destination.queue, destination.queue_arguments)
        elif destination.exchange:
            # declare the destination before taking anything from the source
            async with await giving.channel() as channel:
                await channel.declare_exchange(destination.exchange, passive=True)

    async def _source_queue(self, taking: Connection) -> DeclaredQueue:
        source = self.definition.source
        if source.queue is not None:
            return await _ensure_queue(taking, source.queue, source.queue_arguments)
        async with await taking.channel() as channel:
            own = await channel.declare_queue(exclusive=True, arguments=source.queue_arguments)
            await channel.bind_queue(own.name, source.exchange or "", source.exchange_key)
            return own

    def _options(self, queue: DeclaredQueue, run: BridgeRun) -> TransferOptions:
        definition = self.definition
        after = definition.source.delete_after
        limit = None
        if after == QUEUE_LENGTH:
            limit = queue.messages
        elif isinstance(after, int):
            # earlier runs count
            done = run.stats.confirmed if definition.ack_mode == ON_CONFIRM else run.stats.published
            limit = max(0, after - done)
        # without acks, more messages than wanted would arrive and be lost
        counted = limit is not None and definition.ack_mode == NO_ACK
        return TransferOptions(
            ack_mode=ON_PUBLISH if counted else definition.ack_mode,
            prefetch=definition.source.prefetch,
            consumer_arguments=definition.source.consumer_arguments,
            mandatory=definition.destination.queue is not None or definition.destination.mandatory,
            limit=limit,
        )


async def clear_finished(host: BridgeHost, shovel: Shovel) -> None:
    """Clear the shovel's parameter, unless it was set anew meanwhile: then it is another shovel."""
    for parameter in host.parameters(COMPONENT):
        if shovel in _parsed([parameter]):
            await host.forget(parameter)


class ShovelEndpointNotReady(ClientError):
    """One end of a shovel is missing, or differs from the definition."""

    retriable = True


@contextmanager
def _at_endpoint(end: str) -> Iterator[None]:
    """The error, with the end at which it happened."""
    try:
        yield
    except (ClientError, OSError) as trouble:
        raise ShovelEndpointNotReady(f"{end}: {trouble}") from trouble


class Shovels:
    """The bridges that parameters of the component `shovel` define."""

    def wanted(self, host: BridgeHost) -> list[Shovel]:
        return list(_parsed(host.parameters(COMPONENT)))


def _parsed(parameters: Iterable[Parameter]) -> Iterator[Shovel]:
    """Skip definitions that a node of another version accepted and this one cannot read; the others must run."""
    for parameter in parameters:
        with suppress(KeyError, TypeError, ValueError):
            yield Shovel(parse_shovel(parameter))


async def _ensure_queue(connection: Connection, name: str, arguments: Table) -> DeclaredQueue:
    asking = await connection.channel()
    try:
        found = await asking.declare_queue(name, passive=True)
    except ChannelClosed as refusal:
        if refusal.code != NOT_FOUND:
            raise
    else:
        await asking.close()
        return found
    async with await connection.channel() as channel:
        return await channel.declare_queue(name, durable=True, arguments=arguments)


Row = dict[str, object]


def shovel_status_rows(node: str, keepers: Iterable[BridgeWorker]) -> list[Row]:
    """One row for each shovel of a node."""
    return [_row(node, keeper.bridge, keeper) for keeper in keepers if isinstance(keeper.bridge, Shovel)]


def _row(node: str, shovel: Shovel, keeper: BridgeWorker) -> Row:
    row: Row = {
        "node": node,
        "timestamp": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(keeper.since)),
        "name": shovel.definition.name,
        "vhost": shovel.definition.vhost,
        "type": "dynamic",
        "state": keeper.state,
    }
    if keeper.state == RUNNING:
        row |= keeper.facts
    elif keeper.reason:
        row["reason"] = keeper.reason
    stats = keeper.stats
    forwarded = stats.confirmed if shovel.definition.ack_mode == ON_CONFIRM else stats.published
    return row | {"forwarded": forwarded, "uncertain": stats.uncertain}
