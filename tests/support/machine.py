"""Features of the machine that a test needs and not every machine has.

Such a test is passed over where it cannot run, with a sentence that says why. Nothing else is ever passed over, and
this is the only place that can (`tests.architecture.test_prose`).
"""

import pytest


def need(obstacle: str) -> None:
    """Go on if there is no obstacle."""
    if obstacle:
        pytest.skip(obstacle)
