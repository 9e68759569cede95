"""The clusters that the tests of this folder disturb.

    single, three_members   etcd alone: one member, or three, for all tests of a run; repaired after each test
    guarded                 an etcd member behind certificates and passwords, for all tests of a file
    nodes                   nodes that join and leave clusters, for one test
    trio                    three nodes, for all tests of a file; repaired after each test
    fresh_trio              three nodes, for one test

Each test of etcd has a cluster of its own in those members. A file whose trio is of another kind overrides `file_trio`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.deadly_store import DeadlyStore
from tests.cluster.etcd_world import Members, demand_passwords
from tests.cluster.member_nodes import MemberNodes
from tests.cluster.promises import Load
from tests.cluster.trio import Trio
from tests.node.certificate_files import Authority
from tests.support.deadlines import run
from tests.support.node_process import NodeProcess
from warren.node.tls import TlsFiles


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
def three_members(three_etcds: Members) -> Iterator[Members]:
    yield three_etcds
    three_etcds.mend()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    authority = Authority(tmp_path_factory.mktemp("authority"))
    return TlsFiles(authority.path, authority.server.certificate, authority.server.key)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, files: TlsFiles) -> Iterator[Members]:
    """The user `warren` has the password `open sesame`, and may use its own keys."""
    members = Members(tmp_path_factory.mktemp("guarded"), 1, files)
    members.make()
    run(demand_passwords(members.endpoints()[0], files))
    yield members
    members.destroy()


@pytest.fixture
def store(single: Members) -> Iterator[DeadlyStore]:
    with DeadlyStore(single.endpoints()[0]) as made:
        yield made


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[MemberNodes]:
    made = MemberNodes(tmp_path)
    yield made
    made.destroy()


@pytest.fixture(scope="module")
def file_trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    made = Trio(tmp_path_factory.mktemp("trio"))
    yield made
    made.destroy()


@pytest.fixture
def trio(file_trio: Trio) -> Iterator[Trio]:
    yield file_trio
    file_trio.mend()


@pytest.fixture
def fresh_trio(tmp_path: Path) -> Iterator[Trio]:
    made = Trio(tmp_path)
    yield made
    made.destroy()


@pytest.fixture
def load() -> Iterator[Load]:
    """Clients that record every promise of the nodes."""
    made = Load()
    yield made
    made.dismiss()


@pytest.fixture
def far(tmp_path: Path) -> Iterator[NodeProcess]:
    """A node that is not a member of the cluster."""
    node = NodeProcess(tmp_path / "far", "--name", "far@localhost")
    yield node
    node.stop()
