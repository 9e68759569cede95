"""Traces and their files, in the paths of RabbitMQ's tracing plugin.

Not here: traces (`tracing.traces`), files (`tracing.files`).
"""

import asyncio
from typing import Any

from warren.admin.http.documents import Document, require, short, text
from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import ApiResponse, bad_request, created, no_content, not_found
from warren.admin.http.router import Handler, Resource, Routes, administrator
from warren.admin.http.schemas import TEXT, an_object, one_of
from warren.admin.listing.responses import object_response, rows_response
from warren.admin.peer_requests import at_node, check_node
from warren.admin.rabbitmq_json import amqp_json
from warren.admin.tracing.traces import FORMATS, MessageTrace, TraceRequest
from warren.broker.commands.requests import Authenticate
from warren.broker.model.identity import Identity
from warren.broker.queues.queue import Queue
from warren.errors import CommandRefused

_LOOPBACK = "127.0.0.1"
_TRACE = an_object(
    {"format": one_of("json", "text"), "pattern": TEXT},
    max_payload_bytes={"type": "integer", "minimum": 0},
    tracer_connection_username=TEXT,
    tracer_connection_password=TEXT,
)


def routes() -> Routes:
    one_trace: dict[str, Handler] = {"GET": at_node(trace), "PUT": start_trace, "DELETE": at_node(stop_trace)}
    one_file: dict[str, Handler] = {"GET": read_file, "DELETE": at_node(delete_file)}
    paths: dict[str, dict[str, Handler]] = {
        "/api/traces": {"GET": at_node(traces)},
        "/api/traces/{vhost}": {"GET": at_node(traces)},
        "/api/traces/{vhost}/{name}": one_trace,
        "/api/traces/node/{node}": {"GET": at_node(traces)},
        "/api/traces/node/{node}/{vhost}": {"GET": at_node(traces)},
        "/api/traces/node/{node}/{vhost}/{name}": one_trace,
        "/api/trace-files": {"GET": at_node(files)},
        "/api/trace-files/{name}": one_file,
        "/api/trace-files/node/{node}": {"GET": at_node(files)},
        "/api/trace-files/node/{node}/{name}": one_file,
    }
    return {path: Resource(administrator, handlers, _TRACE) for path, handlers in paths.items()}


# -- traces


async def traces(call: ApiRequest) -> ApiResponse:
    vhost = call.vhost().name if "vhost" in call.params else None
    listed = call.context.traces.listed()
    return await rows_response(call, [_row(call, one) for one in listed if vhost in (None, one.order.vhost)])


async def trace(call: ApiRequest) -> ApiResponse:
    found = call.context.traces.find(call.params["vhost"], call.params["name"])
    if found is None:
        raise not_found()
    return object_response(call, _row(call, found))


async def start_trace(call: ApiRequest) -> ApiResponse:
    check_node(call)
    document = await call.document()
    require(document, "format", "pattern")
    order = TraceRequest(
        vhost=call.vhost().name,
        name=call.params["name"],
        format=_format(document),
        pattern=short("pattern", text(document, "pattern")),
        payload_bytes_max=_payload_bytes_max(document),
        username=text(document, "tracer_connection_username"),
    )
    identity = call.api_user.identity
    if order.username:
        identity = await _other_user(call, order.username, text(document, "tracer_connection_password"))
    await call.context.traces.start(order, identity)
    return created()


async def stop_trace(call: ApiRequest) -> ApiResponse:
    if not await call.context.traces.stop(call.params["vhost"], call.params["name"]):
        raise not_found()
    return no_content()


def _format(document: Document) -> str:
    wanted = document["format"]
    if not isinstance(wanted, str) or wanted not in FORMATS:
        raise bad_request("format not json or text")
    return wanted


def _payload_bytes_max(document: Document) -> int | None:
    limit = document.get("max_payload_bytes")
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise bad_request("max_payload_bytes not integer")
    if limit < 0:
        raise bad_request("max_payload_bytes must not be negative")
    return limit


async def _other_user(call: ApiRequest, username: str, password: str) -> Identity:
    """A trace as another user needs that user's password."""
    try:
        identity = await call.context.command_queue.carry_out(Authenticate(username, password, _LOOPBACK))
    except CommandRefused:
        reason = f"Something went wrong trying to start the trace - the user {username} cannot log in"
        raise bad_request(reason) from None
    assert isinstance(identity, Identity)
    return identity


def _row(call: ApiRequest, one: MessageTrace) -> dict[str, Any]:
    order = one.order
    row: dict[str, Any] = {
        "vhost": order.vhost,
        "name": order.name,
        "format": order.format,
        "pattern": order.pattern,
        "file": one.file_name,
        "state": "failed" if one.failure else "running",
        "written": one.written_count,
        "dropped": one.dropped_count,
    }
    if order.payload_bytes_max is not None:
        row["max_payload_bytes"] = order.payload_bytes_max
    if order.username:
        row["tracer_connection_username"] = order.username
    if one.failure:
        row["reason"] = one.failure
    elif one.queue is not None:
        row["queue"] = _queue_row(one.queue, order.vhost, call.context.facts.name)
    return row


def _queue_row(queue: Queue, vhost: str, node: str) -> dict[str, Any]:
    return {
        "arguments": amqp_json(queue.arguments),
        "auto_delete": queue.auto_delete,
        "durable": queue.durable,
        "exclusive": True,
        "messages": queue.ready_count() + queue.unacked_count(),
        "name": queue.name,
        "node": node,
        "type": "classic",
        "vhost": vhost,
    }


# -- files


async def files(call: ApiRequest) -> ApiResponse:
    found = await asyncio.to_thread(call.context.traces.directory.listed)
    return await rows_response(call, [{"name": facts.name, "size": facts.size_bytes} for facts in found])


async def read_file(call: ApiRequest) -> ApiResponse:
    """The whole file, or with `?tail=BYTES` the whole lines among its last bytes."""
    check_node(call)
    directory = call.context.traces.directory
    opened = await asyncio.to_thread(directory.opened, call.params["name"], _tail_bytes(call))
    if opened is None:
        raise not_found()
    headers = {"content-length": str(opened.size_bytes)}
    return ApiResponse(200, content_type="text/plain", headers=headers, chunks=opened.chunks())


def _tail_bytes(call: ApiRequest) -> int | None:
    given = call.query.get("tail")
    if given is None:
        return None
    if not given.isascii() or not given.isdecimal() or len(given) > 18:
        raise bad_request("tail must be a number of bytes")
    return int(given)


async def delete_file(call: ApiRequest) -> ApiResponse:
    if not await asyncio.to_thread(call.context.traces.directory.delete, call.params["name"]):
        raise not_found()
    return no_content()
