"""The metadata of one node in an SQLite file.

The file is created under another name and moved into place, so an existing file is either completely ours or foreign.
Its first hundred bytes tell which; they are checked before SQLite opens it, because SQLite writes to what it opens.

Write-ahead log, flushed with every transaction: `apply` returns when its changes would survive a power loss. One
process has the file to itself (`EXCLUSIVE`, no shared-memory file); within the process calls come from any thread, one
at a time.

The file is private. SQLite gives its write-ahead log the file's own mode. Values of parameters are stored encrypted
(`node.parameter_cipher`).

Invariant: the stored revision is that of the last change applied, and changes follow one another without a gap.

Not here: keys and values (`broker.metadata.store`), the lock of the data directory and the order of metadata and
journal in a batch (`node.disk.journal_writer`).
"""

import errno
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from warren.broker.metadata.store import (
    COMMITTED,
    OUTDATED,
    CommitResult,
    Compares,
    MetadataStore,
    RequestedChanges,
    Snapshot,
)
from warren.broker.model.journal import MetadataChange
from warren.errors import ConfigError, StoreError
from warren.node.disk.file_io import FILE_MODE, os_error_text
from warren.node.parameter_cipher import ParameterCipher

MAGIC = b"SQLite format 3\0"
HEADER_BYTES = 100
USER_VERSION_AT = 60
APPLICATION_ID_AT = 68

APPLICATION_ID = 0x5761724D
"""`WarM` in ASCII: the application id of the SQLite file."""

SCHEMA_VERSION = 1

SCHEMA = f"""
BEGIN IMMEDIATE;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
CREATE TABLE entries (
    key TEXT PRIMARY KEY, value BLOB NOT NULL, created INTEGER NOT NULL, modified INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO facts VALUES ('revision', 0), ('incarnation', 0), ('asked', 0);
COMMIT;
"""

PUT = """
INSERT INTO entries (key, value, created, modified) VALUES (?1, ?2, ?3, ?3)
ON CONFLICT (key) DO UPDATE SET value = ?2, modified = ?3
"""
DELETE = "DELETE FROM entries WHERE key = ?"
READ_FACT = "SELECT value FROM facts WHERE name = ?"
WRITE_FACT = "UPDATE facts SET value = ? WHERE name = ?"
ADD_FACT = "INSERT OR IGNORE INTO facts (name, value) VALUES (?, ?)"


class SqliteStore(MetadataStore):
    """An open metadata file."""

    def __init__(self, path: str, cipher: ParameterCipher | None = None) -> None:
        """Open the file, or create it. Without a cipher, encrypted values stay as they are.

        Raises `ConfigError` if it is not a metadata file, or one of a newer Warren; `StoreError` if it is damaged.
        """
        self._path = path
        self._cipher = cipher
        if os.path.lexists(path):
            _refuse_foreign(path)
        else:
            _create(path)
        for kept in (path, path + "-wal"):
            if os.path.exists(kept):
                os.chmod(kept, FILE_MODE)
        # this module begins and ends transactions
        self._connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            _configure(self._connection)
            self._check()
            self._revision = self._fact("revision")
        except sqlite3.Error as error:
            self._connection.close()
            raise self._failure(error) from error
        except StoreError:
            self._connection.close()
            raise

    def begin_incarnation(self) -> int:
        """Record this run of the process; returns its number."""
        try:
            begun = self._fact("incarnation")
            # a file from before this was recorded: each of its runs was requested
            self._connection.execute(ADD_FACT, ("asked", begun))
            self._connection.execute(WRITE_FACT, (begun + 1, "incarnation"))
        except sqlite3.Error as error:
            raise self._failure(error) from error
        return begun + 1

    def requested_incarnation(self) -> int:
        """The last run that a cluster was asked to register; a process that only began was not."""
        try:
            return self._fact("asked")
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def record_requested_incarnation(self, incarnation: int) -> None:
        """Record that the request is made; called before it, because its outcome may stay unknown."""
        try:
            self._connection.execute(WRITE_FACT, (incarnation, "asked"))
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def raise_incarnation(self, to: int) -> None:
        """Give this run a higher number, because the numbers up to it are another's."""
        try:
            self._connection.execute(WRITE_FACT, (to, "incarnation"))
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def incarnation(self) -> int:
        """How often a process began to use this file."""
        try:
            return self._fact("incarnation")
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def raise_revision(self, to: int) -> None:
        """Let no change get a number up to this one, because it is taken."""
        try:
            self._connection.execute(WRITE_FACT, (to, "revision"))
        except sqlite3.Error as error:
            raise self._failure(error) from error
        self._revision = to

    def snapshot(self) -> tuple[int, Snapshot]:
        try:
            rows = self._connection.execute("SELECT key, created, value FROM entries").fetchall()
        except sqlite3.Error as error:
            raise self._failure(error) from error
        cipher = self._cipher
        if cipher is None:
            return self._revision, {key: (created, value) for key, created, value in rows}
        return self._revision, {key: (created, cipher.opened(key, value)) for key, created, value in rows}

    def modifications(self) -> dict[str, int]:
        try:
            return dict(self._connection.execute("SELECT key, modified FROM entries").fetchall())
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def apply(self, changes: list[MetadataChange]) -> None:
        """Raises an `OSError` (ENOSPC) when the disk is full: nothing was changed, and the call may be repeated."""
        if not changes:
            return
        for at, change in enumerate(changes):
            if change.revision != self._revision + 1 + at:
                raise StoreError(
                    f"{self._path} is at revision {self._revision + at}, and change {change.revision} does not follow"
                )
        try:
            self._write(changes)
        except sqlite3.Error as error:
            raise self._failure(error) from error
        self._revision = changes[-1].revision

    def commit(
        self,
        compares: Compares,
        changes: RequestedChanges,
        touched: Sequence[str] = (),
        unchanged_under: Sequence[tuple[str, int]] = (),
    ) -> CommitResult:
        """Each change has its own revision; the decision has the last one. Raises what `apply` raises."""
        modified = self.modifications()
        moved = [key for key, revision in compares if modified.get(key, 0) != revision]
        for prefix, revision in unchanged_under:
            moved += [key for key, at in modified.items() if key.startswith(prefix) and at > revision]
        if moved:
            return CommitResult(OUTDATED, self._revision)
        _, found = self.snapshot()
        wanted = [*changes, *[(key, found[key][1]) for key in touched if key in found]]
        first = self._revision + 1
        self.apply([MetadataChange(first + at, key, value) for at, (key, value) in enumerate(wanted)])
        return CommitResult(COMMITTED, self._revision)

    def close(self) -> None:
        self._connection.close()

    def _write(self, changes: list[MetadataChange]) -> None:
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        try:
            for change in changes:
                if change.value is None:
                    execute(DELETE, (change.key,))
                else:
                    cipher = self._cipher
                    value = change.value if cipher is None else cipher.sealed(change.key, change.value)
                    execute(PUT, (change.key, value, change.revision))
            execute(WRITE_FACT, (changes[-1].revision, "revision"))
            execute("COMMIT")
        except sqlite3.Error:
            # most failures end the transaction by themselves
            if self._connection.in_transaction:
                with suppress(sqlite3.Error):
                    execute("ROLLBACK")
            raise

    def _fact(self, name: str) -> int:
        row = self._connection.execute(READ_FACT, (name,)).fetchone()
        if row is None or not isinstance(row[0], int):
            raise StoreError(f"{self._path} is damaged: it does not tell its {name}")
        return row[0]

    def _check(self) -> None:
        found = self._connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise StoreError(f"{self._path} is damaged: {found}")

    def _failure(self, error: sqlite3.Error) -> Exception:
        # the lowest byte is the primary error code
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_FULL:
            return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)
        if code == sqlite3.SQLITE_BUSY:
            return ConfigError(f"{self._path} is in use by another process")
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR):
            # SQLITE_ERROR: a table is not as expected
            return StoreError(f"{self._path} is damaged: {error}")
        return StoreError(f"{self._path} cannot be used: {error}")


def _refuse_foreign(path: str) -> None:
    """Raises `ConfigError` if this version of Warren did not make the file."""
    try:
        with open(path, "rb") as file:
            header = file.read(HEADER_BYTES)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    if len(header) < HEADER_BYTES or not header.startswith(MAGIC):
        raise ConfigError(f"{path} is not an SQLite database, so it holds no metadata of Warren")
    if _number(header, APPLICATION_ID_AT) != APPLICATION_ID:
        raise ConfigError(f"{path} is a database of another program")
    version = _number(header, USER_VERSION_AT)
    if version != SCHEMA_VERSION:
        raise ConfigError(f"{path} has version {version}, and this version of Warren reads {SCHEMA_VERSION}")


def _number(header: bytes, at: int) -> int:
    return int.from_bytes(header[at : at + 4], "big")


def _create(path: str) -> None:
    """Create an empty metadata file atomically."""
    if os.path.lexists(path + "-wal"):
        raise StoreError(f"{path} is missing, though its write-ahead log is there")
    unfinished = path + ".new"
    try:
        for left_over in (unfinished, unfinished + "-wal"):
            Path(left_over).unlink(missing_ok=True)
        os.close(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))
        with closing(sqlite3.connect(unfinished, isolation_level=None)) as connection:
            _configure(connection)
            connection.executescript(SCHEMA)
        os.rename(unfinished, path)
        directory = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except (OSError, sqlite3.Error) as error:
        raise ConfigError(f"{path} cannot be made: {os_error_text(error)}") from error


def _configure(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA journal_mode = WAL")
