"""Exchanges, to read.

Not here: declaring, deleting, publishing.

An exchange as a row, and the types there are.

Not here: its bindings (`views.bindings`).

Bindings, to read.

Not here: making and removing them.

A binding as a row, and the key by which a path names it among those between the same two ends.

The key is the routing key, quoted, and if there are arguments a tilde and a digest of them. Every queue is bound to
the default exchange by its name; nobody made these bindings, so they are made up here.

Not here: making and removing bindings.
"""

import base64
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any
from urllib.parse import quote_plus, unquote_plus

from warren.admin import message_stats
from warren.admin.context import AdminContext
from warren.admin.forwarding import ALONE
from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import ApiResponse, json_response, not_found
from warren.admin.http.router import Resource, in_vhost, manager
from warren.admin.listing.columns import ColumnSelection
from warren.admin.listing.lists import ObjectList, Row, RowBuilder, SharedObjects, full_rows
from warren.admin.listing.responses import list_response, object_response, rows_response
from warren.admin.message_stats import added, sample_spans
from warren.admin.peers import RowKey
from warren.admin.ports import HistoryPort, SampleSpans
from warren.admin.rabbitmq_json import amqp_json
from warren.admin.resources.connection_rows import publishes_by_channel
from warren.broker.model.ports import QueuePort
from warren.broker.routing.exchange_types import EXCHANGE_TYPES
from warren.broker.routing.exchanges import Binding, Exchange
from warren.broker.routing.topology import PREDECLARED, Topology
from warren.broker.vhost import Vhost
from warren.wire.field_tables import Table, encode_table

DEFAULT_IN_PATHS = "amq.default"
"""What the exchange without a name is called where a name must stand."""

_DESCRIPTIONS = {
    "direct": "AMQP direct exchange, as per the AMQP specification",
    "fanout": "AMQP fanout exchange, as per the AMQP specification",
    "headers": "AMQP headers exchange, as per the AMQP specification",
    "topic": "AMQP topic exchange, as per the AMQP specification",
    "x-consistent-hash": "Consistent Hashing Exchange",
    "x-delayed-message": "Delayed Message Exchange.",
}
KNOWN_EVERYWHERE = frozenset(
    {"arguments", "auto_delete", "durable", "internal", "name", "policy", "type", "user_who_performed_action", "vhost"}
)
"""What is agreed about an exchange."""

_PREDECLARED_NAMES = frozenset(name for name, _, _ in PREDECLARED)


class ExchangeRows:
    """Builds rows of exchanges."""

    def __init__(self, history: HistoryPort, spans: SampleSpans) -> None:
        self._history = history
        self._spans = spans

    def row(self, vhost: str, exchange: Exchange) -> dict[str, Any]:
        return self.bare(vhost, exchange) | self.stats(vhost, exchange)

    def stats(self, vhost: str, exchange: Exchange) -> dict[str, Any]:
        """What passed through it, if anything did."""
        row: dict[str, Any] = {}
        key = (vhost, exchange.name)
        counted = message_stats.exchange_counters(exchange)
        message_stats.add_message_stats(row, self._history, "exchange", key, counted, self._spans.messages)
        return row

    def detailed(self, vhost: str, exchange: Exchange) -> dict[str, Any]:
        return {"incoming": [], "outgoing": [], **self.row(vhost, exchange)}

    def bare(self, vhost: str, exchange: Exchange) -> dict[str, Any]:
        """What an exchange is, whatever passes through it."""
        row: dict[str, Any] = {
            "arguments": amqp_json(exchange.arguments),
            "auto_delete": exchange.auto_delete,
            "durable": exchange.durable,
            "internal": exchange.internal,
            "name": exchange.name,
            "type": exchange.type,
            "user_who_performed_action": "rmq-internal" if exchange.name in _PREDECLARED_NAMES else "unknown",
            "vhost": vhost,
        }
        if exchange.policy:
            row["policy"] = exchange.policy
        return row


def exchange_types() -> list[dict[str, Any]]:
    return [{"name": name, "description": _DESCRIPTIONS[name], "enabled": True} for name in sorted(EXCHANGE_TYPES)]


@dataclass(frozen=True)
class BindingFacts:
    """A binding, or what a queue's place at the default exchange would be as one."""

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


def bindings_in(topology: Topology) -> Iterator[BindingFacts]:
    for name in topology.queues:
        yield implicit_binding(topology.vhost, name)
    for exchange in topology.exchanges.values():
        for binding in exchange.outgoing:
            yield binding_facts(topology.vhost, binding)


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
    """Whether a path means this binding by a key; some clients quote it once more, some do not."""
    own = properties_key(facts.routing_key, facts.arguments)
    return key in (own, unquote_plus(own, errors="surrogateescape"))


def _digest(arguments: Table) -> str:
    encoded = encode_table({name: arguments[name] for name in sorted(arguments)})
    return base64.urlsafe_b64encode(zlib.crc32(encoded).to_bytes(4, "big")).decode().rstrip("=")


_ORDER = ("source", "destination", "routing_key")


def routes(context: AdminContext) -> dict[str, Resource]:
    return {
        "/api/exchanges": Resource(manager, {"GET": all_exchanges}),
        "/api/exchanges/{vhost}": Resource(in_vhost, {"GET": exchanges_of_vhost}),
        "/api/exchanges/{vhost}/{name}": Resource(in_vhost, {"GET": one_exchange}),
        "/api/exchanges/{vhost}/{name}/bindings/source": Resource(in_vhost, {"GET": bindings_from}),
        "/api/exchanges/{vhost}/{name}/bindings/destination": Resource(in_vhost, {"GET": bindings_to}),
    }


def exchange_named(vhost: Vhost, name: str) -> Exchange | None:
    """The exchange that a path means."""
    return vhost.topology.exchanges.get("" if name == DEFAULT_IN_PATHS else name)


async def all_exchanges(call: ApiRequest) -> ApiResponse:
    return await _list_exchanges(call, call.entered_vhosts())


async def exchanges_of_vhost(call: ApiRequest) -> ApiResponse:
    return await _list_exchanges(call, [call.vhost()])


async def one_exchange(call: ApiRequest) -> ApiResponse:
    vhost = call.vhost()
    exchange = exchange_named(vhost, call.params["name"])
    if exchange is None:
        raise not_found()
    context = call.context
    row = ExchangeRows(context.history, sample_spans(call.query)).detailed(vhost.name, exchange)
    row["incoming"] = publishes_by_channel(exchange, vhost.name, context.broker, context.facts.name, context.history)
    if call.part is not None:
        return json_response(row)
    for told in (await context.peers.ask_all(call.question(ALONE))).values():
        if told.status == 200:
            part = told.document
            row["incoming"] += part["incoming"]
            if "message_stats" in part:
                row["message_stats"] = added(row.get("message_stats"), part["message_stats"])
    return object_response(call, row)


async def bindings_from(call: ApiRequest) -> ApiResponse:
    vhost = call.vhost()
    exchange = exchange_named(vhost, call.params["name"])
    found = [] if exchange is None else leading_from(vhost.topology, exchange)
    return await rows_response(call, [binding_row(facts) for facts in found], _ORDER)


async def bindings_to(call: ApiRequest) -> ApiResponse:
    vhost = call.vhost()
    exchange = exchange_named(vhost, call.params["name"])
    found = [] if exchange is None else leading_to(vhost.topology, exchange)
    return await rows_response(call, [binding_row(facts) for facts in found], _ORDER)


_Item = tuple[str, str, Exchange]


async def _list_exchanges(call: ApiRequest, vhosts: list[Vhost]) -> ApiResponse:
    rows = ExchangeRows(call.context.history, sample_spans(call.query))
    stats = not call.flag("disable_stats")

    def build(item: _Item) -> Row:
        vhost, _, exchange = item
        return rows.row(vhost, exchange) if stats else rows.bare(vhost, exchange)

    def share(wanted: ColumnSelection) -> RowBuilder[_Item]:
        counts = stats and "message_stats" in wanted
        return lambda item: rows.stats(item[0], item[2]) if counts else {}

    def find(key: RowKey) -> _Item | None:
        vhost = call.context.broker.vhosts.get(key[0])
        exchange = None if vhost is None else vhost.topology.exchanges.get(key[1])
        return None if exchange is None else (key[0], key[1], exchange)

    found = [
        (vhost.name, name, vhost.topology.exchanges[name])
        for vhost in vhosts
        for name in sorted(vhost.topology.exchanges)
    ]
    spread = SharedObjects(_key_of, find, _everywhere, share, build, KNOWN_EVERYWHERE)
    return await list_response(
        call, ObjectList(found, full_rows(build), itemgetter(1), spread=spread if stats else None)
    )


def _key_of(item: _Item) -> RowKey:
    return item[:2]


def _everywhere(item: _Item) -> str:
    """Every node has all exchanges, and counts what its own clients publish to them."""
    return ""


_KINDS = {"q": "queue", "e": "exchange"}
BETWEEN = "/api/bindings/{vhost}/e/{source}/{kind}/{destination}"


def binding_routes(context: AdminContext) -> dict[str, Resource]:
    return {
        "/api/bindings": Resource(manager, {"GET": all_bindings}),
        "/api/bindings/{vhost}": Resource(in_vhost, {"GET": bindings_of_vhost}),
        BETWEEN: Resource(in_vhost, {"GET": all_between}),
        f"{BETWEEN}/{{key}}": Resource(in_vhost, {"GET": one_binding}),
    }


def bindings_between(call: ApiRequest) -> list[BindingFacts]:
    """Those from the exchange of the path to its queue or exchange."""
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
    return await rows_response(call, [binding_row(facts) for facts in bindings_between(call)], ("routing_key",))


async def one_binding(call: ApiRequest) -> ApiResponse:
    for facts in bindings_between(call):
        if has_key(facts, call.params["key"]):
            return object_response(call, binding_row(facts))
    raise not_found()


async def _list_bindings(call: ApiRequest, vhosts: list[Vhost]) -> ApiResponse:
    found = [facts for vhost in vhosts for facts in bindings_in(vhost.topology)]
    found.sort(key=BindingFacts.order)
    return await list_response(call, ObjectList(found, full_rows(binding_row), BindingFacts.name), paginated=False)
