"""Connections, channels and consumers: paths, and closing connections.

A user without the tag `monitoring` sees and closes only their own connections.

Not here: rows (`resources.connection_rows`).
"""

from collections.abc import Iterator

from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import ApiResponse, bad_request, json_response, no_content, not_authorised, not_found
from warren.admin.http.router import Resource, Routes, in_vhost, manager
from warren.admin.listing.lists import GatheredObjects, ObjectList, Row, full_rows
from warren.admin.listing.responses import list_response, object_response
from warren.admin.message_stats import sample_spans
from warren.admin.peer_requests import ALONE, forward_to_owner
from warren.admin.peers import WAITING, QueryPart, RowKey
from warren.admin.resources.connection_rows import (
    ChannelRows,
    ConnectionRows,
    channel_name,
    connection_row_name,
    consumer_row,
    listed_connections,
)
from warren.admin.resources.queue_rows import consumers_here, waiting_consumers
from warren.broker.commands.requests import ForceCloseConnection
from warren.broker.links.mirrored_queue_proxy import MirroredQueueProxy
from warren.broker.links.remote_queue import RemoteQueue
from warren.broker.model.events import CommandBatch
from warren.broker.model.ports import QueuePort
from warren.broker.queues.arguments import STREAM, type_of
from warren.broker.sessions.connection import Channel, Connection
from warren.broker.sessions.consumers import ChannelConsumer


def routes() -> Routes:
    return {
        "/api/connections": Resource(manager, {"GET": all_connections}),
        "/api/connections/{name}": Resource(manager, {"GET": one_connection, "DELETE": close_one}),
        "/api/connections/{name}/channels": Resource(manager, {"GET": channels_of_connection}),
        "/api/connections/username/{user}": Resource(
            manager, {"GET": connections_of_user, "DELETE": close_all_of_user}
        ),
        "/api/vhosts/{vhost}/connections": Resource(in_vhost, {"GET": connections_of_vhost}),
        "/api/channels": Resource(manager, {"GET": all_channels}),
        "/api/channels/{name}": Resource(manager, {"GET": one_channel}),
        "/api/vhosts/{vhost}/channels": Resource(in_vhost, {"GET": channels_of_vhost}),
        "/api/consumers": Resource(manager, {"GET": all_consumers}),
        "/api/consumers/{vhost}": Resource(in_vhost, {"GET": consumers_of_vhost}),
    }


def connection_named(call: ApiRequest, name: str) -> Connection | None:
    """The connection of that name if it is on this node; a fault if another user owns it."""
    for connection in listed_connections(call.context.broker):
        if connection_row_name(connection) == name:
            api_user = call.api_user
            if not api_user.is_monitor and connection.user != api_user.name:
                raise not_authorised("User not authorised to access object")
            return connection
    return None


async def all_connections(call: ApiRequest) -> ApiResponse:
    return await _list_connections(call, _seen_connections(call))


async def connections_of_vhost(call: ApiRequest) -> ApiResponse:
    return await _list_connections(call, _in_vhost(call))


async def one_connection(call: ApiRequest) -> ApiResponse:
    connection = connection_named(call, call.params["name"])
    if connection is None:
        return await forward_to_owner(call)
    return object_response(call, _connection_rows(call).detailed(connection))


async def connections_of_user(call: ApiRequest) -> ApiResponse:
    user = call.params["user"]
    found = [connection for connection in _seen_connections(call) if connection.user == user]
    listed = ObjectList(
        found, full_rows(_connection_rows(call).short), connection_row_name, spread=GatheredObjects(_connection_key)
    )
    return await list_response(call, listed, paginated=False)


async def all_channels(call: ApiRequest) -> ApiResponse:
    return await _list_channels(call, _seen_connections(call))


async def channels_of_connection(call: ApiRequest) -> ApiResponse:
    connection = connection_named(call, call.params["name"])
    return await (forward_to_owner(call) if connection is None else _list_channels(call, [connection]))


async def channels_of_vhost(call: ApiRequest) -> ApiResponse:
    return await _list_channels(call, _in_vhost(call))


async def one_channel(call: ApiRequest) -> ApiResponse:
    _refuse_without_stats(call)
    name = call.params["name"]
    connection = connection_named(call, name.rpartition(" (")[0])
    if connection is None:
        return await forward_to_owner(call)
    for channel in connection.channels.values():
        if channel_name(channel) == name:
            return object_response(call, await _channel_rows(call).detailed(channel))
    raise not_found()


async def all_consumers(call: ApiRequest) -> ApiResponse:
    vhosts = list(call.context.broker.vhosts) if call.api_user.is_monitor else call.api_user.vhosts
    return await _list_consumers(call, vhosts)


async def consumers_of_vhost(call: ApiRequest) -> ApiResponse:
    return await _list_consumers(call, [call.vhost().name])


def _seen_connections(call: ApiRequest) -> list[Connection]:
    found = listed_connections(call.context.broker)
    api_user = call.api_user
    return found if api_user.is_monitor else [connection for connection in found if connection.user == api_user.name]


def _in_vhost(call: ApiRequest) -> list[Connection]:
    name = call.vhost().name
    return [c for c in _seen_connections(call) if c.vhost is not None and c.vhost.name == name]


def _connection_rows(call: ApiRequest) -> ConnectionRows:
    return ConnectionRows(call.context.facts.name, call.context.history, sample_spans(call.query))


def _channel_rows(call: ApiRequest) -> ChannelRows:
    context = call.context
    return ChannelRows(context.facts.name, context.history, context.facts.now_ms(), sample_spans(call.query))


def _connection_key(connection: Connection) -> RowKey:
    return (connection_row_name(connection),)


def _channel_key(channel: Channel) -> RowKey:
    return (channel_name(channel),)


def _consumer_key(found: tuple[ChannelConsumer, bool]) -> RowKey:
    consumer = found[0]
    return (consumer.tag, channel_name(consumer.channel), consumer.queue.vhost, consumer.queue.name)


async def _list_connections(call: ApiRequest, connections: list[Connection]) -> ApiResponse:
    rows = _connection_rows(call)
    build = rows.short if call.flag("disable_stats") else rows.row
    return await list_response(
        call, ObjectList(connections, full_rows(build), connection_row_name, spread=GatheredObjects(_connection_key))
    )


async def _list_channels(call: ApiRequest, connections: list[Connection]) -> ApiResponse:
    _refuse_without_stats(call)
    channels: list[Channel] = [channel for connection in connections for channel in connection.channels.values()]
    listed = ObjectList(
        channels, full_rows(_channel_rows(call).row), channel_name, spread=GatheredObjects(_channel_key)
    )
    return await list_response(call, listed)


def _refuse_without_stats(call: ApiRequest) -> None:
    if call.flag("disable_stats"):
        raise bad_request("Stats in management UI are disabled on this node")


async def _list_consumers(call: ApiRequest, vhosts: list[str]) -> ApiResponse:
    node = call.context.facts.name
    if call.part is not None and call.part.kind == WAITING:
        return json_response(list(_waiting(call, vhosts)))
    consumers = list(_consumers(call, vhosts))
    waiting = await _waiting_elsewhere(call, [consumer for consumer, _ in consumers]) | set(_waiting(call, vhosts))

    def build(found: tuple[ChannelConsumer, bool]) -> Row:
        consumer, active = found
        queue = consumer.queue
        return consumer_row(node, consumer, active and (queue.vhost, queue.name, node, consumer.tag) not in waiting)

    listed = ObjectList(consumers, full_rows(build), _tag, spread=GatheredObjects(_consumer_key))
    return await list_response(call, listed, paginated=False)


def _waiting(call: ApiRequest, vhosts: list[str]) -> Iterator[RowKey]:
    """Consumers of other nodes' clients that are not active: queue, node and tag of each."""
    broker = call.context.broker
    for vhost in vhosts:
        if vhost in broker.vhosts:
            for queue in broker.vhosts[vhost].own_queues():
                if _may_have_waiting(queue):
                    for node, tag in waiting_consumers(queue):
                        yield vhost, queue.name, node, tag


async def _waiting_elsewhere(call: ApiRequest, consumers: list[ChannelConsumer]) -> set[RowKey]:
    """The inactive consumers of queues on other nodes, whose home nodes are asked."""
    queues = [consumer.queue for consumer in consumers]
    homes = {
        queue.node
        for queue in queues
        if isinstance(queue, RemoteQueue | MirroredQueueProxy) and _may_have_waiting(queue)
    }
    replies = await call.context.peers.ask_all(call.peer_query(QueryPart(WAITING)), homes)
    return {tuple(found) for answer in replies.values() if answer.status == 200 for found in answer.document}


def _may_have_waiting(queue: QueuePort) -> bool:
    """Whether the queue may have consumers that are not active. Streams have consumer groups."""
    return queue.arguments.get("x-single-active-consumer") is True or type_of(queue.arguments) == STREAM


def _tag(found: tuple[ChannelConsumer, bool]) -> str:
    return found[0].tag


def _consumers(call: ApiRequest, vhosts: list[str]) -> Iterator[tuple[ChannelConsumer, bool]]:
    """Consumers of this node's clients that the user may see, and whether each is active."""
    broker, api_user = call.context.broker, call.api_user
    for name in vhosts:
        if name not in broker.vhosts:
            continue
        for queue in broker.vhosts[name].topology.queues.values():
            for consumer, active in consumers_here(queue, broker.vhosts[name].own_queue(queue.name)):
                if not isinstance(consumer, ChannelConsumer) or consumer.channel.connection.opened.internal:
                    continue
                if api_user.is_monitor or consumer.channel.connection.user == api_user.name:
                    yield consumer, active


DEFAULT_REASON = "Closed via management plugin"


async def close_one(call: ApiRequest) -> ApiResponse:
    connection = connection_named(call, call.params["name"])
    return await (forward_to_owner(call) if connection is None else _close(call, [connection]))


async def close_all_of_user(call: ApiRequest) -> ApiResponse:
    user = call.params["user"]
    if not call.api_user.is_monitor and user != call.api_user.name:
        raise not_authorised("User not authorised to access object")
    if call.part is None:
        await call.context.peers.ask_all(call.peer_query(ALONE))
    return await _close(call, [one for one in listed_connections(call.context.broker) if one.user == user])


async def _close(call: ApiRequest, connections: list[Connection]) -> ApiResponse:
    api_user = call.api_user
    if any(connection.user != api_user.name for connection in connections) and not api_user.is_administrator:
        raise not_authorised("User not authorised to access object")
    reason = _reason(call)
    await call.context.command_queue.carry_out(
        CommandBatch([ForceCloseConnection(one.connection_id, reason) for one in connections])
    )
    return no_content()


def _reason(call: ApiRequest) -> str:
    """The header `X-Reason`. Its bytes are UTF-8, which HTTP libraries decode as Latin-1."""
    given = call.header("x-reason").encode("latin-1").decode("utf-8", "replace")
    return given or DEFAULT_REASON
