"""Imports definition files: completely, or not at all with the line of the fault.

RabbitMQ keeps the definitions before a fault. Here nothing changes, unless the nodes of a cluster do not agree in time
or another change interferes; the error says so then. Users, permissions, policies and parameters in a file replace
existing ones, unless `keep` is set. Existing exchanges, queues and bindings stay as they are.

Each definition is parsed with its line number, because the author of a file of ten thousand lines needs to know which
line is wrong.

Not here: the commands (`broker.commands`), HTTP (`resources.definitions`).
"""

import asyncio
import json
from bisect import bisect_right
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, Final

from warren.admin.command_queue import CommandQueue
from warren.admin.http import documents
from warren.admin.http.documents import Document, document_fault
from warren.admin.http.responses import HttpFault, bad_request
from warren.admin.resources.policies import parameter_command, policy_command
from warren.admin.resources.users import user_command
from warren.admin.resources.vhosts import vhost_command
from warren.broker.broker import Broker
from warren.broker.commands.control import PARTLY_DONE, UNAVAILABLE
from warren.broker.commands.requests import (
    DeclareBinding,
    DeclareExchange,
    DeclareQueue,
    PutUser,
    PutVhost,
    SetGlobalParameter,
    SetParameter,
    SetPermission,
    SetPolicy,
    SetTopicPermission,
    SetUserLimits,
    SetVhostLimits,
)
from warren.broker.model.events import Command, CommandBatch
from warren.broker.model.settings import BrokerSettings
from warren.errors import CommandRefused

_SPACE = " \t\r\n"
_DIGITS_MAX = 20


def _number(digits: str) -> int | float:
    """Parse long numbers as floats: exact parsing takes too long, and 64 bits cannot hold them."""
    return int(digits) if len(digits) <= _DIGITS_MAX else float(digits)


_DECODER = json.JSONDecoder(parse_int=_number)


class InvalidDefinitionsFile(ValueError):
    """The text is not a JSON object."""


@dataclass(frozen=True)
class DefinitionEntry:
    """One entry of a list in the file."""

    section: str
    line: int
    value: Any


def definitions_in(text: str) -> list[DefinitionEntry]:
    """Every entry of every list of the object, in file order. Values that are no list count as one entry."""
    lines = _line_starts(text)
    found: list[DefinitionEntry] = []
    at = _past(text, 0)
    if text[at : at + 1] != "{":
        raise InvalidDefinitionsFile("the file is not a JSON object")
    try:
        at = _past(text, at + 1)
        while text[at : at + 1] == '"':
            section, at = scanstring(text, at + 1, True)
            at = _past(text, _expect(text, _past(text, at), ":"))
            at = _section(text, at, section, lines, found)
            at = _past(text, at)
            if text[at : at + 1] == ",":
                at = _past(text, at + 1)
        at = _past(text, _expect(text, at, "}"))
    except json.JSONDecodeError as error:
        raise InvalidDefinitionsFile(f"line {error.lineno} is not JSON: {error.msg}") from error
    except RecursionError as error:
        raise InvalidDefinitionsFile("the file is nested too deeply") from error
    if at != len(text):
        raise InvalidDefinitionsFile(f"line {bisect_right(lines, at)}: something follows the object")
    return found


def _section(text: str, at: int, section: str, lines: list[int], found: list[DefinitionEntry]) -> int:
    if text[at : at + 1] != "[":
        value, end = _DECODER.raw_decode(text, at)
        found.append(DefinitionEntry(section, bisect_right(lines, at), value))
        return end
    at = _past(text, at + 1)
    while text[at : at + 1] not in ("]", ""):
        value, end = _DECODER.raw_decode(text, at)
        found.append(DefinitionEntry(section, bisect_right(lines, at), value))
        at = _past(text, end)
        if text[at : at + 1] != ",":
            break
        at = _past(text, at + 1)
    return _expect(text, at, "]")


def _expect(text: str, at: int, mark: str) -> int:
    if text[at : at + 1] != mark:
        raise json.JSONDecodeError(f"expected '{mark}'", text, at)
    return at + 1


def _past(text: str, at: int) -> int:
    """The position after white space."""
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def _line_starts(text: str) -> list[int]:
    starts = [0]
    at = text.find("\n")
    while at >= 0:
        starts.append(at + 1)
        at = text.find("\n", at + 1)
    return starts


CommandFactory = Callable[[BrokerSettings, Document], Awaitable[list[Command]]]


async def _user(settings: BrokerSettings, document: Document) -> list[Command]:
    name = _name(document)
    commands = [await user_command(settings, name, document)]
    limits = documents.table(document, "limits")
    return [*commands, SetUserLimits(name, limits)] if limits else commands


async def _vhost(settings: BrokerSettings, document: Document) -> list[Command]:
    name = _name(document)
    commands = [vhost_command(name, {**documents.table(document, "metadata"), **document})]
    limits = document.get("limits")
    return [*commands, SetVhostLimits(name, limits)] if isinstance(limits, dict) and limits else commands


async def _permission(settings: BrokerSettings, document: Document) -> list[Command]:
    documents.require(document, "user", "vhost", "configure", "write", "read")
    given = [documents.text(document, name) for name in ("user", "vhost", "configure", "write", "read")]
    return [SetPermission(*given)]


async def _topic_permission(settings: BrokerSettings, document: Document) -> list[Command]:
    documents.require(document, "user", "vhost", "exchange", "write", "read")
    given = [documents.text(document, name) for name in ("user", "vhost", "exchange", "write", "read")]
    return [SetTopicPermission(*given)]


async def _parameter(settings: BrokerSettings, document: Document) -> list[Command]:
    documents.require(document, "vhost", "component", "name", "value")
    vhost, component, name = (documents.text(document, field) for field in ("vhost", "component", "name"))
    return [parameter_command(vhost, component, name, document["value"])]


async def _global_parameter(settings: BrokerSettings, document: Document) -> list[Command]:
    return [SetGlobalParameter(_name(document), document.get("value"))]


async def _policy(settings: BrokerSettings, document: Document) -> list[Command]:
    documents.require(document, "vhost")
    return [policy_command(documents.text(document, "vhost"), _name(document), document, False)]


async def _exchange(settings: BrokerSettings, document: Document) -> list[Command]:
    documents.require(document, "vhost", "type")
    return [
        DeclareExchange(
            documents.text(document, "vhost"),
            _name(document),
            documents.text(document, "type"),
            documents.flag(document, "durable", True),
            documents.flag(document, "auto_delete"),
            documents.flag(document, "internal"),
            documents.arguments(document),
        )
    ]


async def _queue(settings: BrokerSettings, document: Document) -> list[Command]:
    documents.require(document, "vhost")
    return [
        DeclareQueue(
            documents.text(document, "vhost"),
            _name(document),
            documents.flag(document, "durable", True),
            documents.flag(document, "auto_delete"),
            documents.arguments(document),
        )
    ]


async def _binding(settings: BrokerSettings, document: Document) -> list[Command]:
    documents.require(document, "source", "vhost", "destination", "destination_type")
    kind = documents.text(document, "destination_type")
    if kind not in ("queue", "exchange"):
        raise bad_request(f"destination_type must be queue or exchange, not {kind}")
    return [
        DeclareBinding(
            documents.text(document, "vhost"),
            documents.text(document, "source"),
            documents.text(document, "destination"),
            kind == "queue",
            documents.text(document, "routing_key"),
            documents.arguments(document),
        )
    ]


def _name(document: Document) -> str:
    documents.require(document, "name")
    return documents.text(document, "name")


COMMANDS: dict[str, CommandFactory] = {
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
"""The lists of a file, in the order in which they depend on each other."""

OF_VHOSTS = ("parameters", "policies", "exchanges", "queues", "bindings")
"""The lists that a file for one virtual host may have."""


PARTIAL_IMPORT_ADVICE: Final = (
    "all or some of the definitions may be there all the same: look, and import them again when the cluster answers, "
    "which does no harm"
)


@dataclass(frozen=True)
class DefinitionsFile:
    """The content of a file and its name; the body of a request has no name."""

    name: str
    body: bytes


@dataclass(frozen=True)
class _Step:
    """One command and its place in the file."""

    file: DefinitionsFile
    definition: DefinitionEntry
    command: Command

    def refused(self, reason: str) -> CommandRefused:
        return _refused(self.file, self.definition, reason)


class DefinitionImporter:
    """Imports definitions into one node."""

    def __init__(self, broker: Broker, command_queue: CommandQueue) -> None:
        self._broker = broker
        self._command_queue = command_queue

    async def take(self, files: list[DefinitionsFile], vhost: str = "", keep: bool = False) -> int:
        """Import all files, into one virtual host if one is named; the number of definitions.

        `keep`: existing objects stay unchanged. `CommandRefused` names the line of the fault, `InvalidDefinitionsFile`
        a file that is not JSON.
        """
        found = [(file, definition) for file in files for definition in await asyncio.to_thread(_parsed, file)]
        steps: list[_Step] = []
        for section in OF_VHOSTS if vhost else COMMANDS:
            for file, definition in found:
                if definition.section == section:
                    commands = await self._commands(file, definition, vhost)
                    steps += [_Step(file, definition, one) for one in commands if not (keep and self._is_there(one))]
        try:
            await self._command_queue.carry_out(CommandBatch([step.command for step in steps]))
        except CommandRefused as refusal:
            if refusal.kind == UNAVAILABLE:
                raise CommandRefused(UNAVAILABLE, f"{refusal.reason}; {PARTIAL_IMPORT_ADVICE}") from refusal
            raise steps[refusal.at].refused(refusal.reason) from refusal
        return len(found)

    async def _commands(self, file: DefinitionsFile, definition: DefinitionEntry, vhost: str) -> list[Command]:
        value = definition.value
        if not isinstance(value, dict):
            raise _refused(file, definition, "an entry must be an object")
        trouble = document_fault(value)
        if trouble:
            raise _refused(file, definition, trouble)
        try:
            document = {**value, "vhost": vhost} if vhost else value
            return await COMMANDS[definition.section](self._broker.settings, document)
        except HttpFault as fault:
            raise _refused(file, definition, _refusal_text(fault.reason)) from fault
        except CommandRefused as refusal:
            raise _refused(file, definition, refusal.reason) from refusal

    def _is_there(self, command: Command) -> bool:
        """Whether the object of the command exists."""
        access, policies, vhosts = self._broker.access, self._broker.policies, self._broker.vhosts
        match command:
            case CommandBatch():
                return self._is_there(command.commands[-1])
            case PutUser():
                return command.name in access.users
            case SetUserLimits():
                return command.user in access.users
            case PutVhost():
                return command.name in vhosts
            case SetVhostLimits():
                return command.vhost in vhosts and bool(vhosts[command.vhost].limits)
            case SetPermission():
                return (command.user, command.vhost) in access.permissions
            case SetTopicPermission():
                return (command.user, command.vhost, command.exchange) in access.topic_permissions
            case SetPolicy():
                return policies.policy(command.policy.vhost, command.policy.name, command.operator) is not None
            case SetParameter():
                return (command.vhost, command.component, command.name) in policies.parameters
            case SetGlobalParameter():
                return command.name in policies.global_parameters
        return False


def _parsed(file: DefinitionsFile) -> list[DefinitionEntry]:
    body = file.body
    if not body.strip():
        return []
    try:
        return definitions_in(body.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise InvalidDefinitionsFile(f"{file.name} line {line} is not UTF-8".lstrip()) from error
    except InvalidDefinitionsFile as error:
        raise InvalidDefinitionsFile(f"{file.name} {error}".lstrip()) from error


def _refused(file: DefinitionsFile, definition: DefinitionEntry, reason: str) -> CommandRefused:
    name = definition.value.get("name") if isinstance(definition.value, dict) else None
    which = f" '{name}'" if isinstance(name, str) else ""
    place = f"{file.name} line {definition.line}, {definition.section}{which}".lstrip()
    # parts of a large file may have been committed before other changes interfered
    outcome = "" if PARTLY_DONE in reason else "; nothing was imported"
    return CommandRefused("bad_request", f"{place}: {' '.join(reason.split())}{outcome}")


def _refusal_text(reason: str | list[object] | None) -> str:
    return ": ".join(str(word) for word in reason) if isinstance(reason, list) else str(reason)
