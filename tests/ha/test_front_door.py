"""Two balancers, three nodes, one virtual address: clients lose no confirmed message when one is killed or cut off.

`bench/frontdoor` prints how long clients wait.
"""

from collections.abc import Iterator

import pytest

from tests.ha.front_door import FrontDoor, front_door
from tests.ha.troubles import TROUBLES, Trouble, go_through, kill_first_node

pytestmark = pytest.mark.timeout(300)

WAIT_S_MAX = 60.0
"""What a quiet machine takes is in docs/reliability.md; a busy one takes longer."""


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontDoor]:
    kinds = {"n1": "disc", "n2": "disc", "n3": "disc"}
    with front_door(tmp_path_factory.mktemp("three"), kinds) as made:
        yield made


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.name)
def test_nothing_that_was_confirmed_is_lost(three: FrontDoor, trouble: Trouble) -> None:
    seen = go_through(three, trouble)
    assert seen.confirmed > 0
    assert seen.lost == 0
    assert seen.longest_wait_s < WAIT_S_MAX


def test_the_classic_plan_pauses_while_its_disc_node_is_away_and_loses_nothing(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    kinds = {"n1": "disc", "n2": "ram", "n3": "ram"}
    with front_door(tmp_path_factory.mktemp("classic"), kinds) as door:
        trouble = Trouble("the only disc node is killed", kill_first_node, pauses=True)
        seen = go_through(door, trouble)
    assert seen.confirmed > 0
    assert seen.lost == 0
