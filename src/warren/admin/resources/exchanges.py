"""Exchanges, to read.

Not here: declaring, deleting, publishing.
"""

from operator import itemgetter

from warren.admin.cluster.forwarding import ALONE
from warren.admin.cluster.question import Key
from warren.admin.cluster.sums import added
from warren.admin.http.answers import Answer, json_answer
from warren.admin.http.call import Call
from warren.admin.http.faults import not_found
from warren.admin.http.levels import in_vhost, manager
from warren.admin.http.router import Resource
from warren.admin.http.spans import spans_of
from warren.admin.listing.columns import Wanted
from warren.admin.listing.listed import Build, Listed, Row, Shared, whole
from warren.admin.listing.rows import answer_list, answer_object, answer_rows
from warren.admin.station import Station
from warren.admin.views.bindings import binding_row, leading_from, leading_to
from warren.admin.views.exchanges import DEFAULT_IN_PATHS, KNOWN_EVERYWHERE, ExchangeRows
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
    if call.part is not None:
        return json_answer(row)
    for told in (await station.peers.ask_all(call.question(ALONE))).values():
        if told.status == 200:
            part = told.document
            row["incoming"] += part["incoming"]
            if "message_stats" in part:
                row["message_stats"] = added(row.get("message_stats"), part["message_stats"])
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


_Item = tuple[str, str, Exchange]


async def _list(call: Call, vhosts: list[Vhost]) -> Answer:
    rows = ExchangeRows(call.station.history, spans_of(call.query))
    stats = not call.flag("disable_stats")

    def build(item: _Item) -> Row:
        vhost, _, exchange = item
        return rows.row(vhost, exchange) if stats else rows.bare(vhost, exchange)

    def share(wanted: Wanted) -> Build[_Item]:
        counts = stats and "message_stats" in wanted
        return lambda item: rows.stats(item[0], item[2]) if counts else {}

    def find(key: Key) -> _Item | None:
        vhost = call.station.broker.vhosts.get(key[0])
        exchange = None if vhost is None else vhost.topology.exchanges.get(key[1])
        return None if exchange is None else (key[0], key[1], exchange)

    found = [
        (vhost.name, name, vhost.topology.exchanges[name])
        for vhost in vhosts
        for name in sorted(vhost.topology.exchanges)
    ]
    spread = Shared(_key_of, find, _everywhere, share, build, KNOWN_EVERYWHERE)
    return await answer_list(call, Listed(found, whole(build), itemgetter(1), spread=spread if stats else None))


def _key_of(item: _Item) -> Key:
    return item[:2]


def _everywhere(item: _Item) -> str:
    """Every node has all exchanges, and counts what its own clients publish to them."""
    return ""
