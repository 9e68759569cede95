"""What holds for every test.

Examples that hypothesis makes up are the same in every run of the same source, so that a suite that passed passes
again; `--hypothesis-profile=by_chance` draws new ones each time, as `make soak` does. How long an example takes is no
property of what it shows: a busy machine takes longer.

Files whose tests take long come first, so that in the end no worker waits for another.

Not here: fixtures, which stand beside the tests that use them.
"""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("by_chance", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", settings.get_profile("by_chance"), derandomize=True)
settings.load_profile("repeatable")

_TESTS = Path(__file__).parent
_LONGEST_FIRST = ("cluster", "simulation", "admin", "browser", "docs", "durability", "hostile", "node", "wire")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    folder = item.path.relative_to(_TESTS).parts[0]
    return _LONGEST_FIRST.index(folder) if folder in _LONGEST_FIRST else len(_LONGEST_FIRST)
