"""Queues, to read.

Names are put in order once for each version of a virtual host's topology, and not for each request.

Not here: declaring, deleting, purging, getting.
"""

from operator import attrgetter
from typing import cast

from warren.admin.http.answers import Answer
from warren.admin.http.call import Call
from warren.admin.http.faults import not_found
from warren.admin.http.levels import in_vhost, manager
from warren.admin.http.router import Resource
from warren.admin.http.spans import spans_of
from warren.admin.listing.rows import Listed, answer_list, answer_object, answer_rows, whole
from warren.admin.station import Station
from warren.admin.views.bindings import binding_row, implicit, leading_to
from warren.admin.views.queues import QUEUE_COLUMNS, QueueRows
from warren.admin.views.ways import deliveries
from warren.broker.vhost import Vhost
from warren.queue.queue import Queue
from warren.routing.topology import Topology

_BY_NAME = attrgetter("name")


def routes(station: Station) -> dict[str, Resource]:
    queues = Queues(station)
    return {
        "/api/queues": Resource(manager, {"GET": queues.all}),
        "/api/queues/{vhost}": Resource(in_vhost, {"GET": queues.of_vhost}),
        "/api/queues/{vhost}/{name}": Resource(in_vhost, {"GET": queues.one}),
        "/api/queues/{vhost}/{name}/bindings": Resource(in_vhost, {"GET": bindings}),
    }


class Queues:
    """Lists of queues."""

    def __init__(self, station: Station) -> None:
        self._station = station
        # by virtual host: its topology and the version at which these were in order
        self._ordered: dict[str, tuple[Topology, int, list[Queue]]] = {}

    async def all(self, call: Call) -> Answer:
        vhosts = call.entered_vhosts()
        if len(vhosts) == 1:
            return await self._list(call, self._in_order(vhosts[0]))
        return await self._list(call, [queue for vhost in vhosts for queue in self._in_order(vhost)])

    async def of_vhost(self, call: Call) -> Answer:
        return await self._list(call, self._in_order(call.vhost()))

    async def one(self, call: Call) -> Answer:
        queue = call.vhost().topology.queues.get(call.params["name"])
        if not isinstance(queue, Queue):
            raise not_found()
        rows, station = self._rows(call), call.station
        if call.flag("disable_stats"):
            return answer_object(call, rows.without_stats(queue))
        row = rows.detailed(queue)
        row["deliveries"] = deliveries(queue, station.broker, station.facts.name, station.history)
        return answer_object(call, row)

    def _rows(self, call: Call) -> QueueRows:
        station = self._station
        facts, connections = station.facts, station.broker.connections
        return QueueRows(facts.name, station.history, facts.now_ms(), spans_of(call.query), connections)

    async def _list(self, call: Call, queues: list[Queue]) -> Answer:
        rows = self._rows(call)
        if not call.flag("disable_stats"):
            return await answer_list(call, Listed(queues, rows.plan, _BY_NAME, QUEUE_COLUMNS))
        build = rows.totals if call.flag("enable_queue_totals") else rows.without_stats
        return await answer_list(call, Listed(queues, whole(build), _BY_NAME, QUEUE_COLUMNS))

    def _in_order(self, vhost: Vhost) -> list[Queue]:
        topology = vhost.topology
        known = self._ordered.get(vhost.name)
        if known is not None and known[0] is topology and known[1] == topology.version:
            return known[2]
        queues = cast(list[Queue], sorted(topology.queues.values(), key=_BY_NAME))
        self._ordered[vhost.name] = (topology, int(topology.version), queues)
        return queues


async def bindings(call: Call) -> Answer:
    """A queue that is not there has the binding it would have, as in RabbitMQ."""
    topology = call.vhost().topology
    queue = topology.queues.get(call.params["name"])
    found = [implicit(topology.vhost, call.params["name"])] if queue is None else leading_to(topology, queue)
    return await answer_rows(call, [binding_row(facts) for facts in found], ("source", "destination", "routing_key"))
