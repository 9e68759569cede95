"""Queues, exchanges and bindings are made and deleted, and queues purged, by whoever may.

Not here: reading them (`admin.resources`), messages (`changes.messages`).
"""

from dataclasses import replace
from urllib.parse import quote

from warren.admin.context import AdminContext
from warren.admin.forwarding import ALONE, forwarded_response
from warren.admin.http.documents import Document, arguments, flag, require, short, text
from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import (
    ApiResponse,
    HttpFault,
    bad_request,
    created,
    no_content,
    not_authorised,
    not_found,
    to_json,
)
from warren.admin.http.router import Resource, administrator, in_vhost
from warren.admin.resources.exchanges import BETWEEN, bindings_between, has_key, properties_key
from warren.admin.resources.user_links import topology_link
from warren.broker.commands.requests import CancelSync, SyncMirrors
from warren.broker.links.mirrored_queue_proxy import MirroredQueueProxy
from warren.broker.links.remote_queue import RemoteQueue
from warren.broker.routing.exchange_types import EXCHANGE_TYPES
from warren.wire.methods import (
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)

DEFAULT_EXCHANGE = "amq.default"
"""What paths call the exchange without a name."""


def routes(context: AdminContext) -> dict[str, Resource]:
    return {
        "/api/queues/{vhost}/{name}": Resource(in_vhost, {"PUT": put_queue, "DELETE": delete_queue}),
        "/api/queues/{vhost}/{name}/contents": Resource(in_vhost, {"DELETE": purge_queue}),
        "/api/queues/{vhost}/{name}/actions": Resource(administrator, {"POST": act_on_queue}),
        "/api/exchanges/{vhost}/{name}": Resource(in_vhost, {"PUT": put_exchange, "DELETE": delete_exchange}),
        BETWEEN: Resource(in_vhost, {"POST": bind}),
        f"{BETWEEN}/{{key}}": Resource(in_vhost, {"DELETE": unbind}),
    }


async def put_queue(call: ApiRequest) -> ApiResponse:
    document = await call.document()
    node = text(document, "node")
    if node and node != call.context.peers.own:
        return await _put_queue_at(call, node, document)
    declare = QueueDeclare(
        queue=short("queue", call.params["name"]),
        durable=flag(document, "durable"),
        auto_delete=flag(document, "auto_delete"),
        arguments=arguments(document),
    )
    async with topology_link(call) as link:
        is_new = call.params["name"] not in call.vhost().topology.queues
        await link.ask(declare, QueueDeclareOk)
    return created() if is_new else no_content()


async def _put_queue_at(call: ApiRequest, node: str, document: Document) -> ApiResponse:
    """A queue lives on the node where it is declared, unless something else says where."""
    question = replace(call.question(ALONE), body=to_json(document))
    told = await call.context.peers.ask(node, question)
    if told is None:
        raise bad_request(f"Node {node} could not be contacted")
    return forwarded_response(told)


async def delete_queue(call: ApiRequest) -> ApiResponse:
    delete = QueueDelete(_queue_of(call), if_unused=call.flag("if-unused"), if_empty=call.flag("if-empty"))
    async with topology_link(call) as link:
        await link.ask(delete, QueueDeleteOk)
    return no_content()


async def purge_queue(call: ApiRequest) -> ApiResponse:
    name = _queue_of(call)
    async with topology_link(call) as link:
        await link.ask(QueuePurge(name), QueuePurgeOk)
    return no_content()


async def act_on_queue(call: ApiRequest) -> ApiResponse:
    """Mirrors catch up, or no more, at the word of their master; a queue without mirrors has nothing to do."""
    document = await call.document()
    require(document, "action")
    name = _queue_of(call)
    if document["action"] not in ("sync", "cancel_sync"):
        raise HttpFault(400, "bad_request", ["unknown", document["action"]])
    queue, context = call.vhost().topology.queues[name], call.context
    if not isinstance(queue, RemoteQueue | MirroredQueueProxy) or queue.replica_set is None:
        return no_content()
    if queue.node == context.peers.own:
        command = SyncMirrors if document["action"] == "sync" else CancelSync
        await context.command_queue.carry_out(command(queue.vhost, queue.name))
        return no_content()
    told = None
    if call.part is None:
        told = await context.peers.ask(queue.node, replace(call.question(ALONE), body=to_json(document)))
    if told is None:
        raise HttpFault(503, "service_unavailable", f"node {queue.node} does not answer")
    return forwarded_response(told)


async def put_exchange(call: ApiRequest) -> ApiResponse:
    document = await call.document()
    name = _exchange_named(call)
    kind = document.get("type", "direct")
    if kind not in EXCHANGE_TYPES:
        raise bad_request(f"invalid exchange type '{kind}'")
    declare = ExchangeDeclare(
        exchange=short("exchange", name),
        type=kind,
        durable=flag(document, "durable"),
        auto_delete=flag(document, "auto_delete"),
        internal=flag(document, "internal"),
        arguments=arguments(document),
    )
    async with topology_link(call) as link:
        is_new = name not in call.vhost().topology.exchanges
        await link.ask(declare, ExchangeDeclareOk)
    return created() if is_new else no_content()


async def delete_exchange(call: ApiRequest) -> ApiResponse:
    name = _exchange_named(call)
    if name not in call.vhost().topology.exchanges:
        raise not_found()
    async with topology_link(call) as link:
        await link.ask(ExchangeDelete(name, if_unused=call.flag("if-unused")), ExchangeDeleteOk)
    return no_content()


async def bind(call: ApiRequest) -> ApiResponse:
    """Answered with where the binding is to be found, also if it was there."""
    document = await call.document()
    key, values = short("routing_key", _routing_key(document)), arguments(document)
    source, destination = short("exchange", _source(call)), short("destination", call.params["destination"])
    async with topology_link(call) as link:
        if call.params["kind"] == "q":
            await link.ask(QueueBind(destination, source, key, arguments=values), QueueBindOk)
        elif call.params["kind"] == "e":
            await link.ask(ExchangeBind(destination, source, key, arguments=values), ExchangeBindOk)
        else:
            raise not_found()
    where = f"{quote(destination, safe='')}/{quote(properties_key(key, values), safe='~')}"
    return ApiResponse(201, headers={"location": where})


async def unbind(call: ApiRequest) -> ApiResponse:
    _source(call)
    found = next((facts for facts in bindings_between(call) if has_key(facts, call.params["key"])), None)
    if found is None:
        raise not_found()
    async with topology_link(call) as link:
        if found.destination_type == "queue":
            gone = QueueUnbind(found.destination, found.source, found.routing_key, found.arguments)
            await link.ask(gone, QueueUnbindOk)
        else:
            unbound = ExchangeUnbind(found.destination, found.source, found.routing_key, arguments=found.arguments)
            await link.ask(unbound, ExchangeUnbindOk)
    return no_content()


def _routing_key(document: dict[str, object]) -> str:
    """A number is taken for its digits: rabbitmqadmin's users write `routing_key=5`."""
    value = document.get("routing_key", "")
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else text(document, "routing_key")


def _source(call: ApiRequest) -> str:
    """The exchange to bind to; to the default one nobody can bind anything."""
    name = call.params["source"]
    if name in ("", DEFAULT_EXCHANGE):
        raise not_authorised("Access refused.")
    return name


def _queue_of(call: ApiRequest) -> str:
    name = call.params["name"]
    if name not in call.vhost().topology.queues:
        raise not_found()
    return name


def _exchange_named(call: ApiRequest) -> str:
    name = call.params["name"]
    if name in ("", DEFAULT_EXCHANGE):
        raise not_authorised("Access refused.")
    return name
