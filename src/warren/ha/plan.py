"""The plan of a deployment in words: for each machine the ports that must be open, for whom and for what.

Not here: which ones (`ha.openings`), the firewall's rules (`ha.firewall`).
"""

from collections.abc import Iterator

from warren.errors import ConfigError
from warren.ha.deployment import Deployment
from warren.ha.firewall import nftables_rules
from warren.ha.openings import ANYWHERE, VRRP, Machine, Opening, machines


def plan(deployment: Deployment) -> str:
    """Everything about every machine."""
    parts = [f"Clients know one address: {deployment.virtual_address}\n"]
    for machine in machines(deployment):
        parts += [_heading(machine), *_table(machine), "", "Firewall:\n", nftables_rules(machine)]
    return "\n".join(parts)


def rules_of(deployment: Deployment, name: str) -> str:
    """The firewall's rules of the machine with this name or address."""
    found = machines(deployment)
    for machine in found:
        if name == machine.address or name in (each.partition(",")[0] for each in machine.names):
            return nftables_rules(machine)
    known = ", ".join(each.partition(",")[0] for machine in found for each in machine.names)
    raise ConfigError(f"there is no machine {name} in this deployment; there are {known}")


def _heading(machine: Machine) -> str:
    title = f"{'; '.join(machine.names)} at {machine.address}"
    return f"{title}\n{'-' * len(title)}"


def _table(machine: Machine) -> Iterator[str]:
    rows = [(_port(opening), _from(opening), opening.what) for opening in machine.openings]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for port, whom, what in rows:
        yield f"{port:{widths[0]}}  from {whom:{widths[1]}}  {what}"


def _port(opening: Opening) -> str:
    return f"tcp {opening.port}" if opening.port else f"protocol {VRRP}"


def _from(opening: Opening) -> str:
    sources = ", ".join(opening.whom.sources) or ANYWHERE
    return f"{opening.whom.words} ({sources})"
