"""Exchanges: paths, rows and changes.

Not here: bindings (`resources.bindings`), publishing (`resources.messages`).
"""

from operator import itemgetter
from typing import Any

from warren.admin import message_stats
from warren.admin.http.documents import arguments, flag, short
from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import (
    ApiResponse,
    bad_request,
    created,
    json_response,
    no_content,
    not_authorised,
    not_found,
)
from warren.admin.http.router import Resource, Routes, in_vhost, manager
from warren.admin.http.schemas import FLAG, TABLE, an_object, one_of
from warren.admin.listing.columns import ColumnSelection
from warren.admin.listing.lists import ObjectList, Row, RowBuilder, SharedObjects, full_rows
from warren.admin.listing.responses import list_response, object_response
from warren.admin.message_stats import added, sample_spans
from warren.admin.peer_requests import peer_documents
from warren.admin.peers import RowKey
from warren.admin.ports import HistoryPort, SampleSpans
from warren.admin.rabbitmq_json import amqp_json
from warren.admin.resources.connection_rows import publishes_by_channel
from warren.admin.resources.user_links import topology_link
from warren.broker.routing.exchange_types import EXCHANGE_TYPES
from warren.broker.routing.exchanges import Exchange
from warren.broker.routing.topology import PREDECLARED
from warren.broker.vhost import Vhost
from warren.wire.methods import (
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
)

DEFAULT_IN_PATHS = "amq.default"
"""The name of the default exchange in paths."""


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
"""The fields of an exchange that every node knows."""


_PREDECLARED_NAMES = frozenset(name for name, _, _ in PREDECLARED)


class ExchangeRows:
    """Builds rows of exchanges."""

    def __init__(self, history: HistoryPort, spans: SampleSpans) -> None:
        self._history = history
        self._spans = spans

    def row(self, vhost: str, exchange: Exchange) -> dict[str, Any]:
        return self.bare(vhost, exchange) | self.stats(vhost, exchange)

    def stats(self, vhost: str, exchange: Exchange) -> dict[str, Any]:
        """Its message counters, if there are any."""
        row: dict[str, Any] = {}
        key = (vhost, exchange.name)
        counted = message_stats.exchange_counters(exchange)
        message_stats.add_message_stats(row, self._history, "exchange", key, counted, self._spans.messages)
        return row

    def detailed(self, vhost: str, exchange: Exchange) -> dict[str, Any]:
        return {"incoming": [], "outgoing": [], **self.row(vhost, exchange)}

    def bare(self, vhost: str, exchange: Exchange) -> dict[str, Any]:
        """A row without statistics."""
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


def routes() -> Routes:
    return {
        "/api/exchanges": Resource(manager, {"GET": all_exchanges}),
        "/api/exchanges/{vhost}": Resource(in_vhost, {"GET": exchanges_of_vhost}),
        "/api/exchanges/{vhost}/{name}": Resource(
            in_vhost,
            {"GET": one_exchange, "PUT": put_exchange, "DELETE": delete_exchange},
            an_object(
                type=one_of("direct", "fanout", "topic", "headers", "x-consistent-hash"),
                durable=FLAG,
                auto_delete=FLAG,
                internal=FLAG,
                arguments=TABLE,
            ),
        ),
    }


def exchange_named(vhost: Vhost, name: str) -> Exchange | None:
    """The exchange that a path names."""
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
    row["incoming"] = await publishes_by_channel(
        exchange, vhost.name, context.broker, context.facts.name, context.history
    )
    if call.part is not None:
        return json_response(row)
    for part in await peer_documents(call):
        row["incoming"] += part["incoming"]
        if "message_stats" in part:
            row["message_stats"] = added(row.get("message_stats"), part["message_stats"])
    return object_response(call, row)


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
    """Every node has all exchanges and counts the publishes of its own clients."""
    return ""


async def put_exchange(call: ApiRequest) -> ApiResponse:
    document = await call.document()
    name = _exchange_named(call)
    kind = document.get("type", "direct")
    if kind not in EXCHANGE_TYPES:
        raise bad_request(f"invalid exchange type '{kind}'")
    declare = ExchangeDeclare(
        exchange=short("exchange", name),
        type=kind,
        durable=flag(document, "durable"),
        auto_delete=flag(document, "auto_delete"),
        internal=flag(document, "internal"),
        arguments=arguments(document),
    )
    async with topology_link(call) as link:
        is_new = name not in call.vhost().topology.exchanges
        await link.ask(declare, ExchangeDeclareOk)
    return created() if is_new else no_content()


async def delete_exchange(call: ApiRequest) -> ApiResponse:
    name = _exchange_named(call)
    if name not in call.vhost().topology.exchanges:
        raise not_found()
    async with topology_link(call) as link:
        await link.ask(ExchangeDelete(name, if_unused=call.flag("if-unused")), ExchangeDeleteOk)
    return no_content()


def _exchange_named(call: ApiRequest) -> str:
    name = call.params["name"]
    if name in ("", DEFAULT_IN_PATHS):
        raise not_authorised("Access refused.")
    return name
