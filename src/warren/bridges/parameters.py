"""The components whose parameters define bridges.

Not here: what each of them takes (`shovels.fields`, `federation.parameters`).
"""

from typing import Final

from warren.bridges.checking import vhosts_here
from warren.bridges.federation.parameters import LocalComponent, UpstreamComponent, UpstreamSetComponent
from warren.bridges.federation.upstream import UPSTREAM, UPSTREAM_SET
from warren.bridges.shovels.definition import DEFAULT_VHOST
from warren.bridges.shovels.fields import ShovelComponent
from warren.bridges.shovels.shovel import COMPONENT as SHOVEL
from warren.policy.parameters import Parameter, ParameterComponent

FEDERATION: Final = "federation"


def components() -> dict[str, ParameterComponent]:
    """By name, for a broker that is to take them."""
    return {
        SHOVEL: ShovelComponent(),
        UPSTREAM: UpstreamComponent(),
        UPSTREAM_SET: UpstreamSetComponent(),
        FEDERATION: LocalComponent(),
    }


def vhosts_entered(parameter: Parameter) -> list[str]:
    """The virtual hosts of this broker that a bridge of this definition would enter, as one who may do everything.

    So who defines it must be allowed to enter them.
    """
    value = parameter.value
    if not isinstance(value, dict):
        return []
    if parameter.component == SHOVEL:
        return vhosts_here([value.get("src-uri"), value.get("dest-uri")], DEFAULT_VHOST)
    if parameter.component == UPSTREAM:
        return vhosts_here([value.get("uri")], parameter.vhost)
    return []
