"""Every schedule of a small ring with so many faults, and so many things that happen in another order than usual."""

import importlib

import pytest

from tests.simulation.fresh import RINGS, freshly_loaded
from warren.sim.rings.explore import Explorer

SCHEDULES_MAX = 100_000


@pytest.mark.parametrize(
    ("size", "faults", "delays", "schedules_min"),
    [(2, 2, 0, 4_000), (2, 1, 1, 2_000), (3, 1, 0, 300), (3, 2, 0, 15_000)],
)
@pytest.mark.timeout(600)
def test_every_rule_holds_in_every_schedule(size: int, faults: int, delays: int, schedules_min: int) -> None:
    found = Explorer(size, faults, delays).explore(SCHEDULES_MAX)
    assert [found.complaints, found.actions] == [[], ()]
    assert found.complete
    assert found.schedules > schedules_min


@pytest.mark.parametrize(
    ("faults", "edit"),
    [
        (1, ("mirroring.master", "= list(self.ring.in_sync)", "= list((self._proposals or [self.ring])[-1].in_sync)")),
        (
            2,
            (
                "mirroring.master",
                "= last_common(self.epochs, self.end, Epochs(request.beginnings), request.end)",
                "= min(self.end, request.end)",
            ),
        ),
    ],
)
def test_a_mistake_that_needs_faults_at_the_right_moments_is_found(faults: int, edit: tuple[str, str, str]) -> None:
    with freshly_loaded([edit], RINGS):
        explore = importlib.import_module("warren.sim.rings.explore")
        assert explore.Explorer(2, faults - 1, 0).explore(SCHEDULES_MAX).complaints == []
        assert explore.Explorer(2, faults, 0).explore(SCHEDULES_MAX).complaints
