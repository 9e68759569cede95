"""Which disks of a member are known to be the latest, after failed starts and unanswered questions."""

import asyncio
import shutil
from pathlib import Path
from typing import Any, cast

import pytest
import structlog

from warren.broker.membership import next_incarnation
from warren.broker.metadata.cluster_definitions import IncarnationDefinition
from warren.broker.model.events import MetadataSnapshot
from warren.node.cluster.agent import register_incarnation
from warren.node.disk.disk import Disk
from warren.node.disk.sqlite_store import SqliteStore

NAME = "a@host"
LOG = structlog.get_logger()


class CountingStore:
    """The metadata store, with incarnations only."""

    def __init__(self) -> None:
        self.known: MetadataSnapshot = {}
        self.latest = IncarnationDefinition(NAME, 0, 0, 0)
        self.heard = True
        self.answers = True

    async def next_incarnation(self, incarnation: int, data: int, asked: int) -> tuple[IncarnationDefinition, int]:
        return next_incarnation(NAME, incarnation, data, asked, self.known)

    async def register_incarnation(self, wanted: IncarnationDefinition, seen_at: int) -> None:
        if self.heard:
            self.known[wanted.key()] = (1, seen_at + 1, wanted.value())
            self.latest = wanted
        if not self.answers:
            raise ConnectionError("nobody can tell whether it was counted")


class Member:
    """One node, its data directory and a backup of that."""

    def __init__(self, path: Path) -> None:
        self.data = path / "data"
        self.backup = path / "backup"
        self.store = CountingStore()

    def starts(self) -> None:
        """Until its incarnation is registered, or not."""
        disk = Disk(str(self.data), NAME)
        try:
            found = disk.found(disk.begin_incarnation(), 0)
            asyncio.run(register_incarnation(cast("Any", self.store), disk, found, LOG))
            assert found.incarnation == self.store.latest.incarnation
        finally:
            disk.close()

    def starts_in_vain(self) -> None:
        """It dies before it could ask another node."""
        disk = Disk(str(self.data), NAME)
        disk.begin_incarnation()
        disk.close()

    def asks_in_vain(self, heard: bool) -> None:
        """It dies before it is answered."""
        self.store.heard, self.store.answers = heard, False
        with pytest.raises(ConnectionError):
            self.starts()
        self.store.heard = self.store.answers = True

    def is_backed_up(self) -> None:
        shutil.copytree(self.data, self.backup)

    def is_restored(self) -> None:
        shutil.rmtree(self.data)
        shutil.copytree(self.backup, self.data)


@pytest.fixture
def member(tmp_path: Path) -> Member:
    """In its second incarnation."""
    made = Member(tmp_path)
    made.starts()
    made.starts()
    return made


def test_a_disk_stays_current_after_failed_starts_of_its_node(member: Member) -> None:
    for _ in range(3):
        member.starts_in_vain()
    member.starts()
    assert (member.store.latest.born, member.store.latest.without_past()) == (0, False)


@pytest.mark.parametrize("in_vain", [0, 1, 2, 5])
def test_an_old_state_of_a_disk_stays_old_after_failed_starts_of_its_node(member: Member, in_vain: int) -> None:
    member.is_backed_up()
    member.starts()
    member.is_restored()
    for _ in range(in_vain):
        member.starts_in_vain()
    member.starts()
    assert member.store.latest.without_past()


@pytest.mark.parametrize("heard", [True, False])
def test_a_disk_whose_registration_was_not_answered_starts_again(member: Member, heard: bool) -> None:
    for _ in range(2):
        member.asks_in_vain(heard)
    member.starts()
    assert member.store.latest.born == 0


@pytest.mark.parametrize("heard", [True, False])
def test_an_old_state_of_a_disk_does_not_become_the_latest_by_asking(member: Member, heard: bool) -> None:
    member.is_backed_up()
    member.starts()
    member.is_restored()
    for _ in range(2):
        member.asks_in_vain(heard)
    member.starts()
    assert member.store.latest.without_past()


def test_an_old_state_of_a_disk_goes_on_from_its_first_run_that_was_counted(member: Member) -> None:
    member.is_backed_up()
    member.starts()
    member.is_restored()
    member.starts()
    born = member.store.latest.incarnation
    member.starts()
    assert (member.store.latest.born, member.store.latest.incarnation) == (born, born + 1)


@pytest.mark.parametrize(("backed_up", "trusted"), [(False, True), (True, False)])
def test_a_disk_without_a_record_of_its_questions_is_known_by_its_starts(
    member: Member, backed_up: bool, trusted: bool
) -> None:
    if backed_up:
        member.is_backed_up()
        member.starts()
        member.is_restored()
    store = SqliteStore(str(member.data / "metadata.db"))
    store._connection.execute("DELETE FROM facts WHERE name = 'asked'")
    store.close()
    for _ in range(2):
        member.starts_in_vain()
    member.starts()
    assert member.store.latest.without_past() is not trusted
