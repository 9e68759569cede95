"""Every rule holds in every schedule of a small replica set, with a limited number of faults and reorderings."""

import importlib

import pytest

from tests.simulation.fresh import RINGS, freshly_loaded
from warren.sim.replica_sets.exploration import MOVING, SERVING, Explorer

SCHEDULES_MAX = 1_000_000

PLANS = {"serving": SERVING, "moving": MOVING}


def look_at_all(plan: str, size: int, faults: int, delays: int) -> int:
    """How many schedules there are; in none of them a rule is broken."""
    found = Explorer(size, faults, delays, PLANS[plan]).explore(SCHEDULES_MAX)
    assert [found.complaints, found.actions] == [[], ()]
    assert found.complete
    return found.schedules


@pytest.mark.parametrize(
    ("plan", "size", "faults", "delays", "schedules_min"),
    [
        ("serving", 2, 2, 0, 5_000),
        ("serving", 2, 1, 1, 3_000),
        ("serving", 3, 1, 0, 300),
        ("moving", 2, 1, 0, 250),
        ("moving", 3, 1, 0, 700),
    ],
)
def test_every_rule_holds_in_every_schedule(plan: str, size: int, faults: int, delays: int, schedules_min: int) -> None:
    assert look_at_all(plan, size, faults, delays) > schedules_min


@pytest.mark.parametrize(
    ("plan", "size", "faults", "delays", "schedules_min"),
    [
        ("serving", 2, 2, 1, 90_000),
        ("serving", 3, 2, 0, 20_000),
        ("serving", 3, 1, 1, 11_000),
        ("moving", 2, 2, 0, 8_000),
        ("moving", 2, 1, 1, 6_000),
        ("moving", 3, 2, 0, 40_000),
        ("moving", 3, 1, 1, 25_000),
    ],
)
@pytest.mark.timeout(900)
def test_every_rule_holds_in_every_schedule_of_more_faults(
    plan: str, size: int, faults: int, delays: int, schedules_min: int
) -> None:
    assert look_at_all(plan, size, faults, delays) > schedules_min


@pytest.mark.parametrize(
    ("faults", "edit"),
    [
        (
            1,
            (
                "broker.replication.master",
                "= list(self.replica_set.in_sync)",
                "= list((self._proposals or [self.replica_set])[-1].in_sync)",
            ),
        ),
        (
            2,
            (
                "broker.replication.master",
                "= last_common_batch(self.epochs, self.end, Epochs(request.beginnings), request.end)",
                "= min(self.end, request.end)",
            ),
        ),
    ],
)
def test_a_mistake_that_needs_faults_at_the_right_moments_is_found(faults: int, edit: tuple[str, str, str]) -> None:
    with freshly_loaded([edit], RINGS):
        explore = importlib.import_module("warren.sim.replica_sets.exploration")
        assert explore.Explorer(2, faults - 1, 0).explore(SCHEDULES_MAX).complaints == []
        assert explore.Explorer(2, faults, 0).explore(SCHEDULES_MAX).complaints
