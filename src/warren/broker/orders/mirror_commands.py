"""Operators' commands about the mirrors of queues.

Only a queue's master can let its mirrors catch up; whoever is asked elsewhere asks there (`admin`). Any node can have
masters spread evenly.

Not here: catching up (`broker.mirrors.catching_up`), spreading masters (`broker.moves.rebalancing`).
"""

from typing import Final, final

from warren.broker.commands import RebalanceQueues, StopSynchronising, SynchroniseMirrors
from warren.broker.control import CommandHandler, Planned
from warren.broker.mirrors.mastery import Mastery
from warren.broker.moves.rebalancing import plan_balance
from warren.broker.sharing.entry import ClusterEntry
from warren.broker.vhost import Vhost
from warren.errors import InvariantBroken, Refused
from warren.model.commands import Command
from warren.store.plan import Plan

NO_MASTER_HERE: Final = "not_master"


@final
class MirrorCommands(CommandHandler):
    """Checks them; some it carries out on its own: no definition tells of who may catch up."""

    def __init__(self, entry: ClusterEntry, vhosts: dict[str, Vhost]) -> None:
        self._entry: ClusterEntry = entry
        self._vhosts: dict[str, Vhost] = vhosts

    def kinds(self) -> list[type[Command]]:
        return [SynchroniseMirrors, StopSynchronising, RebalanceQueues]

    def check(self, command: Command, planned: Planned) -> None:
        if not isinstance(command, RebalanceQueues) and self._mastery(command) is None:
            raise Refused("not_found", NO_MASTER_HERE)

    def plan(self, command: Command, plan: Plan) -> object:
        clustering = self._entry.clustering
        if not isinstance(command, RebalanceQueues):
            return None
        return 0 if clustering is None else plan_balance(plan, clustering, self._vhosts)

    def follow_up(self, command: Command) -> None:
        if isinstance(command, RebalanceQueues):
            return
        mastery = self._mastery(command)
        if mastery is None:
            return
        if isinstance(command, SynchroniseMirrors):
            mastery.newcomers.let_all()
        else:
            mastery.newcomers.stop_all()

    def _mastery(self, command: Command) -> Mastery | None:
        if not isinstance(command, (SynchroniseMirrors, StopSynchronising)):
            raise InvariantBroken(f"{type(command).__name__} is not about mirrors")
        clustering = self._entry.clustering
        if clustering is None or clustering.rings is None:
            return None
        part = clustering.rings.named(command.vhost, command.name)
        return None if part is None else part.mastery
