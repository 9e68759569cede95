"""What holds for every test: which core is under test, how hypothesis behaves, and the order.

Examples that hypothesis makes up are the same in every run of the same source, so that a suite that passed passes
again; `--hypothesis-profile=by_chance` draws new ones each time, as `make soak` does. How long an example takes is no
property of what it shows: a busy machine takes longer.

Not here: fixtures; they live beside the tests that use them.
"""

import os
from pathlib import Path

import pytest
import warren_source
from hypothesis import HealthCheck, settings

settings.register_profile("by_chance", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", settings.get_profile("by_chance"), derandomize=True)
settings.register_profile("quick", settings.get_profile("repeatable"), max_examples=10, stateful_step_count=20)
settings.load_profile("repeatable")

_TESTS = Path(__file__).parent / "tests"
_LONGEST_FIRST = (
    "cluster",
    "spark",
    "pipeline",
    "simulation",
    "admin",
    "docs",
    "durability",
    "hostile",
    "migrating",
    "bridges",
    "ha",
    "client",
    "node",
    "wire",
)
_LAST = "browser"


def core_is_compiled() -> bool:
    """Whether `warren` is imported from the compiled copy in this process."""
    import warren

    return warren.__file__ is not None and warren.__file__.startswith(str(warren_source.COMPILED))


def pytest_report_header() -> str:
    return f"warren core: {'compiled' if core_is_compiled() else 'uncompiled'}"


def pytest_configure(config: pytest.Config) -> None:
    """WARREN_COMPILED=1 insists: a suite that claims to test the compiled core must not test the sources."""
    if os.environ.get("WARREN_COMPILED") == "1" and not core_is_compiled():
        pytest.exit("WARREN_COMPILED=1, but build/compiled does not match the sources: run make setup", returncode=2)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Folders whose tests take long go first, so that no worker waits long for another in the end. Tests in a browser
    go last: the thread that drove one has a running event loop ever after."""
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    folder = item.path.relative_to(_TESTS).parts[0]
    if folder == _LAST:
        return len(_LONGEST_FIRST) + 1
    return _LONGEST_FIRST.index(folder) if folder in _LONGEST_FIRST else len(_LONGEST_FIRST)
