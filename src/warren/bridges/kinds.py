"""All kinds of bridges.

Not here: what each of them is (`bridges.shovels`, `bridges.federation`).
"""

from warren.bridges.federation.links import FederationLinks
from warren.bridges.shovels.shovel import Shovels
from warren.bridges.supervisor import Kind


def kinds() -> list[Kind]:
    return [Shovels(), FederationLinks()]
