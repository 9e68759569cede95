"""What holds for every test: which core is under test, how hypothesis behaves on a busy machine, and the order.

Not here: fixtures; they live beside the tests that use them.
"""

import os

import pytest
import warren_source
from hypothesis import settings

settings.register_profile("warren", deadline=None, print_blob=True)
settings.load_profile("warren")


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
    """Tests in a browser go last: the thread that drove one has a running event loop ever after."""
    items.sort(key=lambda item: "tests/browser/" in item.nodeid)
