"""What each definition of a file asks for, as commands.

What exists stays as it is among exchanges, queues and bindings, whoever asks.

Not here: the file (`importing.importer`), what the commands do (`broker`).
"""

from collections.abc import Awaitable, Callable

from warren.access.commands import SetPermission, SetTopicPermission, SetUserLimits, SetVhostLimits
from warren.admin.changes import fields
from warren.admin.changes.fields import Document
from warren.admin.changes.policies import parameter_command, policy_command
from warren.admin.changes.users import user_command
from warren.admin.changes.vhosts import vhost_command
from warren.admin.http.faults import bad_request
from warren.broker.commands import MakeBinding, MakeExchange, MakeQueue
from warren.model.commands import Command
from warren.model.settings import BrokerSettings
from warren.policy.commands import SetGlobalParameter

Maker = Callable[[BrokerSettings, Document], Awaitable[list[Command]]]


async def _user(settings: BrokerSettings, document: Document) -> list[Command]:
    name = _name(document)
    commands = [await user_command(settings, name, document)]
    limits = fields.table(document, "limits")
    return [*commands, SetUserLimits(name, limits)] if limits else commands


async def _vhost(settings: BrokerSettings, document: Document) -> list[Command]:
    name = _name(document)
    commands = [vhost_command(name, {**fields.table(document, "metadata"), **document})]
    limits = document.get("limits")
    return [*commands, SetVhostLimits(name, limits)] if isinstance(limits, dict) and limits else commands


async def _permission(settings: BrokerSettings, document: Document) -> list[Command]:
    fields.require(document, "user", "vhost", "configure", "write", "read")
    given = [fields.text(document, name) for name in ("user", "vhost", "configure", "write", "read")]
    return [SetPermission(*given)]


async def _topic_permission(settings: BrokerSettings, document: Document) -> list[Command]:
    fields.require(document, "user", "vhost", "exchange", "write", "read")
    given = [fields.text(document, name) for name in ("user", "vhost", "exchange", "write", "read")]
    return [SetTopicPermission(*given)]


async def _parameter(settings: BrokerSettings, document: Document) -> list[Command]:
    fields.require(document, "vhost", "component", "name", "value")
    vhost, component, name = (fields.text(document, field) for field in ("vhost", "component", "name"))
    return [parameter_command(vhost, component, name, document["value"])]


async def _global_parameter(settings: BrokerSettings, document: Document) -> list[Command]:
    return [SetGlobalParameter(_name(document), document.get("value"))]


async def _policy(settings: BrokerSettings, document: Document) -> list[Command]:
    fields.require(document, "vhost")
    return [policy_command(fields.text(document, "vhost"), _name(document), document, False)]


async def _exchange(settings: BrokerSettings, document: Document) -> list[Command]:
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


async def _queue(settings: BrokerSettings, document: Document) -> list[Command]:
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


async def _binding(settings: BrokerSettings, document: Document) -> list[Command]:
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


MAKERS: dict[str, Maker] = {
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

OF_VHOSTS = ("parameters", "policies", "exchanges", "queues", "bindings")
"""What a file for one virtual host may have."""
