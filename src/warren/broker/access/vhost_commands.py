"""Operators' commands about virtual hosts and their limits.

Not here: how a virtual host comes and goes (`broker.broker`).
"""

from abc import abstractmethod
from typing import final

from mypy_extensions import trait

from warren.access.commands import ClearVhostLimits, DeleteVhost, PutVhost, SetVhostLimits
from warren.access.limits import checked_vhost_limits
from warren.broker.access.registry import Registry
from warren.broker.control import CommandHandler, Planned
from warren.broker.vhost import Vhost
from warren.errors import InvariantBroken, Refused
from warren.model.commands import Command
from warren.store.access_definitions import VhostDefinition


@trait
class VhostOwner:
    """Makes and unmakes virtual hosts."""

    @abstractmethod
    def add_vhost(self, name: str) -> Vhost:
        """Make an empty one."""

    @abstractmethod
    def remove_vhost(self, name: str) -> None:
        """Unmake it, with all there is in it and all that is known of it."""


@final
class VhostCommands(CommandHandler):
    """Checks them and carries them out."""

    def __init__(self, owner: VhostOwner, vhosts: dict[str, Vhost], registry: Registry) -> None:
        self._owner: VhostOwner = owner
        self._vhosts: dict[str, Vhost] = vhosts
        self._registry: Registry = registry

    def kinds(self) -> list[type[Command]]:
        return [PutVhost, DeleteVhost, SetVhostLimits, ClearVhostLimits]

    def check(self, command: Command, planned: Planned) -> None:
        if isinstance(command, PutVhost):
            if not command.name:
                raise Refused("bad_request", "vhost name must not be empty")
            planned.vhosts[command.name] = None
        elif isinstance(command, DeleteVhost):
            if command.name not in self._vhosts:
                raise Refused("not_found", "Not Found")
        elif isinstance(command, SetVhostLimits):
            self._check_known(command.vhost, planned)
            checked_vhost_limits(command.limits)
        elif isinstance(command, ClearVhostLimits):
            self._check_known(command.vhost, planned)

    def carry_out(self, command: Command) -> object:
        if isinstance(command, PutVhost):
            return self._put(command)
        if isinstance(command, DeleteVhost):
            self._owner.remove_vhost(command.name)
        elif isinstance(command, SetVhostLimits):
            vhost = self._vhosts[command.vhost]
            self._limit(vhost, {**vhost.limits, **checked_vhost_limits(command.limits)})
        elif isinstance(command, ClearVhostLimits):
            vhost = self._vhosts[command.vhost]
            names = command.names
            kept = {} if names is None else {name: limit for name, limit in vhost.limits.items() if name not in names}
            self._limit(vhost, kept)
        else:
            raise InvariantBroken(f"{type(command).__name__} is not about virtual hosts")
        return None

    def _put(self, command: PutVhost) -> bool:
        vhost = self._vhosts.get(command.name)
        created = vhost is None
        if vhost is None:
            vhost = self._owner.add_vhost(command.name)
        vhost.description = command.description
        vhost.tags = list(command.tags)
        if command.tracing is not None:
            vhost.set_tracing(command.tracing)
        self._registry.record(definition_of(vhost))
        return created

    def _limit(self, vhost: Vhost, limits: dict[str, int]) -> None:
        vhost.limits = limits
        self._registry.record(definition_of(vhost))

    def _check_known(self, name: str, planned: Planned) -> None:
        if name not in self._vhosts and name not in planned.vhosts:
            raise Refused("not_found", "vhost_not_found")


def definition_of(vhost: Vhost) -> VhostDefinition:
    """What is written down of it."""
    return VhostDefinition(vhost.name, vhost.description, list(vhost.tags), dict(vhost.limits))
