"""Messages over HTTP: publish, get, and move to another queue. For inspecting a queue, not for many messages.

*Moving.* Each message is got, published to the other queue and acked when that queue has it. So no message is lost,
though after a failure one may be in both queues. Messages go in batches, so that many share one wait for the disk. The
queues in a header `CC` got their copies with the original publish, so the header is removed.

Not here: how the broker handles a publish (`broker.sessions.publishes`).
"""

import base64
import binascii
from typing import Any

from warren.admin.direct_link import DirectLink
from warren.admin.http.documents import Document, check_table, is_integer, number, require, short, text
from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import (
    JSON,
    ApiResponse,
    HttpFault,
    bad_request,
    json_response,
    not_authorised,
    not_found,
)
from warren.admin.http.router import Resource, Routes, in_vhost
from warren.admin.http.schemas import TABLE, TEXT, WHOLE, an_object, one_of
from warren.admin.listing.lists import in_slices, json_pieces
from warren.admin.rabbitmq_json import amqp_json
from warren.admin.resources.user_links import message_link
from warren.errors import ACCESS_REFUSED, NOT_FOUND
from warren.wire.method_stream import ReceivedMethod
from warren.wire.methods import BasicAck, BasicGet, BasicGetEmpty, BasicGetOk, BasicNack, QueueDeclare, QueueDeclareOk
from warren.wire.properties import Properties, decode_properties, edit_headers

NUMBERS = ("delivery_mode", "priority", "timestamp")
TEXTS = (
    "content_type",
    "content_encoding",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)
PROPERTY_ORDER = (
    *reversed(TEXTS[6:]),
    "timestamp",
    "message_id",
    "expiration",
    "reply_to",
    "correlation_id",
    "priority",
    "delivery_mode",
    "headers",
    "content_encoding",
    "content_type",
)
ACK_MODES = ("ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false")
ANSWER_BYTES_MAX = 64 * 1024 * 1024
"""The approximate limit of one response, however many messages were requested."""

ROW_BYTES = 2048
"""The memory of a message beside its properties and body."""


def routes() -> Routes:
    return {
        "/api/exchanges/{vhost}/{name}/publish": Resource(
            in_vhost,
            {"POST": publish},
            an_object(
                {
                    "routing_key": TEXT,
                    "properties": TABLE,
                    "payload": TEXT,
                    "payload_encoding": one_of("string", "base64"),
                }
            ),
            large=True,
        ),
        "/api/queues/{vhost}/{name}/get": Resource(
            in_vhost,
            {"POST": get},
            an_object(
                {"count": WHOLE, "ackmode": one_of(*ACK_MODES), "encoding": one_of("auto", "base64")}, truncate=WHOLE
            ),
        ),
        "/api/queues/{vhost}/{name}/move": Resource(
            in_vhost, {"POST": move}, an_object({"destination": TEXT}, count=WHOLE)
        ),
    }


async def publish(call: ApiRequest) -> ApiResponse:
    document = await call.document()
    require(document, "routing_key", "properties", "payload", "payload_encoding")
    body = _payload(document)
    properties = _properties(document["properties"])
    exchange = "" if call.params["name"] == "amq.default" else short("exchange", call.params["name"])
    if call.params["vhost"] not in call.context.broker.vhosts:
        raise not_authorised("Access refused.")
    key = document["routing_key"] if isinstance(document["routing_key"], str) else str(document["routing_key"])
    async with message_link(call) as link:
        return json_response({"routed": await link.publish(exchange, short("routing_key", key), properties, body)})


def _payload(document: Document) -> bytes:
    payload, encoding = document["payload"], document["payload_encoding"]
    if not isinstance(payload, str):
        raise bad_request("payload_not_string")
    if encoding == "string":
        return payload.encode("utf-8", "surrogateescape")
    if encoding != "base64":
        raise HttpFault(400, "bad_request", ["unsupported_encoding", encoding])
    try:
        return base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError) as error:
        raise HttpFault(400, "bad_request", ["not_base64", payload]) from error


def _properties(given: object) -> Properties:
    """Unknown properties are ignored, as in RabbitMQ."""
    if given == []:
        return Properties()
    if not isinstance(given, dict):
        raise bad_request("properties must be an object")
    properties = Properties()
    for name in NUMBERS:
        if name in given:
            setattr(properties, name, _number(name, given[name]))
    for name in TEXTS:
        if name in given:
            if not isinstance(given[name], str):
                raise HttpFault(400, "bad_request", ["not_string", name])
            setattr(properties, name, short(name, given[name]))
    headers = given.get("headers", {})
    if headers not in ([], {}):
        if not isinstance(headers, dict):
            raise bad_request("headers must be an object")
        check_table("headers", headers)
        properties.headers = headers
    return properties


def _number(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise HttpFault(400, "bad_request", ["not_int", name])
    # one byte, except the timestamp, which has eight
    return value & (2**64 - 1) if name == "timestamp" else value & 0xFF


async def get(call: ApiRequest) -> ApiResponse:
    document = await call.document()
    require(document, "ackmode", "count", "encoding")
    mode, encoding = text(document, "ackmode"), text(document, "encoding")
    if mode not in ACK_MODES:
        raise bad_request(f"ackmode must be one of {', '.join(ACK_MODES)}")
    if encoding not in ("auto", "base64"):
        raise bad_request("Unsupported encoding. Please use auto or base64.")
    count = _integer(document["count"])
    truncate = _integer(document["truncate"]) if "truncate" in document else -1
    if call.params["vhost"] not in call.context.broker.vhosts:
        raise not_authorised("Access refused.")
    try:
        async with message_link(call) as link:
            taken = await _get_messages(link, call.params["name"], count, mode)
    except HttpFault as fault:
        raise _refused_get(fault) from fault
    rows = (_row(method, received, encoding, truncate) async for method, received in in_slices(taken))
    pieces = [piece async for piece in json_pieces(rows)]
    return ApiResponse(200, b"[" + b",".join(pieces) + b"]", JSON)


def _refused_get(fault: HttpFault) -> HttpFault:
    """RabbitMQ responds with 401 for a queue that the user may not read, and with 404 for a missing queue."""
    reason = fault.reason if isinstance(fault.reason, str) else ""
    if reason.startswith(f"{ACCESS_REFUSED} "):
        return not_authorised(reason.removeprefix(f"{ACCESS_REFUSED} "))
    if reason.startswith(f"{NOT_FOUND} "):
        return HttpFault(404, "not_found", reason.removeprefix(f"{NOT_FOUND} "))
    return fault


def _integer(value: object) -> int:
    if isinstance(value, str) and is_integer(value):
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise HttpFault(400, "bad_request", ["not_integer", value])
    return int(value)


async def _get_messages(link: DirectLink, queue: str, count: int, mode: str) -> list[tuple[BasicGetOk, ReceivedMethod]]:
    """Up to `count` messages; a negative count means all."""
    no_ack = mode == "ack_requeue_false"
    taken: list[tuple[BasicGetOk, ReceivedMethod]] = []
    size_bytes = 0
    while len(taken) != count and size_bytes < ANSWER_BYTES_MAX:
        received = await link.ask_either(BasicGet(queue, no_ack), BasicGetOk, BasicGetEmpty)
        if not isinstance(received.method, BasicGetOk):
            break
        taken.append((received.method, received))
        size_bytes += len(received.body) + len(received.header) + ROW_BYTES
    if taken and not no_ack:
        last = taken[-1][0].delivery_tag
        link.send_method(BasicNack(delivery_tag=last, multiple=True, requeue=mode != "reject_requeue_false"))
    return taken


def _row(method: BasicGetOk, received: ReceivedMethod, encoding: str, truncate: int) -> dict[str, Any]:
    body = received.body if truncate < 0 else received.body[:truncate]
    payload, payload_encoding = _encoded(body, encoding)
    return {
        "payload_bytes": len(received.body),
        "redelivered": method.redelivered,
        "exchange": method.exchange,
        "routing_key": method.routing_key,
        "message_count": method.message_count,
        "properties": properties_row(received.header),
        "payload": payload,
        "payload_encoding": payload_encoding,
    }


def _encoded(body: bytes, encoding: str) -> tuple[str, str]:
    if encoding == "auto":
        try:
            return body.decode(), "string"
        except UnicodeDecodeError:
            pass
    return base64.b64encode(body).decode(), "base64"


def properties_row(header: bytes) -> dict[str, Any] | list[Any]:
    """The properties that are set; without any, RabbitMQ writes an empty array."""
    properties = decode_properties(header, 0, len(header))
    row: dict[str, Any] = {}
    for name in PROPERTY_ORDER:
        value = getattr(properties, name)
        if value is not None:
            row[name] = amqp_json(value) if name == "headers" else value
    return row or []


BATCH_MESSAGES = 200
BATCH_BYTES = 8 * 1024 * 1024


async def move(call: ApiRequest) -> ApiResponse:
    """Move `count` messages, or all ready ones, to the queue `destination`; the number that were moved."""
    document = await call.document()
    require(document, "destination")
    source, destination = call.params["name"], text(document, "destination")
    queues = call.vhost().topology.queues
    if source not in queues:
        raise not_found()
    if destination not in queues:
        raise bad_request(f"no queue '{destination}' in vhost '{call.params['vhost']}'")
    if destination == source:
        raise bad_request("a queue's messages are in it already")
    moved = 0
    async with message_link(call) as link:
        # the queue's home node knows its length
        ready = (await link.ask(QueueDeclare(source, passive=True), QueueDeclareOk)).message_count
        wanted = number(document, "count", ready)
        while moved < wanted:
            batch = await _take_batch(link, source, min(BATCH_MESSAGES, wanted - moved))
            gone = await _publish_batch(link, destination, batch)
            moved += gone
            if gone < len(batch) or not batch:
                break
    return json_response({"moved": moved})


async def _take_batch(link: DirectLink, queue: str, count: int) -> list[ReceivedMethod]:
    taken: list[ReceivedMethod] = []
    size_bytes = 0
    while len(taken) < count and size_bytes < BATCH_BYTES:
        received = await link.ask_either(BasicGet(queue, False), BasicGetOk, BasicGetEmpty)
        if not isinstance(received.method, BasicGetOk):
            break
        taken.append(received)
        size_bytes += len(received.body)
    return taken


async def _publish_batch(link: DirectLink, queue: str, batch: list[ReceivedMethod]) -> int:
    """How many messages the other queue accepted; the rest is requeued."""
    if not batch:
        return 0
    contents = [(edit_headers(received.header, ["CC"], {}), received.body) for received in batch]
    outcomes = await link.publish_all("", queue, contents)
    for received, taken in zip(batch, outcomes, strict=True):
        assert isinstance(received.method, BasicGetOk)
        tag = received.method.delivery_tag
        link.send_method(BasicAck(tag, False) if taken else BasicNack(tag, False, True))
    return outcomes.count(True)
