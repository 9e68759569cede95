"""The metadata file: applied changes survive a crash, and a file that is not ours is not changed."""

import errno
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from warren.broker.model.journal import MetadataChange
from warren.errors import ConfigError, StoreError
from warren.node.disk.sqlite_store import SqliteStore

# Applies changes until it is killed, and prints each one when it is durable.
ENDLESS_WRITER = """
import sys
from warren.broker.model.journal import MetadataChange
from warren.node.disk.sqlite_store import SqliteStore
store = SqliteStore(sys.argv[1])
for revision in range(1, 1_000_000):
    store.apply([MetadataChange(revision, f"queues/%2F/{revision % 10}", str(revision).encode())])
    print(revision, flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metadata.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(str(path))
    yield store
    store.close()


def reopened(store: SqliteStore, path: Path) -> SqliteStore:
    store.close()
    return SqliteStore(str(path))


def refusal(path: Path) -> str:
    """The sentence of the `ConfigError`; and the directory is unchanged."""
    before = contents(path.parent)
    with pytest.raises(ConfigError) as refused:
        SqliteStore(str(path))
    assert contents(path.parent) == before
    return str(refused.value).removeprefix(f"{path} ")


def contents(directory: Path) -> dict[str, bytes]:
    return {entry.name: entry.read_bytes() for entry in directory.iterdir() if entry.is_file()}


def test_a_new_file_is_empty_and_at_revision_zero(store: SqliteStore, path: Path) -> None:
    assert store.snapshot() == (0, {})
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["metadata.db", "metadata.db-wal"]


def test_applied_changes_are_there_when_the_file_is_opened_again(store: SqliteStore, path: Path) -> None:
    store.apply([MetadataChange(1, "a", b"1"), MetadataChange(2, "b", b"\0\xff"), MetadataChange(3, "a", None)])
    store.apply([MetadataChange(4, "c", b"")])
    store = reopened(store, path)
    assert store.snapshot() == (4, {"b": (2, b"\0\xff"), "c": (4, b"")})
    store.close()


def test_a_key_that_is_put_again_keeps_its_creation_but_not_when_it_was_deleted_between(store: SqliteStore) -> None:
    store.apply([MetadataChange(1, "kept", b"1"), MetadataChange(2, "other", b"1")])
    store.apply([MetadataChange(3, "kept", b"2"), MetadataChange(4, "other", None), MetadataChange(5, "other", b"2")])
    assert store.snapshot() == (5, {"kept": (1, b"2"), "other": (5, b"2")})


@pytest.mark.parametrize("revisions", [[1], [2], [4], [3, 5], [3, 3]])
def test_changes_that_do_not_follow_are_refused_as_a_whole(store: SqliteStore, revisions: list[int]) -> None:
    store.apply([MetadataChange(1, "a", b"1"), MetadataChange(2, "b", b"1")])
    with pytest.raises(StoreError, match="does not follow"):
        store.apply([MetadataChange(revision, f"new {revision}", b"") for revision in revisions])
    assert store.snapshot() == (2, {"a": (1, b"1"), "b": (2, b"1")})
    store.apply([MetadataChange(3, "c", b"1")])


def test_no_changes_are_no_transaction(store: SqliteStore) -> None:
    store.apply([])
    assert store.snapshot() == (0, {})


def test_every_run_has_a_number_of_its_own(store: SqliteStore, path: Path) -> None:
    assert store.begin_incarnation() == 1
    store = reopened(store, path)
    assert store.begin_incarnation() == 2
    store.close()


def test_another_thread_may_apply(store: SqliteStore) -> None:
    writer = threading.Thread(target=store.apply, args=([MetadataChange(1, "a", b"1")],))
    writer.start()
    writer.join()
    assert store.snapshot() == (1, {"a": (1, b"1")})


def test_a_full_disk_changes_nothing_and_the_same_changes_may_be_tried_again(store: SqliteStore) -> None:
    store.apply([MetadataChange(1, "a", b"1")])
    changes = [MetadataChange(2, "b", bytes(100_000)), MetadataChange(3, "a", None)]
    room = store._connection.execute("PRAGMA max_page_count").fetchone()[0]
    store._connection.execute("PRAGMA max_page_count = 10")
    for _ in range(2):
        with pytest.raises(OSError) as full:
            store.apply(changes)
        assert full.value.errno == errno.ENOSPC
        assert store.snapshot() == (1, {"a": (1, b"1")})
    store._connection.execute(f"PRAGMA max_page_count = {room}")
    store.apply(changes)
    assert store.snapshot() == (3, {"b": (2, bytes(100_000))})


def test_a_file_that_is_open_elsewhere_is_refused(store: SqliteStore, path: Path) -> None:
    store.apply([MetadataChange(1, "a", b"1")])
    other = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from warren.node.disk.sqlite_store import *; SqliteStore(sys.argv[1])",
            path,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"ConfigError: {path} is in use by another process" in other.stderr


def test_every_reported_change_survives_the_kill_of_its_writer(path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ENDLESS_WRITER, path], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        told = [int(writer.stdout.readline()) for _ in range(700)]
        writer.kill()
        told += [int(line) for line in writer.stdout]
    store = SqliteStore(str(path))
    revision, entries = store.snapshot()
    store.close()
    assert revision in (told[-1], told[-1] + 1)
    expected = {f"queues/%2F/{number % 10}": str(number).encode() for number in range(revision - 9, revision + 1)}
    assert {key: value for key, (_, value) in entries.items()} == expected


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    for octets in (b"", b"plain text", b"x" * 5000):
        path.write_bytes(octets)
        assert refusal(path) == "is not an SQLite database, so it holds no metadata of Warren"


def test_a_directory_in_its_place_is_refused(path: Path) -> None:
    path.mkdir()
    assert refusal(path) == "cannot be read: Is a directory"


def test_a_link_to_nowhere_is_refused(path: Path) -> None:
    path.symlink_to(path.parent / "nowhere")
    with pytest.raises(ConfigError, match="cannot be read: No such file or directory"):
        SqliteStore(str(path))


def test_a_directory_that_is_not_there_is_named(path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be made: .*: No such file or directory"):
        SqliteStore(str(path.parent / "missing" / "metadata.db"))


def test_the_database_of_another_program_is_refused(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.executescript("CREATE TABLE entries (key TEXT); INSERT INTO entries VALUES ('theirs');")
    connection.close()
    assert refusal(path) == "is a database of another program"


def test_a_file_of_a_newer_version_is_refused(store: SqliteStore, path: Path) -> None:
    store.close()
    connection = sqlite3.connect(path)
    connection.executescript("PRAGMA user_version = 2")
    connection.close()
    assert refusal(path) == "has version 2, and this version of Warren reads 1"


def test_a_damaged_file_is_named(store: SqliteStore, path: Path) -> None:
    store.apply([MetadataChange(number, f"queues/%2F/{number}", bytes(100)) for number in range(1, 1001)])
    store.close()
    octets = bytearray(path.read_bytes())
    for at in range(4096, len(octets), 4096):
        octets[at : at + 200] = bytes(200)
    path.write_bytes(octets)
    with pytest.raises(StoreError, match=f"^{path} is damaged: "):
        SqliteStore(str(path))


def test_a_file_cut_short_is_named(store: SqliteStore, path: Path) -> None:
    store.apply([MetadataChange(number, f"queues/%2F/{number}", bytes(100)) for number in range(1, 1001)])
    store.close()
    os.truncate(path, 4096)
    with pytest.raises(StoreError, match=f"^{path} is damaged: "):
        SqliteStore(str(path))


def test_a_file_that_went_missing_beside_its_log_is_not_made_anew(store: SqliteStore, path: Path) -> None:
    store.close()
    path.rename(path.parent / "metadata.db-wal")
    with pytest.raises(StoreError, match="is missing, though its write-ahead log is there"):
        SqliteStore(str(path))


def test_an_unfinished_file_of_a_crash_is_no_hindrance(path: Path) -> None:
    for name in ("metadata.db.new", "metadata.db.new-wal"):
        (path.parent / name).write_bytes(b"half a file")
    store = SqliteStore(str(path))
    store.close()
    assert [entry.name for entry in path.parent.iterdir()] == ["metadata.db"]
