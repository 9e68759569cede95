"""Shovels, to read, in the paths of RabbitMQ's shovel plugin.

Each node tells of the shovels it runs. One that is defined and that no node tells of is on its way.

Not here: their definitions, which are parameters (`changes.policies`); ending and restarting them (`changes.shovels`).
"""

from warren.admin.bridges_port import Row
from warren.admin.cluster.forwarding import ALONE
from warren.admin.http.answers import Answer, json_answer
from warren.admin.http.call import Call
from warren.admin.http.faults import not_found
from warren.admin.http.levels import monitor
from warren.admin.http.router import Resource
from warren.admin.listing.rows import answer_object, answer_rows
from warren.admin.station import Station

COMPONENT = "shovel"
RUNNING = "running"


def routes(station: Station) -> dict[str, Resource]:
    return {
        "/api/shovels": Resource(monitor, {"GET": shovels}),
        "/api/shovels/{vhost}": Resource(monitor, {"GET": shovels}),
        "/api/shovels/vhost/{vhost}/{name}": Resource(monitor, {"GET": one_shovel}),
    }


async def shovels(call: Call) -> Answer:
    """The shovels in the virtual host of the path, or in those the visitor may enter: how each of them stands."""
    if call.part is not None:
        return json_answer(call.station.bridges.shovel_rows())
    vhosts = [call.vhost().name] if "vhost" in call.params else list(call.station.broker.vhosts)
    seen = set(vhosts).intersection(call.visitor.vhosts)
    return await answer_rows(call, [row for row in await _rows(call) if row["vhost"] in seen], ("vhost", "name"))


async def one_shovel(call: Call) -> Answer:
    """How one shovel stands."""
    if call.part is not None:
        return json_answer(call.station.bridges.shovel_rows())
    wanted = (call.vhost().name, call.params["name"])
    for row in await _rows(call):
        if (row["vhost"], row["name"]) == wanted and row["vhost"] in call.visitor.vhosts:
            return answer_object(call, row)
    raise not_found()


async def _rows(call: Call) -> list[Row]:
    """Of each that is defined what the node that runs it says; of two that run it for a moment one counts."""
    rows = call.station.bridges.shovel_rows()
    told = await call.station.peers.ask_all(call.question(ALONE))
    rows += [row for answer in told.values() if answer.status == 200 for row in answer.document]
    rows.sort(key=lambda row: row["state"] == RUNNING)
    known = {(row["vhost"], row["name"]): row for row in rows}
    defined = call.station.broker.policies.parameters.values()
    return [
        known.get((one.vhost, one.name)) or _coming(call, one.vhost, one.name)
        for one in defined
        if one.component == COMPONENT
    ]


def _coming(call: Call, vhost: str, name: str) -> Row:
    row: Row = {"node": call.station.facts.name, "timestamp": "", "name": name, "vhost": vhost, "type": "dynamic"}
    return row | {"state": "starting", "forwarded": 0, "uncertain": 0}
