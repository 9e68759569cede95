"""Connections, channels and consumers, to read.

Whoever may not monitor sees their own only.

Not here: closing connections.
"""

from collections.abc import Iterator

from warren.admin.cluster.forwarding import elsewhere
from warren.admin.cluster.question import WAITING, Key, Part
from warren.admin.http.answers import Answer, json_answer
from warren.admin.http.call import Call
from warren.admin.http.faults import bad_request, not_authorised, not_found
from warren.admin.http.levels import in_vhost, manager
from warren.admin.http.router import Resource
from warren.admin.http.spans import spans_of
from warren.admin.listing.listed import Gathered, Listed, Row, whole
from warren.admin.listing.rows import answer_list, answer_object
from warren.admin.station import Station
from warren.admin.views.channels import ChannelRows, channel_name, consumer_row
from warren.admin.views.connections import ConnectionRows, connection_name, listed_connections
from warren.admin.views.queues import consumers_here, waiting_consumers
from warren.model.ports import QueuePort
from warren.queue.arguments import type_of
from warren.queue.stream_arguments import STREAM
from warren.remote.remote_queue import RemoteQueue
from warren.remote.seat import Seat
from warren.session.channel import Channel
from warren.session.connection import Connection
from warren.session.consumer import ChannelConsumer


def routes(station: Station) -> dict[str, Resource]:
    return {
        "/api/connections": Resource(manager, {"GET": all_connections}),
        "/api/connections/{name}": Resource(manager, {"GET": one_connection}),
        "/api/connections/{name}/channels": Resource(manager, {"GET": channels_of_connection}),
        "/api/connections/username/{user}": Resource(manager, {"GET": connections_of_user}),
        "/api/vhosts/{vhost}/connections": Resource(in_vhost, {"GET": connections_of_vhost}),
        "/api/channels": Resource(manager, {"GET": all_channels}),
        "/api/channels/{name}": Resource(manager, {"GET": one_channel}),
        "/api/vhosts/{vhost}/channels": Resource(in_vhost, {"GET": channels_of_vhost}),
        "/api/consumers": Resource(manager, {"GET": all_consumers}),
        "/api/consumers/{vhost}": Resource(in_vhost, {"GET": consumers_of_vhost}),
    }


def connection_named(call: Call, name: str) -> Connection | None:
    """The connection of that name, if it is one of this node; a fault if it is somebody else's."""
    for connection in listed_connections(call.station.broker):
        if connection_name(connection) == name:
            visitor = call.visitor
            if not visitor.is_monitor and connection.user != visitor.name:
                raise not_authorised("User not authorised to access object")
            return connection
    return None


async def all_connections(call: Call) -> Answer:
    return await _list_connections(call, _seen_connections(call))


async def connections_of_vhost(call: Call) -> Answer:
    return await _list_connections(call, _in_vhost(call))


async def one_connection(call: Call) -> Answer:
    connection = connection_named(call, call.params["name"])
    if connection is None:
        return await elsewhere(call)
    return answer_object(call, _connection_rows(call).detailed(connection))


async def connections_of_user(call: Call) -> Answer:
    user = call.params["user"]
    found = [connection for connection in _seen_connections(call) if connection.user == user]
    listed = Listed(found, whole(_connection_rows(call).short), connection_name, spread=Gathered(_connection_key))
    return await answer_list(call, listed, paginated=False)


async def all_channels(call: Call) -> Answer:
    return await _list_channels(call, _seen_connections(call))


async def channels_of_connection(call: Call) -> Answer:
    connection = connection_named(call, call.params["name"])
    return await (elsewhere(call) if connection is None else _list_channels(call, [connection]))


async def channels_of_vhost(call: Call) -> Answer:
    return await _list_channels(call, _in_vhost(call))


async def one_channel(call: Call) -> Answer:
    _refuse_without_stats(call)
    name = call.params["name"]
    connection = connection_named(call, name.rpartition(" (")[0])
    if connection is None:
        return await elsewhere(call)
    for channel in connection.channels.values():
        if channel_name(channel) == name:
            return answer_object(call, _channel_rows(call).detailed(channel))
    raise not_found()


async def all_consumers(call: Call) -> Answer:
    vhosts = list(call.station.broker.vhosts) if call.visitor.is_monitor else call.visitor.vhosts
    return await _list_consumers(call, vhosts)


async def consumers_of_vhost(call: Call) -> Answer:
    return await _list_consumers(call, [call.vhost().name])


def _seen_connections(call: Call) -> list[Connection]:
    found = listed_connections(call.station.broker)
    visitor = call.visitor
    return found if visitor.is_monitor else [connection for connection in found if connection.user == visitor.name]


def _in_vhost(call: Call) -> list[Connection]:
    name = call.vhost().name
    return [c for c in _seen_connections(call) if c.vhost is not None and c.vhost.name == name]


def _connection_rows(call: Call) -> ConnectionRows:
    return ConnectionRows(call.station.facts.name, call.station.history, spans_of(call.query))


def _channel_rows(call: Call) -> ChannelRows:
    station = call.station
    return ChannelRows(station.facts.name, station.history, station.facts.now_ms(), spans_of(call.query))


def _connection_key(connection: Connection) -> Key:
    return (connection_name(connection),)


def _channel_key(channel: Channel) -> Key:
    return (channel_name(channel),)


def _consumer_key(found: tuple[ChannelConsumer, bool]) -> Key:
    consumer = found[0]
    return (consumer.tag, channel_name(consumer.channel), consumer.queue.vhost, consumer.queue.name)


async def _list_connections(call: Call, connections: list[Connection]) -> Answer:
    rows = _connection_rows(call)
    build = rows.short if call.flag("disable_stats") else rows.row
    return await answer_list(call, Listed(connections, whole(build), connection_name, spread=Gathered(_connection_key)))


async def _list_channels(call: Call, connections: list[Connection]) -> Answer:
    _refuse_without_stats(call)
    channels: list[Channel] = [channel for connection in connections for channel in connection.channels.values()]
    listed = Listed(channels, whole(_channel_rows(call).row), channel_name, spread=Gathered(_channel_key))
    return await answer_list(call, listed)


def _refuse_without_stats(call: Call) -> None:
    if call.flag("disable_stats"):
        raise bad_request("Stats in management UI are disabled on this node")


async def _list_consumers(call: Call, vhosts: list[str]) -> Answer:
    node = call.station.facts.name
    if call.part is not None and call.part.kind == WAITING:
        return json_answer(list(_waiting(call, vhosts)))
    consumers = list(_consumers(call, vhosts))
    waiting = await _told_to_wait(call, [consumer for consumer, _ in consumers]) | set(_waiting(call, vhosts))

    def build(found: tuple[ChannelConsumer, bool]) -> Row:
        consumer, active = found
        queue = consumer.queue
        return consumer_row(node, consumer, active and (queue.vhost, queue.name, node, consumer.tag) not in waiting)

    listed = Listed(consumers, whole(build), _tag, spread=Gathered(_consumer_key))
    return await answer_list(call, listed, paginated=False)


def _waiting(call: Call, vhosts: list[str]) -> Iterator[Key]:
    """Consumers of other nodes' clients that are not active: queue, node and tag of each."""
    broker = call.station.broker
    for vhost in vhosts:
        if vhost in broker.vhosts:
            for queue in broker.vhosts[vhost].own_queues():
                if _may_have_waiting(queue):
                    for node, tag in waiting_consumers(queue):
                        yield vhost, queue.name, node, tag


async def _told_to_wait(call: Call, consumers: list[ChannelConsumer]) -> set[Key]:
    """Which of several consumers of a queue elsewhere is active its home knows; it is asked if there may be several."""
    queues = [consumer.queue for consumer in consumers]
    homes = {queue.node for queue in queues if isinstance(queue, RemoteQueue | Seat) and _may_have_waiting(queue)}
    told = await call.station.peers.ask_all(call.question(Part(WAITING)), homes)
    return {tuple(found) for answer in told.values() if answer.status == 200 for found in answer.document}


def _may_have_waiting(queue: QueuePort) -> bool:
    """Whether some of its consumers may be there without being served: streams have groups."""
    return queue.arguments.get("x-single-active-consumer") is True or type_of(queue.arguments) == STREAM


def _tag(found: tuple[ChannelConsumer, bool]) -> str:
    return found[0].tag


def _consumers(call: Call, vhosts: list[str]) -> Iterator[tuple[ChannelConsumer, bool]]:
    """Those of this node's clients that the visitor may see, and whether each is active."""
    broker, visitor = call.station.broker, call.visitor
    for name in vhosts:
        if name not in broker.vhosts:
            continue
        for queue in broker.vhosts[name].topology.queues.values():
            for consumer, active in consumers_here(queue, broker.vhosts[name].own_queue(queue.name)):
                if not isinstance(consumer, ChannelConsumer) or consumer.channel.connection.opened.internal:
                    continue
                if visitor.is_monitor or consumer.channel.connection.user == visitor.name:
                    yield consumer, active
