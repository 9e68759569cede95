"""Bindings, to read.

Not here: making and removing them.
"""

from warren.admin.http.answers import Answer
from warren.admin.http.call import Call
from warren.admin.http.faults import not_found
from warren.admin.http.levels import in_vhost, manager
from warren.admin.http.router import Resource
from warren.admin.listing.listed import Listed, whole
from warren.admin.listing.rows import answer_list, answer_object, answer_rows
from warren.admin.resources.exchanges import exchange_named
from warren.admin.station import Station
from warren.admin.views.bindings import BindingFacts, all_in, binding_row, is_called, leading_from
from warren.broker.vhost import Vhost

_KINDS = {"q": "queue", "e": "exchange"}
BETWEEN = "/api/bindings/{vhost}/e/{source}/{kind}/{destination}"


def routes(station: Station) -> dict[str, Resource]:
    return {
        "/api/bindings": Resource(manager, {"GET": all_bindings}),
        "/api/bindings/{vhost}": Resource(in_vhost, {"GET": of_vhost}),
        BETWEEN: Resource(in_vhost, {"GET": between}),
        f"{BETWEEN}/{{key}}": Resource(in_vhost, {"GET": one}),
    }


def bindings_between(call: Call) -> list[BindingFacts]:
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


async def all_bindings(call: Call) -> Answer:
    return await _list(call, call.entered_vhosts())


async def of_vhost(call: Call) -> Answer:
    return await _list(call, [call.vhost()])


async def between(call: Call) -> Answer:
    return await answer_rows(call, [binding_row(facts) for facts in bindings_between(call)], ("routing_key",))


async def one(call: Call) -> Answer:
    for facts in bindings_between(call):
        if is_called(facts, call.params["key"]):
            return answer_object(call, binding_row(facts))
    raise not_found()


async def _list(call: Call, vhosts: list[Vhost]) -> Answer:
    found = [facts for vhost in vhosts for facts in all_in(vhost.topology)]
    found.sort(key=BindingFacts.order)
    return await answer_list(call, Listed(found, whole(binding_row), BindingFacts.name), paginated=False)
