"""What operators see of the bridges of a node, and what they may order.

Not here: who carries messages (`bridges`), the paths (`resources.shovels`, `resources.federation`).
"""

from typing import Protocol

from warren.policy.parameters import Parameter

Row = dict[str, object]


class BridgesPort(Protocol):
    """The bridges of this node."""

    def vhosts_entered(self, parameter: Parameter) -> list[str]:
        """The virtual hosts of this broker that a bridge of such a definition enters without a login."""

    def shovel_rows(self) -> list[Row]:
        """One for each shovel that this node runs."""

    async def restart_shovel(self, vhost: str, name: str) -> bool:
        """Whether there was one here to begin anew."""

    def federation_rows(self) -> list[Row]:
        """One for each link of this node, and for each upstream that a policy names in vain."""

    async def restart_federation_link(self, vhost: str, link_id: str) -> bool:
        """Whether there was one here to begin anew."""
