"""Operators' commands about the mirrors of queues.

Only a queue's master can carry them out; whoever is asked elsewhere asks there (`admin`).

Not here: catching up (`broker.mirrors.catching_up`).
"""

from typing import Final, final

from warren.broker.commands import StopSynchronising, SynchroniseMirrors
from warren.broker.control import CommandHandler, Planned
from warren.broker.mirrors.mastery import Mastery
from warren.broker.sharing.entry import ClusterEntry
from warren.errors import InvariantBroken, Refused
from warren.model.commands import Command
from warren.store.plan import Plan

NO_MASTER_HERE: Final = "not_master"


@final
class MirrorCommands(CommandHandler):
    """Checks them, and carries them out on its own: no definition tells of who may catch up."""

    def __init__(self, entry: ClusterEntry) -> None:
        self._entry: ClusterEntry = entry

    def kinds(self) -> list[type[Command]]:
        return [SynchroniseMirrors, StopSynchronising]

    def check(self, command: Command, planned: Planned) -> None:
        if self._mastery(command) is None:
            raise Refused("not_found", NO_MASTER_HERE)

    def plan(self, command: Command, plan: Plan) -> object:
        return None

    def follow_up(self, command: Command) -> None:
        mastery = self._mastery(command)
        if mastery is None:
            return
        if isinstance(command, SynchroniseMirrors):
            mastery.synchronise()
        else:
            mastery.stop_synchronising()

    def _mastery(self, command: Command) -> Mastery | None:
        if not isinstance(command, (SynchroniseMirrors, StopSynchronising)):
            raise InvariantBroken(f"{type(command).__name__} is not about mirrors")
        clustering = self._entry.clustering
        if clustering is None or clustering.rings is None:
            return None
        part = clustering.rings.named(command.vhost, command.name)
        return None if part is None else part.mastery
