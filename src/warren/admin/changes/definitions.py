"""Definitions are brought: a file is taken whole, or refused whole with the line that is at fault.

RabbitMQ takes what comes before the fault; here nothing changes. What exists stays as it is among exchanges, queues
and bindings; users, permissions, policies and parameters are set as the file says.

Not here: taking them away (`resources.definitions`), lines (`changes.definition_lines`).
"""

import asyncio
from collections.abc import Awaitable, Callable

from warren.access.commands import SetPermission, SetTopicPermission, SetUserLimits, SetVhostLimits
from warren.admin.changes import fields
from warren.admin.changes.definition_lines import Definition, NotDefinitions, definitions_in
from warren.admin.changes.fields import Document
from warren.admin.changes.form_data import file_in_form
from warren.admin.changes.policies import parameter_command, policy_command
from warren.admin.changes.users import user_command
from warren.admin.changes.vhosts import vhost_command
from warren.admin.http.answers import Answer, no_content
from warren.admin.http.call import Call
from warren.admin.http.faults import HttpFault, bad_request
from warren.admin.http.levels import administrator
from warren.admin.http.router import Resource
from warren.admin.station import Station
from warren.broker.commands import MakeBinding, MakeExchange, MakeQueue
from warren.errors import Refused
from warren.model.commands import Command, Together
from warren.policy.commands import SetGlobalParameter

Maker = Callable[[Station, Document], Awaitable[list[Command]]]


def routes(station: Station) -> dict[str, Resource]:
    return {
        "/api/definitions": Resource(administrator, {"POST": take_whole}),
        "/api/all-configuration": Resource(administrator, {"POST": take_whole}),
        "/api/definitions/{vhost}": Resource(administrator, {"POST": take_into_vhost}),
    }


async def take_whole(call: Call) -> Answer:
    return await _take(call, "")


async def take_into_vhost(call: Call) -> Answer:
    vhost = call.params["vhost"]
    if vhost not in call.station.broker.vhosts:
        raise HttpFault(404, "not_found", "vhost_not_found")
    return await _take(call, vhost)


async def _take(call: Call, vhost: str) -> Answer:
    body, back_to = file_in_form(call.header("content-type"), await call.body())
    try:
        await import_definitions(call.station, body, vhost)
    except NotDefinitions as error:
        raise bad_request(f"failed_to_parse_json: {error}") from error
    return Answer(303, headers={"location": back_to}) if back_to else no_content()


async def import_definitions(station: Station, body: bytes, vhost: str) -> int:
    """Do what a file says, into one virtual host if one is named; how many definitions it had."""
    if not body.strip():
        return 0
    definitions = await asyncio.to_thread(_parsed, body)
    steps: list[tuple[Definition, Command]] = []
    for section, maker in _MAKERS.items():
        if vhost and section not in _OF_VHOSTS:
            continue
        for definition in definitions:
            if definition.section == section:
                steps += [(definition, command) for command in await _commands(station, definition, maker, vhost)]
    try:
        await station.desk.carry_out(Together([command for _, command in steps]))
    except Refused as refusal:
        raise bad_request(_located(steps[refusal.at][0], refusal.reason)) from refusal
    return len(steps)


def _parsed(body: bytes) -> list[Definition]:
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NotDefinitions(f"line {body.count(bytes([10]), 0, error.start) + 1} is not UTF-8") from error
    return definitions_in(text)


async def _commands(station: Station, definition: Definition, maker: Maker, vhost: str) -> list[Command]:
    if not isinstance(definition.value, dict):
        raise bad_request(_located(definition, "an entry must be an object"))
    try:
        return await maker(station, {**definition.value, "vhost": vhost} if vhost else definition.value)
    except HttpFault as fault:
        raise bad_request(_located(definition, str(fault.reason))) from fault
    except Refused as refusal:
        raise bad_request(_located(definition, refusal.reason)) from refusal


def _located(definition: Definition, reason: str) -> str:
    name = definition.value.get("name") if isinstance(definition.value, dict) else None
    which = f" '{name}'" if isinstance(name, str) else ""
    return f"line {definition.line}, {definition.section}{which}: {reason.strip()}; nothing was imported"


async def _user(station: Station, document: Document) -> list[Command]:
    name = _name(document)
    commands = [await user_command(station, name, document)]
    limits = fields.table(document, "limits")
    return [*commands, SetUserLimits(name, limits)] if limits else commands


async def _vhost(station: Station, document: Document) -> list[Command]:
    name = _name(document)
    commands = [vhost_command(name, {**fields.table(document, "metadata"), **document})]
    limits = document.get("limits")
    return [*commands, SetVhostLimits(name, limits)] if isinstance(limits, dict) and limits else commands


async def _permission(station: Station, document: Document) -> list[Command]:
    fields.require(document, "user", "vhost", "configure", "write", "read")
    given = [fields.text(document, name) for name in ("user", "vhost", "configure", "write", "read")]
    return [SetPermission(*given)]


async def _topic_permission(station: Station, document: Document) -> list[Command]:
    fields.require(document, "user", "vhost", "exchange", "write", "read")
    given = [fields.text(document, name) for name in ("user", "vhost", "exchange", "write", "read")]
    return [SetTopicPermission(*given)]


async def _parameter(station: Station, document: Document) -> list[Command]:
    fields.require(document, "vhost", "component", "name", "value")
    vhost, component, name = (fields.text(document, field) for field in ("vhost", "component", "name"))
    return [parameter_command(vhost, component, name, document["value"])]


async def _global_parameter(station: Station, document: Document) -> list[Command]:
    return [SetGlobalParameter(_name(document), document.get("value"))]


async def _policy(station: Station, document: Document) -> list[Command]:
    fields.require(document, "vhost")
    return [policy_command(fields.text(document, "vhost"), _name(document), document, False)]


async def _exchange(station: Station, document: Document) -> list[Command]:
    fields.require(document, "vhost", "type")
    return [
        MakeExchange(
            fields.text(document, "vhost"),
            _name(document),
            fields.text(document, "type"),
            fields.flag(document, "durable", True),
            fields.flag(document, "auto_delete"),
            fields.flag(document, "internal"),
            fields.arguments(document),
        )
    ]


async def _queue(station: Station, document: Document) -> list[Command]:
    fields.require(document, "vhost")
    return [
        MakeQueue(
            fields.text(document, "vhost"),
            _name(document),
            fields.flag(document, "durable", True),
            fields.flag(document, "auto_delete"),
            fields.arguments(document),
        )
    ]


async def _binding(station: Station, document: Document) -> list[Command]:
    fields.require(document, "source", "vhost", "destination", "destination_type")
    kind = fields.text(document, "destination_type")
    if kind not in ("queue", "exchange"):
        raise bad_request(f"destination_type must be queue or exchange, not {kind}")
    return [
        MakeBinding(
            fields.text(document, "vhost"),
            fields.text(document, "source"),
            fields.text(document, "destination"),
            kind == "queue",
            fields.text(document, "routing_key"),
            fields.arguments(document),
        )
    ]


def _name(document: Document) -> str:
    fields.require(document, "name")
    return fields.text(document, "name")


_MAKERS: dict[str, Maker] = {
    "users": _user,
    "vhosts": _vhost,
    "permissions": _permission,
    "topic_permissions": _topic_permission,
    "parameters": _parameter,
    "global_parameters": _global_parameter,
    "policies": _policy,
    "exchanges": _exchange,
    "queues": _queue,
    "bindings": _binding,
}
"""Each list of a file, in the order in which one builds on another."""

_OF_VHOSTS = ("parameters", "policies", "exchanges", "queues", "bindings")
