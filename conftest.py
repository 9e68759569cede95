"""What holds for every test: which core is under test, how hypothesis behaves, the tiers, and the order.

A test file is in a tier by its name: `_SLOW` and `_LENGTHY` have patterns of the last parts of paths, so that a file
may move to another folder of its kind. The other files are in every tier that has their folder; the Makefile says
which.

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

# `make test` leaves these out, and `make test-all` has them: they take a worker half a minute or longer, or what they
# test is seldom touched and needs more than Warren (a browser, a balancer, another broker).
_SLOW = (
    "browser/test_*.py",
    "celery/test_*.py",
    "ha/test_*.py",
    "migrating/test_*.py",
    "admin/test_catching_up.py",
    "admin/test_cluster_nodes.py",
    "admin/test_federation.py",
    "admin/test_fitness.py",
    "admin/test_fuzz.py",
    "admin/test_rabbitmqadmin.py",
    "client/**/test_*_kills.py",
    "client/test_job_commands.py",
    "client/test_open_command.py",
    "client/test_recovering_nodes.py",
    "client/test_typed_program.py",
    "durability/test_bigger_than_memory.py",
    "durability/test_streams.py",
    "hostile/test_bad_streams.py",
    "hostile/test_rule_at_scale.py",
    "node/test_http_auth_beside_rabbitmq.py",
    "node/test_oauth2_beside_rabbitmq.py",
    "test_bank*.py",
    "test_client_failover.py",
    "test_etcd_answers.py",
    "test_etcd_failures.py",
    "test_etcd_members.py",
    "test_faults.py",
    "test_formation.py",
    "test_local_cluster.py",
    "test_lost_data.py",
    "test_membership.py",
    "test_membership_starts.py",
    "test_mirrored_faults.py",
    "test_mirrored_repeating.py",
    "test_partitioned_streams.py",
    "test_witness.py",
    "simulation/**/test_*_by_chance.py",
    "simulation/**/test_*_seeds.py",
    "simulation/**/test_*_storms.py",
    "simulation/**/test_planted_*_bugs.py",
    "simulation/**/test_mirrored_streams.py",
    "simulation/**/test_named_copies.py",
    "simulation/test_streams.py",
)
# Pure tests that take seconds uncompiled; `make quick` leaves these out, too. Single tests have the marker `lengthy`.
_LENGTHY = (
    "architecture/test_sizes.py",
    "property/test_remote_confirms.py",
    "property/test_deduplication.py",
    "property/test_figures.py",
    "property/test_journal.py",
    "simulation/cluster/test_*.py",
    "simulation/replica_sets/test_*.py",
    "simulation/test_determinism.py",
    "simulation/test_planted_bugs.py",
    "simulation/test_seeds.py",
    "test_many_confirms.py",
    "test_scrape.py",
    "test_deduplication_window.py",
    "unit/**/peers/test_*.py",
    "unit/**/test_server.py",
)

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


def pytest_report_header() -> list[str]:
    lines = [f"warren core: {'compiled' if core_is_compiled() else 'uncompiled'}"]
    idle = [pattern for pattern in (*_SLOW, *_LENGTHY) if next(_TESTS.glob(f"**/{pattern}"), None) is None]
    return lines + [f"conftest.py: no test file is named like {pattern}" for pattern in idle]


def pytest_configure(config: pytest.Config) -> None:
    """WARREN_COMPILED=1 insists: a suite that claims to test the compiled core must not test the sources."""
    if os.environ.get("WARREN_COMPILED") == "1" and not core_is_compiled():
        pytest.exit("WARREN_COMPILED=1, but build/compiled does not match the sources: run make setup", returncode=2)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tiers. Folders whose tests take long go first, so that no worker waits long for another in the end.
    Tests in a browser go last: the thread that drove one has a running event loop ever after."""
    slow, lengthy = _files(_SLOW), _files(_LENGTHY)
    for item in items:
        if item.path in slow:
            item.add_marker("slow")
        if item.path in lengthy:
            item.add_marker("lengthy")
    items.sort(key=_place)


def _files(patterns: tuple[str, ...]) -> set[Path]:
    return {path for pattern in patterns for path in _TESTS.glob(f"**/{pattern}")}


def _place(item: pytest.Item) -> int:
    folder = item.path.relative_to(_TESTS).parts[0]
    if folder == _LAST:
        return len(_LONGEST_FIRST) + 1
    return _LONGEST_FIRST.index(folder) if folder in _LONGEST_FIRST else len(_LONGEST_FIRST)
