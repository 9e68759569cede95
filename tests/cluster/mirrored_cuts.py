"""Ways to cut the first of three hosts from the others: the master of a mirrored queue from its mirrors.

Not here: cuts that a seed chooses (`storm`).
"""

from collections.abc import Callable

from tests.cluster.namespace_trio import NamespaceTrio
from tests.support.namespaces import NamespaceWorld
from tests.support.node_process import NodeProcess


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
    "parted from one": _part,
    "mute": _mute,
    "deaf": _deafen,
}


def parted_by(trio: NamespaceTrio, cut: str) -> list[NodeProcess]:
    """Whose clients may notice: the one that is alone, and of two that are parted the later one, which pauses."""
    n1, _n2, n3 = trio.nodes
    return [n3] if cut == "parted from one" else [n1]
