"""What holds for every test.

Examples that hypothesis makes up are the same in every run of the same source, so that a suite that passed passes
again; `--hypothesis-profile=by_chance` draws new ones each time, as `make soak` does. How long an example takes is no
property of what it shows: a busy machine takes longer.

Not here: fixtures, which stand beside the tests that use them.
"""

from hypothesis import HealthCheck, settings

settings.register_profile("by_chance", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", settings.get_profile("by_chance"), derandomize=True)
settings.load_profile("repeatable")
