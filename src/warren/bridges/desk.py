"""What operators see of the bridges of one node, and what they may order.

Not here: who may ask, and the other nodes (`admin`), how bridges come and go (`bridges.supervisor`).
"""

from warren.bridges.host import Host
from warren.bridges.parameters import vhosts_entered
from warren.bridges.shovels import standing as shovel_standing
from warren.bridges.shovels.shovel import key_of
from warren.bridges.supervisor import Supervisor
from warren.policy.parameters import Parameter

Row = dict[str, object]


class BridgesDesk:
    """The bridges of this node."""

    def __init__(self, host: Host, supervisor: Supervisor) -> None:
        self._host = host
        self._supervisor = supervisor

    def vhosts_entered(self, parameter: Parameter) -> list[str]:
        return vhosts_entered(parameter)

    def shovel_rows(self) -> list[Row]:
        return shovel_standing.rows(self._host.node_name, self._supervisor.keepers.values())

    async def restart_shovel(self, vhost: str, name: str) -> bool:
        return await self._supervisor.restart(key_of(vhost, name))
