"""Features of the machine that a test needs and not every machine has.

Such a test is skipped where it cannot run, with the reason. No other test is skipped, and this is the only place that
may skip one (`tests.architecture.test_prose`).
"""

import pytest


def need(obstacle: str) -> None:
    """Skip the test if there is an obstacle."""
    if obstacle:
        pytest.skip(obstacle)
