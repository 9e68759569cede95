"""Queues, exchanges and bindings are made and deleted, and queues purged, by whoever may.

Not here: reading them (`admin.resources`), messages (`changes.messages`).
"""

from dataclasses import replace
from urllib.parse import quote

from warren.admin.changes.direct import topology_link
from warren.admin.changes.fields import Document, arguments, flag, require, short, text
from warren.admin.cluster.forwarding import ALONE, passed_on
from warren.admin.http.answers import Answer, created, no_content, to_json
from warren.admin.http.call import Call
from warren.admin.http.faults import HttpFault, bad_request, not_authorised, not_found
from warren.admin.http.levels import administrator, in_vhost
from warren.admin.http.router import Resource
from warren.admin.resources.bindings import BETWEEN, bindings_between
from warren.admin.station import Station
from warren.admin.views.bindings import is_called, properties_key
from warren.broker.commands import StopSynchronising, SynchroniseMirrors
from warren.remote.remote_queue import RemoteQueue
from warren.remote.seat import Seat
from warren.routing.types import EXCHANGE_TYPES
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


def routes(station: Station) -> dict[str, Resource]:
    return {
        "/api/queues/{vhost}/{name}": Resource(in_vhost, {"PUT": put_queue, "DELETE": delete_queue}),
        "/api/queues/{vhost}/{name}/contents": Resource(in_vhost, {"DELETE": purge_queue}),
        "/api/queues/{vhost}/{name}/actions": Resource(administrator, {"POST": act_on_queue}),
        "/api/exchanges/{vhost}/{name}": Resource(in_vhost, {"PUT": put_exchange, "DELETE": delete_exchange}),
        BETWEEN: Resource(in_vhost, {"POST": bind}),
        f"{BETWEEN}/{{key}}": Resource(in_vhost, {"DELETE": unbind}),
    }


async def put_queue(call: Call) -> Answer:
    document = await call.document()
    node = text(document, "node")
    if node and node != call.station.peers.own:
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


async def _put_queue_at(call: Call, node: str, document: Document) -> Answer:
    """A queue lives on the node where it is declared, unless something else says where."""
    question = replace(call.question(ALONE), body=to_json(document))
    told = await call.station.peers.ask(node, question)
    if told is None:
        raise bad_request(f"Node {node} could not be contacted")
    return passed_on(told)


async def delete_queue(call: Call) -> Answer:
    delete = QueueDelete(_queue_of(call), if_unused=call.flag("if-unused"), if_empty=call.flag("if-empty"))
    async with topology_link(call) as link:
        await link.ask(delete, QueueDeleteOk)
    return no_content()


async def purge_queue(call: Call) -> Answer:
    name = _queue_of(call)
    async with topology_link(call) as link:
        await link.ask(QueuePurge(name), QueuePurgeOk)
    return no_content()


async def act_on_queue(call: Call) -> Answer:
    """Mirrors catch up, or no more, at the word of their master; a queue without mirrors has nothing to do."""
    document = await call.document()
    require(document, "action")
    name = _queue_of(call)
    if document["action"] not in ("sync", "cancel_sync"):
        raise HttpFault(400, "bad_request", ["unknown", document["action"]])
    queue, station = call.vhost().topology.queues[name], call.station
    if not isinstance(queue, RemoteQueue | Seat) or queue.ring is None:
        return no_content()
    if queue.node == station.peers.own:
        command = SynchroniseMirrors if document["action"] == "sync" else StopSynchronising
        await station.desk.carry_out(command(queue.vhost, queue.name))
        return no_content()
    told = None
    if call.part is None:
        told = await station.peers.ask(queue.node, replace(call.question(ALONE), body=to_json(document)))
    if told is None:
        raise HttpFault(503, "service_unavailable", f"node {queue.node} does not answer")
    return passed_on(told)


async def put_exchange(call: Call) -> Answer:
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


async def delete_exchange(call: Call) -> Answer:
    name = _exchange_named(call)
    if name not in call.vhost().topology.exchanges:
        raise not_found()
    async with topology_link(call) as link:
        await link.ask(ExchangeDelete(name, if_unused=call.flag("if-unused")), ExchangeDeleteOk)
    return no_content()


async def bind(call: Call) -> Answer:
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
    return Answer(201, headers={"location": where})


async def unbind(call: Call) -> Answer:
    _source(call)
    found = next((facts for facts in bindings_between(call) if is_called(facts, call.params["key"])), None)
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


def _source(call: Call) -> str:
    """The exchange to bind to; to the default one nobody can bind anything."""
    name = call.params["source"]
    if name in ("", DEFAULT_EXCHANGE):
        raise not_authorised("Access refused.")
    return name


def _queue_of(call: Call) -> str:
    name = call.params["name"]
    if name not in call.vhost().topology.queues:
        raise not_found()
    return name


def _exchange_named(call: Call) -> str:
    name = call.params["name"]
    if name in ("", DEFAULT_EXCHANGE):
        raise not_authorised("Access refused.")
    return name
