"""What operators see of the bridges of one node, and what they may order.

Not here: who may ask, and the other nodes (`admin`), how bridges come and go (`bridges.supervisor`).
"""

from warren.bridges.federation import standing as federation_standing
from warren.bridges.federation.links import FederationLinks
from warren.bridges.host import Host
from warren.bridges.parameters import vhosts_entered
from warren.bridges.shovels import standing as shovel_standing
from warren.bridges.shovels.shovel import Shovels, key_of
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
        # one that lives by a definition of before is on its way out
        wanted = {shovel.key: shovel for shovel in Shovels().wanted(self._host)}
        keepers = [keeper for key, keeper in self._supervisor.keepers.items() if wanted.get(key) == keeper.bridge]
        return shovel_standing.rows(self._host.node_name, keepers)

    async def restart_shovel(self, vhost: str, name: str) -> bool:
        return await self._supervisor.restart(key_of(vhost, name))

    def federation_rows(self) -> list[Row]:
        kinds = [kind for kind in self._supervisor.kinds if isinstance(kind, FederationLinks)]
        missing = [one for kind in kinds for one in kind.missing if self._host.responsible_for(one.key)]
        return federation_standing.rows(self._host.node_name, self._supervisor.keepers, missing)

    async def restart_federation_link(self, vhost: str, link_id: str) -> bool:
        key = federation_standing.key_of(vhost, link_id, self._supervisor.keepers)
        return key is not None and await self._supervisor.restart(key)
