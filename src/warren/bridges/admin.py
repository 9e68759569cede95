"""The bridges of one node as the admin interfaces see them: status rows, restarts, and the parameter components.

Not here: permissions and the other nodes (`warren.admin`), starting and stopping bridges (`bridges.supervisor`), the
fields of each component (`bridges.shovel_definition`, `bridges.federation.upstreams`).
"""

from collections.abc import Collection
from typing import Final

from warren.bridges import shovels as shovel_standing
from warren.bridges.connections import parse_local_uri
from warren.bridges.federation import link_set as federation_standing
from warren.bridges.federation.link_set import FederationLinks
from warren.bridges.federation.upstreams import (
    UPSTREAM,
    UPSTREAM_SET,
    LocalComponent,
    UpstreamComponent,
    UpstreamSetComponent,
)
from warren.bridges.field_checks import author_refusal, uri_list, vhost_refusal
from warren.bridges.host import BridgeHost
from warren.bridges.shovel_definition import DEFAULT_VHOST, ShovelComponent
from warren.bridges.shovels import COMPONENT as SHOVEL
from warren.bridges.shovels import Shovels, shovel_key
from warren.bridges.supervisor import BridgeKind, BridgeSupervisor
from warren.broker.policies.parameters import Parameter, ParameterComponent

FEDERATION: Final = "federation"


def bridge_components() -> dict[str, ParameterComponent]:
    """The parameter components that define bridges, by name."""
    return {
        SHOVEL: ShovelComponent(),
        UPSTREAM: UpstreamComponent(),
        UPSTREAM_SET: UpstreamSetComponent(),
        FEDERATION: LocalComponent(),
    }


def definer_refusal(parameter: Parameter, vhosts: Collection[str], is_administrator: bool) -> str:
    """Why its definer may not set this parameter; empty if there is no reason. `vhosts`: where the user may enter."""
    value = parameter.value
    if not isinstance(value, dict):
        return ""
    fields, default = (["uri"], parameter.vhost) if parameter.component == UPSTREAM else ([], "")
    if parameter.component == SHOVEL:
        fields, default = ["src-uri", "dest-uri"], DEFAULT_VHOST
    uris = [uri for field in fields for uri in uri_list(value.get(field))]
    if parameter.definer is None and any(parse_local_uri(uri) is not None for uri in uris):
        return "a bridge that connects to this broker acts as its definer, who must be a user of this broker"
    refusal = vhost_refusal if is_administrator else author_refusal
    return refusal(uris, default, parameter.definer or "", vhosts)


Row = dict[str, object]


class BridgesAdmin:
    """The bridges of this node."""

    def __init__(self, host: BridgeHost, supervisor: BridgeSupervisor) -> None:
        self._host = host
        self._supervisor = supervisor

    def definer_refusal(self, parameter: Parameter, vhosts: Collection[str], is_administrator: bool) -> str:
        return definer_refusal(parameter, vhosts, is_administrator)

    def shovel_rows(self) -> list[Row]:
        # a worker with an older definition is about to stop
        wanted = {shovel.key: shovel for shovel in Shovels().wanted(self._host)}
        keepers = [keeper for key, keeper in self._supervisor.keepers.items() if wanted.get(key) == keeper.bridge]
        return shovel_standing.shovel_status_rows(self._host.node_name, keepers)

    async def restart_shovel(self, vhost: str, name: str) -> bool:
        return await self._supervisor.restart(shovel_key(vhost, name))

    def federation_rows(self) -> list[Row]:
        kinds = [kind for kind in self._supervisor.kinds if isinstance(kind, FederationLinks)]
        missing = [one for kind in kinds for one in kind.missing if self._host.responsible_for(one.key)]
        return federation_standing.federation_status_rows(self._host.node_name, self._supervisor.keepers, missing)

    async def restart_federation_link(self, vhost: str, link_id: str) -> bool:
        key = federation_standing.key_of_link_id(vhost, link_id, self._supervisor.keepers)
        return key is not None and await self._supervisor.restart(key)


def bridge_kinds() -> list[BridgeKind]:
    return [Shovels(), FederationLinks()]
