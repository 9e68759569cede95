"""Virtual hosts are made, described anew, limited and deleted.

Whoever makes one may do everything in it, as in RabbitMQ.

Not here: reading them (`resources.access`).
"""

from warren.access.commands import ClearVhostLimits, DeleteVhost, PutVhost, SetPermission, SetVhostLimits
from warren.admin.changes.fields import Document, flag, names_in, require, text
from warren.admin.changes.users import carry_out
from warren.admin.http.answers import Answer, created, no_content
from warren.admin.http.call import Call
from warren.admin.http.faults import HttpFault, bad_request
from warren.admin.http.levels import administrator
from warren.admin.http.router import Handler, Resource
from warren.admin.station import Station
from warren.model.commands import Command, Together


def routes(station: Station) -> dict[str, Resource]:
    paths: dict[str, dict[str, Handler]] = {
        "/api/vhosts/{vhost}": {"PUT": put_vhost, "DELETE": delete_vhost},
        "/api/vhosts/{vhost}/start/{node}": {"POST": start_vhost},
        "/api/vhost-limits/{vhost}/{name}": {"PUT": set_limit, "DELETE": clear_limit},
    }
    return {path: Resource(administrator, handlers) for path, handlers in paths.items()}


async def put_vhost(call: Call) -> Answer:
    name = call.params["vhost"]
    commands = [vhost_command(name, await call.document())]
    is_new = name not in call.station.broker.vhosts
    if is_new:
        commands.append(SetPermission(call.visitor.name, name, ".*", ".*", ".*"))
    await call.station.desk.carry_out(Together(commands))
    return created() if is_new else no_content()


def vhost_command(name: str, document: Document) -> Command:
    """What a virtual host's document asks for."""
    tags = names_in(document, "tags") if "tags" in document else []
    tracing = flag(document, "tracing") if "tracing" in document else None
    return PutVhost(name, text(document, "description"), tags, tracing)


async def delete_vhost(call: Call) -> Answer:
    return await carry_out(call, DeleteVhost(call.params["vhost"]))


async def start_vhost(call: Call) -> Answer:
    """They all run; this answers scripts that make sure of it."""
    node, name = call.params["node"], call.params["vhost"]
    if node != call.station.broker.settings.node_name:
        raise bad_request(f"Request to node {node} failed with nodedown")
    if name not in call.station.broker.vhosts:
        raise bad_request(f'Request to node {node} failed with {{no_such_vhost,<<"{name}">>}}')
    return no_content()


async def set_limit(call: Call) -> Answer:
    document = await call.document()
    require(document, "value")
    if call.params["vhost"] not in call.station.broker.vhosts:
        raise HttpFault(404, "not_found", "vhost_not_found")
    await carry_out(call, SetVhostLimits(call.params["vhost"], {call.params["name"]: document["value"]}))
    return no_content()


async def clear_limit(call: Call) -> Answer:
    return await carry_out(call, ClearVhostLimits(call.params["vhost"], [call.params["name"]]))
