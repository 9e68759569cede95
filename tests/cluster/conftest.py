"""One etcd of a single member, and one of three, for all tests of a run; each test has a cluster of its own in them."""

from collections.abc import Iterator

import pytest

from tests.cluster.etcd_world import Members


@pytest.fixture(scope="session")
def lone_etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Members]:
    members = Members(tmp_path_factory.mktemp("lone"), 1)
    members.make()
    yield members
    members.destroy()


@pytest.fixture(scope="session")
def three_etcds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Members]:
    members = Members(tmp_path_factory.mktemp("three"), 3)
    members.make()
    yield members
    members.destroy()


@pytest.fixture
def single(lone_etcd: Members) -> Iterator[Members]:
    yield lone_etcd
    lone_etcd.mend()


@pytest.fixture
def trio(three_etcds: Members) -> Iterator[Members]:
    yield three_etcds
    three_etcds.mend()
