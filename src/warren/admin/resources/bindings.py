"""Bindings: paths, rows and changes.

A path names a binding between two ends by its properties key: the quoted routing key and, if the binding has arguments,
a tilde and a digest of them. Every queue is bound to the default exchange by its name. The broker stores no such
bindings, so their rows are made here.

Not here: how messages follow bindings (`broker.routing`).
"""

import base64
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, quote_plus, unquote_plus

from warren.admin.http.documents import arguments, short, text
from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import (
    ApiResponse,
    no_content,
    not_authorised,
    not_found,
)
from warren.admin.http.router import Resource, Routes, in_vhost, manager
from warren.admin.http.schemas import TABLE, TEXT, an_object
from warren.admin.listing.lists import ObjectList, full_rows, in_slices
from warren.admin.listing.responses import list_response, object_response, rows_response
from warren.admin.rabbitmq_json import amqp_json
from warren.admin.resources.exchanges import DEFAULT_IN_PATHS, exchange_named
from warren.admin.resources.user_links import topology_link
from warren.broker.model.ports import QueuePort
from warren.broker.routing.exchanges import Binding, Exchange
from warren.broker.routing.topology import Topology
from warren.broker.vhost import Vhost
from warren.wire.field_tables import Table, encode_table
from warren.wire.methods import (
    ExchangeBind,
    ExchangeBindOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    QueueBind,
    QueueBindOk,
    QueueUnbind,
    QueueUnbindOk,
)


@dataclass(frozen=True)
class BindingFacts:
    """A binding, or a queue's implicit binding to the default exchange."""

    vhost: str
    source: str
    destination: str
    destination_type: str
    routing_key: str
    arguments: Table

    def order(self) -> tuple[str, str, str, str]:
        return (self.vhost, self.source, self.destination, self.routing_key)

    def name(self) -> str:
        return self.routing_key


def binding_facts(vhost: str, binding: Binding) -> BindingFacts:
    kind = "exchange" if isinstance(binding.destination, Exchange) else "queue"
    source, destination = binding.source.name, binding.destination.name
    return BindingFacts(vhost, source, destination, kind, binding.routing_key, binding.arguments)


def implicit_binding(vhost: str, queue: str) -> BindingFacts:
    return BindingFacts(vhost, "", queue, "queue", queue, {})


async def bindings_in(topology: Topology) -> list[BindingFacts]:
    """Of a moment; the facts are made in slices."""
    bindings = [binding for exchange in topology.exchanges.values() for binding in exchange.outgoing]
    found = [implicit_binding(topology.vhost, name) async for name in in_slices(list(topology.queues))]
    return found + [binding_facts(topology.vhost, binding) async for binding in in_slices(bindings)]


def leading_to(topology: Topology, destination: QueuePort | Exchange) -> Iterator[BindingFacts]:
    if not isinstance(destination, Exchange):
        yield implicit_binding(topology.vhost, destination.name)
    for binding in topology.bindings_of(destination):
        yield binding_facts(topology.vhost, binding)


def leading_from(topology: Topology, source: Exchange) -> Iterator[BindingFacts]:
    if source is topology.default:
        for name in topology.queues:
            yield implicit_binding(topology.vhost, name)
    for binding in source.outgoing:
        yield binding_facts(topology.vhost, binding)


def binding_row(facts: BindingFacts) -> dict[str, Any]:
    return {
        "source": facts.source,
        "vhost": facts.vhost,
        "destination": facts.destination,
        "destination_type": facts.destination_type,
        "routing_key": facts.routing_key,
        "arguments": amqp_json(facts.arguments),
        "properties_key": properties_key(facts.routing_key, facts.arguments),
    }


def properties_key(routing_key: str, arguments: Table) -> str:
    quoted = quote_plus(routing_key, errors="surrogateescape").replace("~", "%7E")
    if arguments:
        return f"{quoted}~{_digest(arguments)}"
    return quoted or "~"


def has_key(facts: BindingFacts, key: str) -> bool:
    """Whether the key in a path means this binding; some clients quote it twice."""
    own = properties_key(facts.routing_key, facts.arguments)
    return key in (own, unquote_plus(own, errors="surrogateescape"))


def _digest(arguments: Table) -> str:
    encoded = encode_table({name: arguments[name] for name in sorted(arguments)})
    return base64.urlsafe_b64encode(zlib.crc32(encoded).to_bytes(4, "big")).decode().rstrip("=")


_ORDER = ("source", "destination", "routing_key")


_KINDS = {"q": "queue", "e": "exchange"}


BETWEEN = "/api/bindings/{vhost}/e/{source}/{kind}/{destination}"


def routes() -> Routes:
    return {
        "/api/bindings": Resource(manager, {"GET": all_bindings}),
        "/api/bindings/{vhost}": Resource(in_vhost, {"GET": bindings_of_vhost}),
        BETWEEN: Resource(in_vhost, {"GET": all_between, "POST": bind}, an_object(routing_key=TEXT, arguments=TABLE)),
        f"{BETWEEN}/{{key}}": Resource(in_vhost, {"GET": one_binding, "DELETE": unbind}),
        "/api/queues/{vhost}/{name}/bindings": Resource(in_vhost, {"GET": bindings_of_queue}),
        "/api/exchanges/{vhost}/{name}/bindings/source": Resource(in_vhost, {"GET": bindings_from}),
        "/api/exchanges/{vhost}/{name}/bindings/destination": Resource(in_vhost, {"GET": bindings_to}),
    }


def bindings_between(call: ApiRequest) -> list[BindingFacts]:
    """Bindings from the exchange in the path to its queue or exchange."""
    vhost = call.vhost()
    kind = _KINDS.get(call.params["kind"])
    if kind is None:
        raise not_found()
    source = exchange_named(vhost, call.params["source"])
    if source is None:
        return []
    destination = call.params["destination"]
    from_source = leading_from(vhost.topology, source)
    return [facts for facts in from_source if (facts.destination, facts.destination_type) == (destination, kind)]


async def all_bindings(call: ApiRequest) -> ApiResponse:
    return await _list_bindings(call, call.entered_vhosts())


async def bindings_of_vhost(call: ApiRequest) -> ApiResponse:
    return await _list_bindings(call, [call.vhost()])


async def all_between(call: ApiRequest) -> ApiResponse:
    return await rows_response(call, map(binding_row, list(bindings_between(call))), ("routing_key",))


async def one_binding(call: ApiRequest) -> ApiResponse:
    for facts in bindings_between(call):
        if has_key(facts, call.params["key"]):
            return object_response(call, binding_row(facts))
    raise not_found()


async def bindings_of_queue(call: ApiRequest) -> ApiResponse:
    """A queue that does not exist has its binding to the default exchange, as in RabbitMQ."""
    topology = call.vhost().topology
    queue = topology.queues.get(call.params["name"])
    found = [implicit_binding(topology.vhost, call.params["name"])] if queue is None else leading_to(topology, queue)
    return await rows_response(call, map(binding_row, list(found)), _ORDER)


async def bindings_from(call: ApiRequest) -> ApiResponse:
    vhost = call.vhost()
    exchange = exchange_named(vhost, call.params["name"])
    found = [] if exchange is None else leading_from(vhost.topology, exchange)
    return await rows_response(call, map(binding_row, list(found)), _ORDER)


async def bindings_to(call: ApiRequest) -> ApiResponse:
    vhost = call.vhost()
    exchange = exchange_named(vhost, call.params["name"])
    found = [] if exchange is None else leading_to(vhost.topology, exchange)
    return await rows_response(call, map(binding_row, list(found)), _ORDER)


async def _list_bindings(call: ApiRequest, vhosts: list[Vhost]) -> ApiResponse:
    found = [facts for vhost in vhosts for facts in await bindings_in(vhost.topology)]
    found.sort(key=BindingFacts.order)
    return await list_response(call, ObjectList(found, full_rows(binding_row), BindingFacts.name), paginated=False)


async def bind(call: ApiRequest) -> ApiResponse:
    """Bind. The header `location` has the path of the binding, also if it existed."""
    document = await call.document()
    key, values = short("routing_key", _routing_key(document)), arguments(document)
    source, destination = short("exchange", _source(call)), short("destination", call.params["destination"])
    async with topology_link(call) as link:
        if call.params["kind"] == "q":
            await link.ask(QueueBind(destination, source, key, arguments=values), QueueBindOk)
        elif call.params["kind"] == "e":
            await link.ask(ExchangeBind(destination, source, key, arguments=values), ExchangeBindOk)
        else:
            raise not_found()
    where = f"{quote(destination, safe='')}/{quote(properties_key(key, values), safe='~')}"
    return ApiResponse(201, headers={"location": where})


async def unbind(call: ApiRequest) -> ApiResponse:
    _source(call)
    found = next((facts for facts in bindings_between(call) if has_key(facts, call.params["key"])), None)
    if found is None:
        raise not_found()
    async with topology_link(call) as link:
        if found.destination_type == "queue":
            gone = QueueUnbind(found.destination, found.source, found.routing_key, found.arguments)
            await link.ask(gone, QueueUnbindOk)
        else:
            unbound = ExchangeUnbind(found.destination, found.source, found.routing_key, arguments=found.arguments)
            await link.ask(unbound, ExchangeUnbindOk)
    return no_content()


def _routing_key(document: dict[str, object]) -> str:
    """A number is taken as its digits: rabbitmqadmin's users write `routing_key=5`."""
    value = document.get("routing_key", "")
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else text(document, "routing_key")


def _source(call: ApiRequest) -> str:
    """The exchange to bind to. Nothing can be bound to the default exchange."""
    name = call.params["source"]
    if name in ("", DEFAULT_IN_PATHS):
        raise not_authorised("Access refused.")
    return name
