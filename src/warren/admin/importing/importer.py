"""Files of definitions are taken whole, or refused whole with the line that is at fault.

RabbitMQ takes what comes before the fault; here nothing changes. Only if the nodes of a cluster do not agree in time,
or others come between, something may have come about, and that is said. What a file says of users, permissions,
policies and parameters is set, unless what exists is to be kept.

Not here: what a definition asks for (`importing.makers`), lines (`importing.lines`), HTTP (`changes.definitions`).
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from warren.access.commands import (
    PutUser,
    PutVhost,
    SetPermission,
    SetTopicPermission,
    SetUserLimits,
    SetVhostLimits,
)
from warren.admin.desk import Desk
from warren.admin.http.documents import fault_of
from warren.admin.http.faults import HttpFault
from warren.admin.importing.lines import Definition, NotDefinitions, definitions_in
from warren.admin.importing.makers import MAKERS, OF_VHOSTS
from warren.broker.broker import Broker
from warren.broker.control import STAYS, UNAVAILABLE
from warren.errors import Refused
from warren.model.commands import Command, Together
from warren.policy.commands import SetGlobalParameter, SetParameter, SetPolicy

MAY_BE_THERE: Final = (
    "all or some of the definitions may be there all the same: look, and import them again when the cluster answers, "
    "which does no harm"
)


@dataclass(frozen=True)
class DefinitionsFile:
    """A file's bytes, and the name it is called by; that of a request's body is empty."""

    name: str
    body: bytes


@dataclass(frozen=True)
class _Step:
    """One command, and the place that asks for it."""

    file: DefinitionsFile
    definition: Definition
    command: Command

    def refused(self, reason: str) -> Refused:
        return _refused(self.file, self.definition, reason)


class Importer:
    """Brings definitions into one node."""

    def __init__(self, broker: Broker, desk: Desk) -> None:
        self._broker = broker
        self._desk = desk

    async def take(self, files: list[DefinitionsFile], vhost: str = "", keep: bool = False) -> int:
        """Do what all of the files say, into one virtual host if one is named; how many definitions they had.

        `keep`: what exists stays as it is. `Refused` says where the fault is, `NotDefinitions` that a file is no JSON.
        """
        found = [(file, definition) for file in files for definition in await asyncio.to_thread(_parsed, file)]
        steps: list[_Step] = []
        for section in OF_VHOSTS if vhost else MAKERS:
            for file, definition in found:
                if definition.section == section:
                    commands = await self._commands(file, definition, vhost)
                    steps += [_Step(file, definition, one) for one in commands if not (keep and self._is_there(one))]
        try:
            await self._desk.carry_out(Together([step.command for step in steps]))
        except Refused as refusal:
            if refusal.kind == UNAVAILABLE:
                raise Refused(UNAVAILABLE, f"{refusal.reason}; {MAY_BE_THERE}") from refusal
            raise steps[refusal.at].refused(refusal.reason) from refusal
        return len(found)

    async def _commands(self, file: DefinitionsFile, definition: Definition, vhost: str) -> list[Command]:
        value = definition.value
        if not isinstance(value, dict):
            raise _refused(file, definition, "an entry must be an object")
        trouble = fault_of(value)
        if trouble:
            raise _refused(file, definition, trouble)
        try:
            document = {**value, "vhost": vhost} if vhost else value
            return await MAKERS[definition.section](self._broker.settings, document)
        except HttpFault as fault:
            raise _refused(file, definition, _words(fault.reason)) from fault
        except Refused as refusal:
            raise _refused(file, definition, refusal.reason) from refusal

    def _is_there(self, command: Command) -> bool:
        """Whether there is already what the command would set."""
        access, policies, vhosts = self._broker.access, self._broker.policies, self._broker.vhosts
        match command:
            case Together():
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


def _parsed(file: DefinitionsFile) -> list[Definition]:
    body = file.body
    if not body.strip():
        return []
    try:
        return definitions_in(body.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise NotDefinitions(f"{file.name} line {line} is not UTF-8".lstrip()) from error
    except NotDefinitions as error:
        raise NotDefinitions(f"{file.name} {error}".lstrip()) from error


def _refused(file: DefinitionsFile, definition: Definition, reason: str) -> Refused:
    name = definition.value.get("name") if isinstance(definition.value, dict) else None
    which = f" '{name}'" if isinstance(name, str) else ""
    place = f"{file.name} line {definition.line}, {definition.section}{which}".lstrip()
    # of a large file some may have been agreed upon before others came between
    outcome = "" if STAYS in reason else "; nothing was imported"
    return Refused("bad_request", f"{place}: {' '.join(reason.split())}{outcome}")


def _words(reason: str | list[object] | None) -> str:
    return ": ".join(str(word) for word in reason) if isinstance(reason, list) else str(reason)
