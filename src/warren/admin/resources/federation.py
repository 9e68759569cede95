"""Links of federation, to read, in the paths of RabbitMQ's federation plugin.

Each node tells of the links it runs.

Not here: upstreams, which are parameters (`changes.policies`); restarting links (`changes.federation`).
"""

from warren.admin.bridges_port import Row
from warren.admin.cluster.forwarding import ALONE
from warren.admin.http.answers import Answer, json_answer
from warren.admin.http.call import Call
from warren.admin.http.levels import monitor
from warren.admin.http.router import Resource
from warren.admin.listing.rows import answer_rows
from warren.admin.station import Station

UP = ("running", "starting")


def routes(station: Station) -> dict[str, Resource]:
    return {
        "/api/federation-links": Resource(monitor, {"GET": links}),
        "/api/federation-links/{vhost}": Resource(monitor, {"GET": links}),
        "/api/federation-links/state/down": Resource(monitor, {"GET": links_down}),
        "/api/federation-links/{vhost}/state/down": Resource(monitor, {"GET": links_down}),
    }


async def links(call: Call) -> Answer:
    """The links of exchanges and queues in the virtual host of the path, or in those the visitor may enter."""
    return await _answer(call, only_down=False)


async def links_down(call: Call) -> Answer:
    """Those of them that are broken."""
    return await _answer(call, only_down=True)


async def _answer(call: Call, *, only_down: bool) -> Answer:
    if call.part is not None:
        return json_answer(call.station.bridges.federation_rows())
    vhosts = [call.vhost().name] if "vhost" in call.params else list(call.station.broker.vhosts)
    seen = set(vhosts).intersection(call.visitor.vhosts)
    rows = [row for row in await _rows(call) if row["vhost"] in seen and not (only_down and row["status"] in UP)]
    return await answer_rows(call, sorted(rows, key=_place))


async def _rows(call: Call) -> list[Row]:
    rows = call.station.bridges.federation_rows()
    told = await call.station.peers.ask_all(call.question(ALONE))
    return rows + [row for answer in told.values() if answer.status == 200 for row in answer.document]


def _place(row: Row) -> list[str]:
    return [str(row.get(name, "")) for name in ("vhost", "type", "exchange", "queue", "upstream", "node")]
