"""Exchanges, to read.

Not here: declaring, deleting, publishing.
"""

from operator import itemgetter

from warren.admin.http.answers import Answer
from warren.admin.http.call import Call
from warren.admin.http.faults import not_found
from warren.admin.http.levels import in_vhost, manager
from warren.admin.http.router import Resource
from warren.admin.http.spans import spans_of
from warren.admin.listing.rows import Listed, Row, answer_list, answer_object, answer_rows, whole
from warren.admin.station import Station
from warren.admin.views.bindings import binding_row, leading_from, leading_to
from warren.admin.views.exchanges import DEFAULT_IN_PATHS, ExchangeRows
from warren.admin.views.ways import incoming
from warren.broker.vhost import Vhost
from warren.routing.exchange import Exchange

_ORDER = ("source", "destination", "routing_key")


def routes(station: Station) -> dict[str, Resource]:
    return {
        "/api/exchanges": Resource(manager, {"GET": all_exchanges}),
        "/api/exchanges/{vhost}": Resource(in_vhost, {"GET": of_vhost}),
        "/api/exchanges/{vhost}/{name}": Resource(in_vhost, {"GET": one}),
        "/api/exchanges/{vhost}/{name}/bindings/source": Resource(in_vhost, {"GET": bindings_from}),
        "/api/exchanges/{vhost}/{name}/bindings/destination": Resource(in_vhost, {"GET": bindings_to}),
    }


def exchange_named(vhost: Vhost, name: str) -> Exchange | None:
    """The exchange that a path means."""
    return vhost.topology.exchanges.get("" if name == DEFAULT_IN_PATHS else name)


async def all_exchanges(call: Call) -> Answer:
    return await _list(call, call.entered_vhosts())


async def of_vhost(call: Call) -> Answer:
    return await _list(call, [call.vhost()])


async def one(call: Call) -> Answer:
    vhost = call.vhost()
    exchange = exchange_named(vhost, call.params["name"])
    if exchange is None:
        raise not_found()
    station = call.station
    row = ExchangeRows(station.history, spans_of(call.query)).detailed(vhost.name, exchange)
    row["incoming"] = incoming(exchange, vhost.name, station.broker, station.facts.name, station.history)
    return answer_object(call, row)


async def bindings_from(call: Call) -> Answer:
    vhost = call.vhost()
    exchange = exchange_named(vhost, call.params["name"])
    found = [] if exchange is None else leading_from(vhost.topology, exchange)
    return await answer_rows(call, [binding_row(facts) for facts in found], _ORDER)


async def bindings_to(call: Call) -> Answer:
    vhost = call.vhost()
    exchange = exchange_named(vhost, call.params["name"])
    found = [] if exchange is None else leading_to(vhost.topology, exchange)
    return await answer_rows(call, [binding_row(facts) for facts in found], _ORDER)


async def _list(call: Call, vhosts: list[Vhost]) -> Answer:
    rows = ExchangeRows(call.station.history, spans_of(call.query))
    stats = not call.flag("disable_stats")

    def build(item: tuple[str, str, Exchange]) -> Row:
        vhost, _, exchange = item
        return rows.row(vhost, exchange) if stats else rows.bare(vhost, exchange)

    found = [
        (vhost.name, name, vhost.topology.exchanges[name])
        for vhost in vhosts
        for name in sorted(vhost.topology.exchanges)
    ]
    return await answer_list(call, Listed(found, whole(build), itemgetter(1)))
