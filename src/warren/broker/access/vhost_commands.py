"""Operators' commands about virtual hosts and their limits.

Not here: what goes with a virtual host (`broker.access.planning`), how it comes and goes (`broker.access.applier`).
"""

from typing import final

from warren.access.catalog import Catalog
from warren.access.commands import ClearVhostLimits, DeleteVhost, PutVhost, SetVhostLimits
from warren.access.limits import checked_vhost_limits, limits_without
from warren.broker.access.planning import plan_vhost_removal, vhost_to_be
from warren.broker.control import CommandHandler, Planned
from warren.broker.vhost import Vhost
from warren.errors import InvariantBroken, Refused
from warren.model.commands import Command
from warren.policy.policies import Policies
from warren.store.access_definitions import VhostDefinition
from warren.store.plan import Plan


@final
class VhostCommands(CommandHandler):
    """Checks and plans them."""

    def __init__(self, vhosts: dict[str, Vhost], catalog: Catalog, policies: Policies) -> None:
        self._vhosts: dict[str, Vhost] = vhosts
        self._catalog: Catalog = catalog
        self._policies: Policies = policies

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

    def plan(self, command: Command, plan: Plan) -> object:
        if isinstance(command, PutVhost):
            old = vhost_to_be(plan, self._vhosts, command.name)
            limits: dict[str, int] = {} if old is None else old.limits
            plan.put(VhostDefinition(command.name, command.description, list(command.tags), limits))
            return old is None
        if isinstance(command, DeleteVhost):
            plan_vhost_removal(plan, self._catalog, self._policies, self._vhosts[command.name])
        elif isinstance(command, SetVhostLimits):
            old = self._vhost_to_be(plan, command.vhost)
            _plan_limits(plan, old, {**old.limits, **checked_vhost_limits(command.limits)})
        elif isinstance(command, ClearVhostLimits):
            old = self._vhost_to_be(plan, command.vhost)
            _plan_limits(plan, old, limits_without(old.limits, command.names))
        else:
            raise InvariantBroken(f"{type(command).__name__} is not about virtual hosts")
        return None

    def follow_up(self, command: Command) -> None:
        """Each node traces for itself."""
        if isinstance(command, PutVhost) and command.tracing is not None:
            vhost = self._vhosts.get(command.name)
            if vhost is not None:
                vhost.set_tracing(command.tracing)

    def _vhost_to_be(self, plan: Plan, name: str) -> VhostDefinition:
        vhost = vhost_to_be(plan, self._vhosts, name)
        if vhost is None:
            raise _unknown()
        return vhost

    def _check_known(self, name: str, planned: Planned) -> None:
        if name not in self._vhosts and name not in planned.vhosts:
            raise _unknown()


def _plan_limits(plan: Plan, vhost: VhostDefinition, limits: dict[str, int]) -> None:
    plan.put(VhostDefinition(vhost.name, vhost.description, vhost.tags, limits))


def _unknown() -> Refused:
    return Refused("not_found", "vhost_not_found")
