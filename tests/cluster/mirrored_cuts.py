"""Ways to cut the first of three hosts from the others: the master of a mirrored queue from its mirrors.

Not here: cuts that a seed chooses (`storm`).
"""

from collections.abc import Callable

from tests.cluster.namespace_trio import NamespaceTrio
from tests.support.namespaces import NamespaceWorld
from tests.support.node_process import NodeProcess

PARTED = "parted from one"


def _cut_off(world: NamespaceWorld) -> None:
    world.cut("n1", "n2", "n3")


def _part(world: NamespaceWorld) -> None:
    world.cut("n1", "n3")


def _mute(world: NamespaceWorld) -> None:
    for other in ("n2", "n3"):
        world.cut_one_way("n1", other)


def _deafen(world: NamespaceWorld) -> None:
    for other in ("n2", "n3"):
        world.cut_one_way(other, "n1")


CUTS: dict[str, Callable[[NamespaceWorld], None]] = {
    "cut off": _cut_off,
    PARTED: _part,
    "mute": _mute,
    "deaf": _deafen,
}


def parted_by(trio: NamespaceTrio, cut: str) -> list[NodeProcess]:
    """The nodes with clients that may notice: the node that is alone, or both of two that do not reach each other.

    Either of those two may win the election; the other does not reach the queue until the cut is repaired.
    """
    n1, _n2, n3 = trio.nodes
    return [n1, n3] if cut == PARTED else [n1]
