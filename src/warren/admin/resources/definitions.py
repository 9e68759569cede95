"""Definitions: export and import over HTTP, in RabbitMQ's format.

An export leaves out predeclared exchanges and exclusive queues. The export of one virtual host does not name it, so it
can be imported into another. An import comes as the body or as a file in a browser's form (`multipart/form-data`),
which may name a page to continue with.

Not here: reading a file (`admin.definition_import`).
"""

import re
from email import message_from_bytes
from email.message import Message
from typing import Any

from warren.admin.definition_import import DefinitionImporter, DefinitionsFile, InvalidDefinitionsFile
from warren.admin.http.request import ApiRequest
from warren.admin.http.responses import ApiResponse, bad_request, no_content
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
from warren.admin.listing.responses import object_response
from warren.admin.rabbitmq_json import amqp_json
from warren.admin.resources.bindings import binding_facts, binding_row
from warren.admin.resources.permissions import permission_row, topic_permission_row
from warren.admin.resources.policies import global_parameter_row, parameter_rows, policy_row
from warren.admin.resources.users import user_row
from warren.broker.broker import Broker
from warren.broker.sessions.handshake import COMPATIBLE_VERSION
from warren.broker.vhost import Vhost


def definitions_document(broker: Broker) -> dict[str, Any]:
    """The definitions of the cluster."""
    access, policies = broker.access, broker.policies
    vhosts = [broker.vhosts[name] for name in sorted(broker.vhosts)]
    return {
        "rabbit_version": COMPATIBLE_VERSION,
        "rabbitmq_version": COMPATIBLE_VERSION,
        "product_name": "RabbitMQ",
        "product_version": COMPATIBLE_VERSION,
        "users": [user_row(access.users[name]) for name in sorted(access.users)],
        "vhosts": [_vhost(vhost) for vhost in vhosts],
        "permissions": [permission_row(access.permissions[key]) for key in sorted(access.permissions)],
        "topic_permissions": [
            topic_permission_row(access.topic_permissions[key]) for key in sorted(access.topic_permissions)
        ],
        "parameters": list(parameter_rows(broker)),
        "global_parameters": [
            global_parameter_row(name, value) for name, value in sorted(policies.global_parameters.items())
        ],
        "policies": [policy_row(policies.policies[key]) for key in sorted(policies.policies)],
        "queues": [row for vhost in vhosts for row in _queues(vhost)],
        "exchanges": [row for vhost in vhosts for row in _exchanges(vhost)],
        "bindings": [row for vhost in vhosts for row in _bindings(vhost)],
    }


def vhost_definitions_document(broker: Broker, vhost: Vhost) -> dict[str, Any]:
    """The definitions of one virtual host."""
    policies = broker.policies.policies
    return {
        "rabbit_version": COMPATIBLE_VERSION,
        "parameters": [row for row in parameter_rows(broker) if row["vhost"] == vhost.name],
        "policies": [policy_row(policies[key]) for key in sorted(policies) if key[0] == vhost.name],
        "queues": [_nameless(row) for row in _queues(vhost)],
        "exchanges": [_nameless(row) for row in _exchanges(vhost)],
        "bindings": [_nameless(row) for row in _bindings(vhost)],
    }


def _nameless(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "vhost"}


def _vhost(vhost: Vhost) -> dict[str, Any]:
    """RabbitMQ exports the name only but imports the rest as well."""
    described = {"description": vhost.description, "tags": vhost.tags}
    return {"name": vhost.name} | {name: value for name, value in described.items() if value}


def _queues(vhost: Vhost) -> list[dict[str, Any]]:
    return [
        {
            "name": queue.name,
            "vhost": vhost.name,
            "durable": queue.durable,
            "auto_delete": queue.auto_delete,
            "arguments": amqp_json(queue.arguments),
        }
        for queue in vhost.topology.queues.values()
        if not queue.exclusive
    ]


def _exchanges(vhost: Vhost) -> list[dict[str, Any]]:
    return [
        {
            "name": exchange.name,
            "vhost": vhost.name,
            "type": exchange.type,
            "durable": exchange.durable,
            "auto_delete": exchange.auto_delete,
            "internal": exchange.internal,
            "arguments": amqp_json(exchange.arguments),
        }
        for exchange in vhost.topology.exchanges.values()
        if exchange.name and not exchange.name.startswith("amq.")
    ]


def _bindings(vhost: Vhost) -> list[dict[str, Any]]:
    topology = vhost.topology
    rows = []
    for exchange in topology.exchanges.values():
        for binding in exchange.outgoing:
            facts = binding_facts(vhost.name, binding)
            queue = topology.queues.get(facts.destination) if facts.destination_type == "queue" else None
            if queue is None or not queue.exclusive:
                row = binding_row(facts)
                del row["properties_key"]
                rows.append(row)
    return rows


_NOT_IN_FILE_NAMES = re.compile(r"[^\w.@ -]", re.ASCII)


_DEFINITIONS = an_object(
    users=an_array({"name": TEXT, "tags": NAMES}, password_hash=TEXT, limits=TABLE),
    vhosts=an_array({"name": TEXT}, description=TEXT, tags=NAMES),
    permissions=an_array({"user": TEXT, "vhost": TEXT, "configure": PATTERN, "write": PATTERN, "read": PATTERN}),
    topic_permissions=an_array({"user": TEXT, "vhost": TEXT, "exchange": TEXT, "write": PATTERN, "read": PATTERN}),
    parameters=an_array({"vhost": TEXT, "component": TEXT, "name": TEXT, "value": ANY_VALUE}),
    global_parameters=an_array({"name": TEXT, "value": ANY_VALUE}),
    policies=an_array({"vhost": TEXT, "name": TEXT, "pattern": PATTERN, "definition": TABLE}, priority=WHOLE),
    exchanges=an_array({"vhost": TEXT, "name": TEXT, "type": TEXT}, arguments=TABLE),
    queues=an_array({"vhost": TEXT, "name": TEXT}, durable=FLAG, arguments=TABLE),
    bindings=an_array(
        {
            "vhost": TEXT,
            "source": TEXT,
            "destination": TEXT,
            "destination_type": one_of("queue", "exchange"),
            "routing_key": TEXT,
        },
        arguments=TABLE,
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
    return _as_download(call, object_response(call, definitions_document(call.context.broker)))


async def vhost_definitions(call: ApiRequest) -> ApiResponse:
    broker = call.context.broker
    vhost = broker.vhosts.get(call.params["vhost"])
    if vhost is None:
        raise bad_request("vhost_not_found")
    return _as_download(call, object_response(call, vhost_definitions_document(broker, vhost)))


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
    form = message_from_bytes(b"Content-Type: " + content_type.encode("latin-1", "replace") + b"\r\n\r\n" + body)
    parts = {_field(part): part for part in form.walk() if not part.is_multipart()}
    back_to = _content(parts["redirect"]).decode("ascii", "replace").strip() if "redirect" in parts else ""
    file = _content(parts["file"]) if "file" in parts else b""
    # only relative places within this site, and nothing that could end the header
    return file, back_to if back_to.startswith(("../", "./", "#")) and back_to.isprintable() else ""


def _field(part: Message) -> str:
    return str(part.get_param("name", "", "content-disposition"))


def _content(part: Message) -> bytes:
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


async def import_all(call: ApiRequest) -> ApiResponse:
    return await _import(call, "")


async def import_into_vhost(call: ApiRequest) -> ApiResponse:
    return await _import(call, call.target_vhost())


async def _import(call: ApiRequest, vhost: str) -> ApiResponse:
    body, back_to = file_in_form(call.header("content-type"), await call.body())
    context = call.context
    try:
        await DefinitionImporter(context.broker, context.command_queue).take([DefinitionsFile("", body)], vhost)
    except InvalidDefinitionsFile as error:
        raise bad_request(f"failed_to_parse_json: {error}") from error
    return ApiResponse(303, headers={"location": back_to}) if back_to else no_content()
