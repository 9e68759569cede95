"""Definitions: export and import over HTTP, in RabbitMQ's format.

An export leaves out predeclared exchanges and exclusive queues. The export of one virtual host does not name it, so it
can be imported into another. An import comes as the body or as a file in a browser's form (`multipart/form-data`),
which may name a page to continue with.

Not here: reading a file (`admin.definition_import`).
"""

import asyncio
import re
from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message
from itertools import chain
from typing import Any

from warren.admin.definition_import import DefinitionImporter, DefinitionsFile, InvalidDefinitionsFile
from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import ApiResponse, bad_request, no_content, to_json
from warren.admin.http.router import Resource, Routes, administrator
from warren.admin.http.schemas import (
    ANY_VALUE,
    FLAG,
    NAMES,
    PATTERN,
    TABLE,
    TEXT,
    WHOLE,
    an_array,
    an_object,
    one_of,
)
from warren.admin.listing.columns import selected_columns
from warren.admin.listing.lists import in_slices, json_pieces
from warren.admin.listing.responses import object_response
from warren.admin.rabbitmq_json import exact_arguments
from warren.admin.resources.bindings import BindingFacts, binding_facts, binding_row
from warren.admin.resources.permissions import permission_row, topic_permission_row
from warren.admin.resources.policies import global_parameter_row, parameter_rows, policy_row
from warren.admin.resources.users import user_row
from warren.broker.broker import Broker
from warren.broker.metadata.policy_definitions import is_sealed
from warren.broker.sessions.handshake import COMPATIBLE_VERSION
from warren.broker.vhost import Vhost

Rows = Iterator[dict[str, Any]]
"""Rows that are built when they are read, of objects listed before: an export is long, and definitions change."""


def definitions_document(broker: Broker) -> dict[str, str | Rows]:
    """The definitions of the cluster."""
    access, policies = broker.access, broker.policies
    vhosts = [broker.vhosts[name] for name in sorted(broker.vhosts)]
    parameters = list(_parameters(broker))
    global_parameters = [global_parameter_row(*item) for item in sorted(policies.global_parameters.items())]
    return {
        "rabbit_version": COMPATIBLE_VERSION,
        "rabbitmq_version": COMPATIBLE_VERSION,
        "product_name": "RabbitMQ",
        "product_version": COMPATIBLE_VERSION,
        "users": map(user_row, [access.users[name] for name in sorted(access.users)]),
        "vhosts": map(_vhost, vhosts),
        "permissions": map(permission_row, [access.permissions[key] for key in sorted(access.permissions)]),
        "topic_permissions": map(
            topic_permission_row, [access.topic_permissions[key] for key in sorted(access.topic_permissions)]
        ),
        "parameters": iter(parameters),
        "global_parameters": iter(global_parameters),
        "policies": map(policy_row, [policies.policies[key] for key in sorted(policies.policies)]),
        "queues": chain.from_iterable([_queues(vhost) for vhost in vhosts]),
        "exchanges": chain.from_iterable([_exchanges(vhost) for vhost in vhosts]),
        "bindings": chain.from_iterable([_bindings(vhost) for vhost in vhosts]),
    }


def vhost_definitions_document(broker: Broker, vhost: Vhost) -> dict[str, str | Rows]:
    """The definitions of one virtual host."""
    policies = broker.policies.policies
    return {
        "rabbit_version": COMPATIBLE_VERSION,
        "parameters": iter([row for row in _parameters(broker) if row["vhost"] == vhost.name]),
        "policies": map(policy_row, [policies[key] for key in sorted(policies) if key[0] == vhost.name]),
        "queues": map(_nameless, _queues(vhost)),
        "exchanges": map(_nameless, _exchanges(vhost)),
        "bindings": map(_nameless, _bindings(vhost)),
    }


def _parameters(broker: Broker) -> Iterator[dict[str, Any]]:
    """With their definers. Parameters that could not be decrypted are left out: no import would accept them."""
    definers = {key: parameter.definer for key, parameter in broker.policies.parameters.items() if parameter.definer}
    for row in parameter_rows(broker):
        if not is_sealed(row["value"]):
            definer = definers.get((row["vhost"], row["component"], row["name"]))
            yield row if definer is None else {**row, "definer": definer}


def _nameless(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "vhost"}


def _vhost(vhost: Vhost) -> dict[str, Any]:
    """RabbitMQ exports the name only but imports the rest as well."""
    described = {"description": vhost.description, "tags": vhost.tags}
    return {"name": vhost.name} | {name: value for name, value in described.items() if value}


def _queues(vhost: Vhost) -> Rows:
    queues = [queue for queue in vhost.topology.queues.values() if not queue.exclusive]
    return (
        {
            "name": queue.name,
            "vhost": vhost.name,
            "durable": queue.durable,
            "auto_delete": queue.auto_delete,
            **exact_arguments(queue.arguments),
        }
        for queue in queues
    )


def _exchanges(vhost: Vhost) -> Rows:
    exchanges = vhost.topology.exchanges.values()
    declared = [exchange for exchange in exchanges if exchange.name and not exchange.name.startswith("amq.")]
    return (
        {
            "name": exchange.name,
            "vhost": vhost.name,
            "type": exchange.type,
            "durable": exchange.durable,
            "auto_delete": exchange.auto_delete,
            "internal": exchange.internal,
            **exact_arguments(exchange.arguments),
        }
        for exchange in declared
    )


def _bindings(vhost: Vhost) -> Rows:
    topology = vhost.topology
    exclusive = {queue.name for queue in topology.queues.values() if queue.exclusive}
    bindings = [binding for exchange in topology.exchanges.values() for binding in exchange.outgoing]
    found = (binding_facts(vhost.name, binding) for binding in bindings)
    return (
        _binding(facts) for facts in found if facts.destination_type != "queue" or facts.destination not in exclusive
    )


def _binding(facts: BindingFacts) -> dict[str, Any]:
    row = {**binding_row(facts), **exact_arguments(facts.arguments)}
    del row["properties_key"]
    return row


async def _definitions_response(call: ApiRequest, document: dict[str, str | Rows]) -> ApiResponse:
    """The document as JSON, built in slices."""
    if "columns" in call.query:
        wanted = selected_columns(call.query)
        whole = {name: await _built(value) for name, value in document.items() if name in wanted}
        return _as_download(call, object_response(call, whole))
    members = [to_json(name) + b":" + await _member(value) for name, value in document.items()]
    return _as_download(call, ApiResponse(200, b"{" + b",".join(members) + b"}"))


async def _member(value: str | Rows) -> bytes:
    if isinstance(value, str):
        return to_json(value)
    pieces = [piece async for piece in json_pieces(in_slices(value))]
    return b"[" + b",".join(pieces) + b"]"


async def _built(value: str | Rows) -> str | list[dict[str, Any]]:
    return value if isinstance(value, str) else [row async for row in in_slices(value)]


_PARTS_MAX = 8
_PART_HEAD_BYTES_MAX = 4096
_REDIRECT_BYTES_MAX = 4096
_FIND_BYTES = 1024 * 1024
_NOT_IN_FILE_NAMES = re.compile(r"[^\w.@ -]", re.ASCII)


_DEFINITIONS = an_object(
    users=an_array({"name": TEXT, "tags": NAMES}, password_hash=TEXT, limits=TABLE),
    vhosts=an_array({"name": TEXT}, description=TEXT, tags=NAMES),
    permissions=an_array({"user": TEXT, "vhost": TEXT, "configure": PATTERN, "write": PATTERN, "read": PATTERN}),
    topic_permissions=an_array({"user": TEXT, "vhost": TEXT, "exchange": TEXT, "write": PATTERN, "read": PATTERN}),
    parameters=an_array({"vhost": TEXT, "component": TEXT, "name": TEXT, "value": ANY_VALUE}, definer=TEXT),
    global_parameters=an_array({"name": TEXT, "value": ANY_VALUE}),
    policies=an_array({"vhost": TEXT, "name": TEXT, "pattern": PATTERN, "definition": TABLE}, priority=WHOLE),
    exchanges=an_array({"vhost": TEXT, "name": TEXT, "type": TEXT}, arguments=TABLE, arguments_table=TEXT),
    queues=an_array({"vhost": TEXT, "name": TEXT}, durable=FLAG, arguments=TABLE, arguments_table=TEXT),
    bindings=an_array(
        {
            "vhost": TEXT,
            "source": TEXT,
            "destination": TEXT,
            "destination_type": one_of("queue", "exchange"),
            "routing_key": TEXT,
        },
        arguments=TABLE,
        arguments_table=TEXT,
    ),
)


def routes() -> Routes:
    everything = Resource(administrator, {"GET": all_definitions, "POST": import_all}, _DEFINITIONS, large=True)
    return {
        "/api/definitions": everything,
        "/api/all-configuration": everything,
        "/api/definitions/{vhost}": Resource(
            administrator, {"GET": vhost_definitions, "POST": import_into_vhost}, _DEFINITIONS, large=True
        ),
    }


async def all_definitions(call: ApiRequest) -> ApiResponse:
    return await _definitions_response(call, definitions_document(call.context.broker))


async def vhost_definitions(call: ApiRequest) -> ApiResponse:
    broker = call.context.broker
    vhost = broker.vhosts.get(call.params["vhost"])
    if vhost is None:
        raise bad_request("vhost_not_found")
    return await _definitions_response(call, vhost_definitions_document(broker, vhost))


def _as_download(call: ApiRequest, answer: ApiResponse) -> ApiResponse:
    """With `download=FILE`, the browser saves the response under that name."""
    if "download" not in call.query:
        return answer
    name = _NOT_IN_FILE_NAMES.sub("_", call.query["download"])
    return ApiResponse(
        answer.status, answer.body, answer.content_type, {"content-disposition": f'attachment; filename="{name}"'}
    )


def file_in_form(content_type: str, body: bytes) -> tuple[bytes, str]:
    """The file in a form and its field `redirect`. A body that is no form is the file itself."""
    if not content_type.startswith("multipart/form-data"):
        return body, ""
    parts = dict(_parts(content_type, body))
    file, redirect = parts.get("file", slice(0)), parts.get("redirect", slice(0))
    back_to = body[redirect][:_REDIRECT_BYTES_MAX].decode("ascii", "replace").strip()
    # only relative places within this site, and nothing that could end the header
    return body[file], back_to if back_to.startswith(("../", "./", "#")) and back_to.isprintable() else ""


def _parts(content_type: str, body: bytes) -> Iterator[tuple[str, slice]]:
    """Name and place of the first parts of a form. Python's parser goes line by line, which takes seconds for a large
    body, and a split copies it; browsers need no more than this."""
    if len(content_type) > _PART_HEAD_BYTES_MAX:
        # Python reads the parameters of a header in quadratic time
        raise bad_request("the content type is too long")
    described = Message()
    described["content-type"] = content_type
    boundary = described.get_boundary("").encode("latin-1", "replace")
    if not boundary:
        return
    line = b"\r\n--" + boundary
    start = len(line) - 2
    if not body.startswith(line[2:]):
        first = _find(body, line, 0)
        start = -1 if first < 0 else first + len(line)
    for _ in range(_PARTS_MAX):
        if start < 0:
            return
        end = _find(body, line, start)
        head_end = body.find(b"\r\n\r\n", start, min(start + _PART_HEAD_BYTES_MAX, end if end >= 0 else len(body)))
        if head_end >= 0:
            head = message_from_bytes(body[start:head_end].strip())
            yield str(head.get_param("name", "", "content-disposition")), slice(head_end + 4, end if end >= 0 else None)
        start = end + len(line) if end >= 0 else -1


def _find(body: bytes, line: bytes, start: int) -> int:
    """Like `bytes.find`, but other threads can run meanwhile."""
    for first in range(start, len(body), _FIND_BYTES):
        found = body.find(line, first, first + _FIND_BYTES + len(line))
        if found >= 0:
            return found
    return -1


async def import_all(call: ApiRequest) -> ApiResponse:
    return await _import(call, "")


async def import_into_vhost(call: ApiRequest) -> ApiResponse:
    return await _import(call, call.target_vhost())


async def _import(call: ApiRequest, vhost: str) -> ApiResponse:
    # finding the file in a form of 20 MB takes tens of milliseconds
    body, back_to = await asyncio.to_thread(file_in_form, call.header("content-type"), await call.body())
    context = call.context
    try:
        importer = DefinitionImporter(context.broker, context.command_queue, call.api_user.definer)
        await importer.take([DefinitionsFile("", body)], vhost)
    except InvalidDefinitionsFile as error:
        raise bad_request(f"failed_to_parse_json: {error}") from error
    return ApiResponse(303, headers={"location": back_to}) if back_to else no_content()
