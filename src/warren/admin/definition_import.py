"""Imports definition files: completely, or not at all with the line of the fault.

RabbitMQ keeps the definitions before a fault. Here all are checked before the first one is carried out, and nothing
changes, unless the nodes of a cluster do not agree in time or another change interferes; the error says so then. Users,
permissions, policies and parameters in a file replace existing ones, unless `keep` is set. Existing exchanges, queues
and bindings stay as they are.

Each definition is parsed with its line number, because the author of a file of ten thousand lines needs to know which
line is wrong.

A file may be large, and clients must not notice its import. So a thread parses it, entry by entry; entries become
commands in slices; and more commands than fit into one turn are checked in one series of turns and carried out in
another. Imports wait for each other: memory holds the entries of one file.

Not here: the commands (`broker.commands`), HTTP (`resources.definitions`).
"""

import asyncio
import json
import re
from base64 import b64decode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from warren.admin.command_queue import CommandQueue
from warren.admin.http import documents
from warren.admin.http.documents import Document, document_fault
from warren.admin.http.responses import HttpFault, bad_request
from warren.admin.rabbitmq_json import ARGUMENTS_TABLE
from warren.admin.resources.policies import parameter_command, policy_command
from warren.admin.resources.users import user_command
from warren.admin.resources.vhosts import vhost_command
from warren.admin.time_slices import TimeSlicer
from warren.broker.broker import Broker
from warren.broker.commands.control import PARTLY_DONE, UNAVAILABLE, CommandCheck, ProposedNames
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
from warren.errors import CommandRefused, ConnectionFault
from warren.wire.field_tables import Table, decode_table

_SPACE = re.compile(r"[ \t\r\n]{0,65536}")
"""Not all of it at once: a match keeps the interpreter from the other threads until it ends."""
_DIGITS_MAX = 20
ENTRY_CHARACTERS_MAX = 1024 * 1024
"""One entry is decoded in one call, which nothing can interrupt. A longer one would hold up the node's clients. An
exported queue fits, because its arguments came in one frame."""
_WINDOWS = (4 * 1024, 64 * 1024, ENTRY_CHARACTERS_MAX)
ENTRIES_MAX = 500_000
SLICE_COMMANDS = 100
"""The most commands of an import in one turn."""


def _number(digits: str) -> int | float:
    """Parse long numbers as floats: exact parsing takes too long, and 64 bits cannot hold them."""
    return int(digits) if len(digits) <= _DIGITS_MAX else float(digits)


_DECODER = json.JSONDecoder(parse_int=_number)


class InvalidDefinitionsFile(ValueError):
    """The text is not a JSON object."""


@dataclass(frozen=True, slots=True)
class DefinitionEntry:
    """One entry of a list in the file."""

    section: str
    line: int
    value: Any


def definitions_in(text: str) -> list[DefinitionEntry]:
    """Every entry of every list of the object, in file order. Values that are no list count as one entry."""
    try:
        return _DefinitionsParser(text).entries()
    except RecursionError as error:
        raise InvalidDefinitionsFile("the file is nested too deeply") from error


class _DefinitionsParser:
    """Goes through the text once, entry by entry."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        # the line of a position before `_at`
        self._line = 1
        self._line_at = 0
        self._found: list[DefinitionEntry] = []

    def entries(self) -> list[DefinitionEntry]:
        if self._next() != "{":
            raise InvalidDefinitionsFile("the file is not a JSON object")
        self._at += 1
        while self._next() == '"':
            section = self._decode()
            self._expect(":")
            self._section(section)
            self._skip(",")
        self._expect("}")
        if self._next():
            raise InvalidDefinitionsFile(f"line {self._line_here()}: something follows the object")
        return self._found

    def _section(self, section: str) -> None:
        if self._next() != "[":
            self._entry(section)
            return
        self._at += 1
        while self._next() not in ("]", ""):
            self._entry(section)
            if not self._skip(","):
                break
        self._expect("]")

    def _entry(self, section: str) -> None:
        line = self._line_here()
        if len(self._found) >= ENTRIES_MAX:
            raise InvalidDefinitionsFile(f"line {line}: the file has more than {ENTRIES_MAX} definitions; split it")
        self._found.append(DefinitionEntry(section, line, self._decode()))

    def _decode(self) -> Any:
        """The value at this position, decoded from a window of bounded size."""
        for size in _WINDOWS:
            window = self._text[self._at : self._at + size]
            cut = self._at + size < len(self._text)
            try:
                value, end = _DECODER.raw_decode(window)
            except json.JSONDecodeError as error:
                if not cut:
                    self._at += error.pos
                    raise self._not_json(error.msg) from error
                continue
            # a number at the end of the window may go on after it
            if end < len(window) or not cut:
                self._at += end
                return value
        reason = f"an entry has more than {ENTRY_CHARACTERS_MAX} characters, or is not JSON"
        raise InvalidDefinitionsFile(f"line {self._line_here()}: {reason}")

    def _next(self) -> str:
        """The next character after white space; empty at the end."""
        start = -1
        while self._at != start:
            start = self._at
            space = _SPACE.match(self._text, self._at)
            assert space is not None
            self._at = space.end()
        return self._text[self._at : self._at + 1]

    def _skip(self, mark: str) -> bool:
        if self._next() != mark:
            return False
        self._at += 1
        return True

    def _expect(self, mark: str) -> None:
        if not self._skip(mark):
            raise self._not_json(f"expected '{mark}'")

    def _line_here(self) -> int:
        self._line += self._text.count("\n", self._line_at, self._at)
        self._line_at = self._at
        return self._line

    def _not_json(self, reason: str) -> InvalidDefinitionsFile:
        return InvalidDefinitionsFile(f"line {self._line_here()} is not JSON: {reason}")


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
    unknown = "definer" in document and document["definer"] is None
    definer = None if unknown else documents.text(document, "definer")
    return [parameter_command(vhost, component, name, document["value"], definer)]


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
            _arguments(document),
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
            _arguments(document),
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
            _arguments(document),
        )
    ]


def _arguments(document: Document) -> Table:
    """The arguments as the export wrote them: in JSON, or whole in AMQP's encoding."""
    if ARGUMENTS_TABLE not in document:
        return documents.arguments(document)
    try:
        data = b64decode(documents.text(document, ARGUMENTS_TABLE), validate=True)
        if int.from_bytes(data[:4], "big") != len(data) - 4:
            raise ValueError("its length is wrong")
        return decode_table(data, 4, len(data))
    except (ValueError, ConnectionFault) as fault:
        raise bad_request(f"{ARGUMENTS_TABLE} must be an AMQP field table in base64") from fault


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

    def __init__(self, broker: Broker, command_queue: CommandQueue, definer: str | None = "") -> None:
        """`definer` is that of parameters that name none; empty: the operator of the node; None: unknown."""
        self._definer = definer
        self._broker = broker
        self._command_queue = command_queue

    async def take(self, files: list[DefinitionsFile], vhost: str = "", keep: bool = False) -> int:
        """Import all files, into one virtual host if one is named; the number of definitions.

        `keep`: existing objects stay unchanged. `CommandRefused` names the line of the fault, `InvalidDefinitionsFile`
        a file that is not JSON.
        """
        async with self._command_queue.one_import:
            return await self._take(files, vhost, keep)

    async def _take(self, files: list[DefinitionsFile], vhost: str, keep: bool) -> int:
        found = [(file, definition) for file in files for definition in await asyncio.to_thread(_parsed, file)]
        by_section: dict[str, list[_Step]] = {section: [] for section in (OF_VHOSTS if vhost else COMMANDS)}
        pace = TimeSlicer()
        for file, definition in found:
            steps = by_section.get(definition.section)
            if steps is not None:
                commands = await self._commands(file, definition, vhost)
                steps += [_Step(file, definition, one) for one in commands if not (keep and self._is_there(one))]
                await pace.rest()
        await self._carry_out([step for steps in by_section.values() for step in steps])
        return len(found)

    async def _carry_out(self, steps: list[_Step]) -> None:
        slices = [steps[first : first + SLICE_COMMANDS] for first in range(0, len(steps), SLICE_COMMANDS)]
        if len(slices) > 1:
            proposed = ProposedNames()
            for part in slices:
                await self._submit(part, CommandCheck([step.command for step in part], proposed), "")
        for number, part in enumerate(slices):
            done = f"; {number * SLICE_COMMANDS} of {len(steps)} {PARTLY_DONE}" if number else ""
            await self._submit(part, CommandBatch([step.command for step in part]), done)

    async def _submit(self, steps: list[_Step], command: Command, done: str) -> None:
        """`done` tells, in a refusal, which changes were made before."""
        try:
            await self._command_queue.carry_out(command)
        except CommandRefused as refusal:
            if refusal.kind == UNAVAILABLE:
                raise CommandRefused(UNAVAILABLE, f"{refusal.reason}; {PARTIAL_IMPORT_ADVICE}") from refusal
            raise steps[refusal.at].refused(refusal.reason + done) from refusal

    async def _commands(self, file: DefinitionsFile, definition: DefinitionEntry, vhost: str) -> list[Command]:
        value = definition.value
        if not isinstance(value, dict):
            raise _refused(file, definition, "an entry must be an object")
        trouble = document_fault(value)
        if trouble:
            raise _refused(file, definition, trouble)
        try:
            document = {**value, "vhost": vhost} if vhost else value
            if definition.section == "parameters" and not document.get("definer"):
                document = {**document, "definer": self._definer}
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
