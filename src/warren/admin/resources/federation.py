"""Federation links, in the paths of RabbitMQ's federation plugin.

Each node reports the links that it runs.

Not here: upstreams, which are parameters (`resources.policies`).
"""

from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import ApiResponse, json_response, no_content, not_found
from warren.admin.http.router import Resource, Routes, monitor, policymaker
from warren.admin.listing.responses import rows_response
from warren.admin.peer_requests import at_node, peer_documents
from warren.admin.ports import BridgeRow

UP = ("running", "starting")


def routes() -> Routes:
    return {
        "/api/federation-links": Resource(monitor, {"GET": links}),
        "/api/federation-links/{vhost}": Resource(monitor, {"GET": links}),
        "/api/federation-links/state/down": Resource(monitor, {"GET": links_down}),
        "/api/federation-links/{vhost}/state/down": Resource(monitor, {"GET": links_down}),
        "/api/federation-links/vhost/{vhost}/{id}/{node}/restart": Resource(policymaker, {"DELETE": at_node(restart)}),
    }


async def links(call: ApiRequest) -> ApiResponse:
    """Links of exchanges and queues in the virtual host of the path, or in all that the user may enter."""
    return await _answer(call, only_down=False)


async def links_down(call: ApiRequest) -> ApiResponse:
    """Links that are down."""
    return await _answer(call, only_down=True)


async def _answer(call: ApiRequest, *, only_down: bool) -> ApiResponse:
    if call.part is not None:
        return json_response(call.context.bridges.federation_rows())
    vhosts = [call.vhost().name] if "vhost" in call.params else list(call.context.broker.vhosts)
    seen = set(vhosts).intersection(call.api_user.vhosts)
    rows = [row for row in await _rows(call) if row["vhost"] in seen and not (only_down and row["status"] in UP)]
    return await rows_response(call, sorted(rows, key=_place))


async def _rows(call: ApiRequest) -> list[BridgeRow]:
    rows = call.context.bridges.federation_rows()
    return rows + [row for found in await peer_documents(call) for row in found]


def _place(row: BridgeRow) -> list[str]:
    return [str(row.get(name, "")) for name in ("vhost", "type", "exchange", "queue", "upstream", "node")]


async def restart(call: ApiRequest) -> ApiResponse:
    """Restart a link."""
    if not await call.context.bridges.restart_federation_link(call.vhost().name, call.params["id"]):
        raise not_found()
    return no_content()
