"""Links of federation are restarted, in the path of RabbitMQ's federation plugin.

Not here: defining upstreams, as parameters (`changes.policies`); how links stand (`resources.federation`).
"""

from warren.admin.cluster.forwarding import at_node
from warren.admin.http.answers import Answer, no_content
from warren.admin.http.call import Call
from warren.admin.http.faults import not_found
from warren.admin.http.levels import policymaker
from warren.admin.http.router import Resource
from warren.admin.station import Station


def routes(station: Station) -> dict[str, Resource]:
    return {
        "/api/federation-links/vhost/{vhost}/{id}/{node}/restart": Resource(policymaker, {"DELETE": at_node(restart)})
    }


async def restart(call: Call) -> Answer:
    """End a link and begin it anew."""
    if not await call.station.bridges.restart_federation_link(call.vhost().name, call.params["id"]):
        raise not_found()
    return no_content()
