"""A scene performed on a node: the hostile client in a process of its own, the pair beside it.

In a process of its own, because the pair's times must not depend on the work of the hostile client.
"""

import multiprocessing
import traceback
from dataclasses import dataclass

from tests.hostile.bystanders import Bystanders, percentile
from tests.hostile.rule import longest_holds
from tests.hostile.scenes.scene import WAIT_S, Scene
from tests.support.node_process import NodeProcess

_FORKED = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Outcome:
    """The messages of the pair while the scene was played, and the node since its start."""

    times_s: list[float]
    work_s: list[float]
    holds: dict[tuple[str, str], float]

    def time_s(self, share: float) -> float:
        return percentile(self.times_s, share)


def perform(scene: Scene, node: NodeProcess) -> Outcome:
    """Play the scene. A pair that is disturbed, or a scene that the node does not finish, is an `AssertionError`."""
    _in_another_process(scene.prepare, node)
    with Bystanders(node) as pair:
        _in_another_process(scene.attack, node)
        pair.wait_for_rounds(20)
    return Outcome(pair.times_s, pair.work_s, longest_holds(node))


def _in_another_process(act: object, node: NodeProcess) -> None:
    acting = _FORKED.Process(target=_act, args=(act, node))
    acting.start()
    acting.join(2 * WAIT_S)
    if acting.is_alive():
        acting.kill()
        acting.join()
    assert acting.exitcode == 0, f"the hostile client ended with {acting.exitcode}"


def _act(act: object, node: NodeProcess) -> None:
    assert callable(act)
    try:
        act(node)
    except BaseException:
        traceback.print_exc()
        raise
