"""Queues, to read.

Names are put in order once for each version of a virtual host's topology, and not for each request.

Not here: declaring, deleting, purging, getting.
"""

from operator import attrgetter
from typing import Any

from warren.admin.cluster.forwarding import ALONE
from warren.admin.cluster.question import Key
from warren.admin.cluster.sums import added
from warren.admin.http.answers import Answer, json_answer
from warren.admin.http.call import Call
from warren.admin.http.faults import not_found
from warren.admin.http.levels import in_vhost, manager
from warren.admin.http.router import Resource
from warren.admin.http.spans import spans_of
from warren.admin.listing.listed import Listed, Row, Shared, whole
from warren.admin.listing.rows import answer_list, answer_object, answer_rows
from warren.admin.station import Station
from warren.admin.views.bindings import binding_row, implicit, leading_to
from warren.admin.views.queues import KNOWN_EVERYWHERE, QueueRows, waiting_consumers
from warren.admin.views.ways import deliveries
from warren.broker.vhost import Vhost
from warren.model.ports import QueuePort
from warren.routing.topology import Topology

_BY_NAME = attrgetter("name")
_WAITING = "waiting_consumers"


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
        self._ordered: dict[str, tuple[Topology, int, list[QueuePort]]] = {}

    async def all(self, call: Call) -> Answer:
        vhosts = call.entered_vhosts()
        if len(vhosts) == 1:
            return await self._list(call, self._in_order(vhosts[0]))
        return await self._list(call, [queue for vhost in vhosts for queue in self._in_order(vhost)])

    async def of_vhost(self, call: Call) -> Answer:
        return await self._list(call, self._in_order(call.vhost()))

    async def one(self, call: Call) -> Answer:
        topology = call.vhost().topology
        queue = topology.queues.get(call.params["name"])
        if queue is None:
            raise not_found()
        rows = self._rows(call)
        if call.flag("disable_stats"):
            return answer_object(call, rows.without_stats(queue))
        peers, own = self._station.peers, self._detailed(queue, rows)
        if call.part is not None:
            return json_answer(own)
        parts: dict[str, Row] = {peers.own: own}
        told = await peers.ask_all(call.question(ALONE))
        parts |= {node: answer.document for node, answer in told.items() if answer.status == 200}
        row = _put_together(parts, rows.home_of(queue), rows.stand_in(queue))
        copies = topology.copying.names_of_copies(queue)
        return answer_object(call, {**row, "copied_by": copies} if copies else row)

    def _detailed(self, queue: QueuePort, rows: QueueRows) -> Row:
        """All that is known here of a queue; in the part of its home, also what it knows of consumers elsewhere."""
        station = self._station
        row = rows.detailed(queue)
        row["deliveries"] = deliveries(queue, station.broker, station.facts.name, station.history)
        real = rows.real(queue)
        if real is not None:
            row[_WAITING] = waiting_consumers(real)
        return row

    def _rows(self, call: Call) -> QueueRows:
        station = self._station
        facts = station.facts
        return QueueRows(facts.name, station.history, facts.now_ms(), spans_of(call.query), station.broker)

    async def _list(self, call: Call, queues: list[QueuePort]) -> Answer:
        rows = self._rows(call)
        spread = Shared(_key_of, self._find, rows.home_of, rows.share, rows.stand_in, KNOWN_EVERYWHERE)
        if not call.flag("disable_stats"):
            return await answer_list(call, Listed(queues, rows.plan, _BY_NAME, rows.columns(), spread))
        if call.flag("enable_queue_totals"):
            return await answer_list(call, Listed(queues, whole(rows.totals), _BY_NAME, rows.columns(), spread))
        return await answer_list(call, Listed(queues, whole(rows.without_stats), _BY_NAME, {"name": _BY_NAME}))

    def _find(self, key: Key) -> QueuePort | None:
        vhost = self._station.broker.vhosts.get(key[0])
        return None if vhost is None else vhost.topology.queues.get(key[1])

    def _in_order(self, vhost: Vhost) -> list[QueuePort]:
        topology = vhost.topology
        known = self._ordered.get(vhost.name)
        if known is not None and known[0] is topology and known[1] == topology.version:
            return known[2]
        queues = sorted(topology.queues.values(), key=_BY_NAME)
        self._ordered[vhost.name] = (topology, int(topology.version), queues)
        return queues


def _key_of(queue: QueuePort) -> Key:
    return (queue.vhost, queue.name)


def _put_together(parts: dict[str, Row], home: str, stand_in: Row) -> Row:
    """One row of what each node knows: the home what it is and has, every node what its own clients do with it."""
    known = [part["ring"] for node, part in parts.items() if "ring" in part and node != home]
    row: dict[str, Any] = {"deliveries": [], "incoming": [], **parts.get(home, stand_in)}
    if "ring" not in row and known:
        # of those that answer, the one that has followed the ring
        row["ring"] = max(known, key=lambda ring: (ring["epoch"], len(ring["story"])))
    waiting = {tuple(found) for found in row.pop(_WAITING, [])}
    consumers: list[Row] = []
    row["deliveries"] = []
    for node, part in sorted(parts.items()):
        for consumer in part.get("consumer_details", []):
            if (node, consumer["consumer_tag"]) in waiting:
                consumer |= {"active": False, "activity_status": "waiting"}
            consumers.append(consumer)
        row["deliveries"] += part.get("deliveries", [])
        if node != home and part.get("message_stats"):
            row["message_stats"] = added(row.get("message_stats"), part["message_stats"])
    row["consumer_details"] = consumers
    return row


async def bindings(call: Call) -> Answer:
    """A queue that is not there has the binding it would have, as in RabbitMQ."""
    topology = call.vhost().topology
    queue = topology.queues.get(call.params["name"])
    found = [implicit(topology.vhost, call.params["name"])] if queue is None else leading_to(topology, queue)
    return await answer_rows(call, [binding_row(facts) for facts in found], ("source", "destination", "routing_key"))
