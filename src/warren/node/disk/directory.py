"""A node's data directory: its owner, format, name and lock; the journal files in it; and deleting everything.

An unusable directory is refused with one sentence before anything in it is changed. An empty or absent directory is
taken: the lock comes first, so that of two nodes that start at once one is refused; then `NODE`, written atomically. A
start that was cut off between the two leaves a directory that counts as empty.

Messages and password hashes are in these files, so the directory is made private: other users of the machine cannot
reach its files, even those with modes that would let them.

A data directory may be a symbolic link, and so may the directories in it, for example to put the journal on a disk of
its own. The files `LOCK` and `*.new` may not: before the directory was private, others may have put them there, and the
node would write to the file that the link names. A pipe, a socket or a device under the name of one of the node's files
is refused too: opening a pipe waits for ever, and a device has no end.

Journal files that were being written when the node ended (`*.new`) are removed; so is the index of a missing segment.
Other files are left alone and reported.

`delete_everything` deletes messages, definitions and membership. A file records that it has begun, and the next opening
of the directory finishes it. So after an interruption the node has everything or nothing. Its name, lock and cookie
stay, and so do foreign files. A directory that is a symbolic link is emptied, and the link stays.

Not here: the journal's bytes (`broker.journal.recovery`), metadata (`node.disk.sqlite_store`), leaving a cluster
(`node.cluster.stopped_member`).
"""

import contextlib
import errno
import fcntl
import os
import pwd
import re
import shutil
import stat
from collections.abc import Callable
from typing import TypeVar

from warren.broker.journal.recovery import JournalFiles
from warren.errors import ConfigError, StoreError
from warren.node.disk import file_names
from warren.node.disk.file_io import DIRECTORY_MODE, FILE_MODE, replace_file, sync_directory, write_all

T = TypeVar("T")

_OTHERS = (file_names.CHECKPOINT, file_names.SPARE, file_names.IDENTITY)


class FoundJournalFiles(JournalFiles):
    """The files behind the port that recovery reads."""

    def __init__(self, journal: str, tidy: bool = True) -> None:
        """`tidy`: remove unfinished files."""
        self._journal = journal
        self._segments: list[int] = []
        self.strangers: list[str] = []
        for name in sorted(_os_error_reported(journal, os.listdir)):
            number = file_names.segment_number(name)
            if number is not None:
                self._segments.append(number)
            elif name.endswith(file_names.UNFINISHED_SUFFIX):
                if tidy:
                    self._remove(name)
            elif file_names.index_number(name) is None and name not in _OTHERS:
                self.strangers.append(name)
        if tidy:
            self._remove_lone_indexes()

    def checkpoint(self) -> bytes | None:
        return self._content(file_names.CHECKPOINT)

    def segments(self) -> list[int]:
        return self._segments

    def segment(self, number: int) -> bytes:
        name = file_names.segment_name(number)
        content = self._content(name)
        if content is None:
            raise StoreError(f"{os.path.join(self._journal, name)} is missing")
        return content

    def index(self, number: int) -> bytes | None:
        return self._content(file_names.index_name(number))

    def has_index(self, number: int) -> bool:
        return os.path.lexists(file_names.index_path(self._journal, number))

    def _content(self, name: str) -> bytes | None:
        path = os.path.join(self._journal, name)
        return _os_error_reported(path, _read_file) if os.path.lexists(path) else None

    def _remove_lone_indexes(self) -> None:
        present = set(self._segments)
        for name in os.listdir(self._journal):
            number = file_names.index_number(name)
            if number is not None and number not in present:
                self._remove(name)

    def _remove(self, name: str) -> None:
        _os_error_reported(os.path.join(self._journal, name), os.unlink)


def _read_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _os_error_reported(path: str, act: Callable[[str], T]) -> T:
    """The result of a file operation, or a `StoreError` in one sentence."""
    try:
        return act(path)
    except OSError as error:
        raise StoreError(f"{path} cannot be used: {error.strerror}") from error


_KEPT_BY_THE_NODE = (
    file_names.CLUSTER,
    file_names.FOUNDING,
    file_names.METADATA,
    f"{file_names.METADATA}-wal",
    f"{file_names.METADATA}-shm",
    file_names.JOURNAL,
    file_names.STREAMS,
    file_names.ETCD,
    file_names.ETCD_IDENTITY,
)


def delete_everything(data_dir: str) -> None:
    """The directory must be locked, and nothing in it open."""
    replace_file(os.path.join(data_dir, file_names.RESET), b"everything the node keeps is being deleted\n")
    finish_deletion(data_dir)


def finish_deletion(data_dir: str) -> None:
    """Finish a deletion that was begun."""
    mark = os.path.join(data_dir, file_names.RESET)
    if not os.path.exists(mark):
        return
    for name in _KEPT_BY_THE_NODE:
        _delete(os.path.join(data_dir, name))
    sync_directory(data_dir)
    os.unlink(mark)
    sync_directory(data_dir)


def _delete(path: str) -> None:
    if os.path.islink(path) and os.path.isdir(path):
        for name in os.listdir(path):
            _delete(os.path.join(path, name))
        sync_directory(path)
    elif os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def refuse_special_files(data_dir: str) -> None:
    """Raise `ConfigError` if a pipe, a socket or a device has the name of one of the node's files."""
    streams = os.path.join(data_dir, file_names.STREAMS)
    folders = [data_dir, os.path.join(data_dir, file_names.JOURNAL)]
    folders += [os.path.join(streams, name) for name in os.listdir(streams)] if os.path.isdir(streams) else []
    for folder in filter(os.path.isdir, folders):
        for entry in list(os.scandir(folder)):
            is_ordinary = entry.is_file() or entry.is_dir() or not os.path.exists(entry.path)
            if file_names.is_own(entry.name) and not is_ordinary:
                raise ConfigError(f"{entry.path} is a pipe, a socket or a device, not a file; remove it")


FORMAT = 1
_MARK = re.compile(r"warren (\d{1,9})\n(?s:(.*))")
_NAME = re.compile(r"name=(\S+)\n")
# files that an interrupted start, an operator or a file system may have put there
_AS_GOOD_AS_EMPTY = frozenset(
    {file_names.LOCK, file_names.NODE + file_names.UNFINISHED_SUFFIX, file_names.COOKIE, "lost+found"}
)
_CHOOSE_ANOTHER = "choose another directory with --data"


def make_folders_private(path: str) -> None:
    """Take from others what an older version, a copy or an operator gave them in the folders below. The files beside
    the folders are checked by their users: a cookie that others could read is refused."""
    folders = [entry.path for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False)]
    while folders:
        folder = folders.pop()
        # a folder of another user, such as lost+found, or a file that a running etcd deletes meanwhile
        with contextlib.suppress(OSError):
            _make_private(folder, os.stat(folder))
            for entry in os.scandir(folder):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    with contextlib.suppress(FileNotFoundError):
                        _make_private(entry.path, entry.stat(follow_symlinks=False))


def _make_private(path: str, found: os.stat_result) -> None:
    if found.st_mode & _FOR_OTHERS:
        os.chmod(path, stat.S_IMODE(found.st_mode) & ~_FOR_OTHERS)


_FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class DataDirectory:
    """The directory, locked until `close`."""

    def __init__(self, path: str, node_name: str) -> None:
        self.path = os.path.abspath(path)
        self.metadata_path = os.path.join(self.path, file_names.METADATA)
        self.journal_path = os.path.join(self.path, file_names.JOURNAL)
        self.streams_path = os.path.join(self.path, file_names.STREAMS)
        self._shown = f"--data {path}"
        self._lock = -1
        try:
            self._open(node_name)
        except OSError as error:
            self.close()
            raise ConfigError(f"{self._shown} cannot be written to: {error.strerror}") from error
        except (ConfigError, StoreError):
            self.close()
            raise

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _open(self, node_name: str) -> None:
        self._make()
        self._check_owner()
        refuse_special_files(self.path)
        self._kept_name()
        self._check_writable()
        self._lock = self._locked()
        kept = self._kept_name()
        if kept and kept != node_name:
            raise ConfigError(
                f"{self._shown} holds the data of the node {kept}, not of {node_name}; start it with --name {kept}, "
                f"or {_CHOOSE_ANOTHER}"
            )
        os.chmod(self._lock, FILE_MODE)
        os.chmod(self.path, DIRECTORY_MODE)
        make_folders_private(self.path)
        self._sign()
        if not kept:
            self._mark(node_name)
        finish_deletion(self.path)
        self._make_journal()

    def rename(self, node_name: str) -> None:
        """The data belongs to a node of that name from here on."""
        self._mark(node_name)

    def delete_everything(self) -> None:
        """Delete all data of the node."""
        delete_everything(self.path)
        self._make_journal()

    def _mark(self, node_name: str) -> None:
        mark = f"warren {FORMAT}\nname={node_name}\n"
        replace_file(os.path.join(self.path, file_names.NODE), mark.encode())

    def _make_journal(self) -> None:
        if not os.path.isdir(self.journal_path):
            os.mkdir(self.journal_path, DIRECTORY_MODE)
            sync_directory(self.path)

    def _make(self) -> None:
        """Create the missing parts of the path, so that they survive a power loss."""
        missing = []
        above = self.path
        while not os.path.lexists(above):
            missing.append(above)
            above = os.path.dirname(above)
        if not os.path.isdir(above):
            raise ConfigError(f"{self._shown} is not a directory")
        for path in reversed(missing):
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, DIRECTORY_MODE)
            sync_directory(os.path.dirname(path))

    def _check_owner(self) -> None:
        owner, user = os.stat(self.path).st_uid, os.geteuid()
        if owner != user:
            owner_name, user_name = _user_name(owner), _user_name(user)
            raise ConfigError(
                f"{self._shown} belongs to the user {owner_name}, and the node runs as {user_name}; run it as "
                f"{owner_name}, or hand the directory over with chown -R {user_name} {self.path}"
            )

    def _check_writable(self) -> None:
        if not os.access(self.path, os.W_OK | os.X_OK, effective_ids=True):
            read_only = os.statvfs(self.path).f_flag & os.ST_RDONLY
            reason = "its file system is read-only" if read_only else "its mode does not allow it"
            raise ConfigError(f"{self._shown} cannot be written to: {reason}")

    def _kept_name(self) -> str:
        """The name of the node the data belongs to; empty if there is none yet."""
        mark_path = os.path.join(self.path, file_names.NODE)
        if not os.path.lexists(mark_path):
            if set(os.listdir(self.path)) - _AS_GOOD_AS_EMPTY:
                raise ConfigError(f"{self._shown} holds files of another program; {_CHOOSE_ANOTHER}")
            return ""
        try:
            with open(mark_path, "rb") as file:
                text = file.read(4096).decode()
        except (OSError, UnicodeDecodeError):
            text = ""
        mark = _MARK.fullmatch(text)
        if mark and int(mark[1]) > FORMAT:
            raise ConfigError(
                f"{self._shown} was written by a newer version (format {int(mark[1])}); this one reads format {FORMAT}"
            )
        name = _NAME.fullmatch(mark[2]) if mark and int(mark[1]) == FORMAT else None
        if name is None:
            raise ConfigError(f"the file {mark_path} is damaged; it should read 'warren {FORMAT}' and 'name=NAME@HOST'")
        return name[1]

    def _locked(self) -> int:
        path = os.path.join(self.path, file_names.LOCK)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            raise ConfigError(f"{path} is a symbolic link; remove it, if no node runs here") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise ConfigError(
                f"{self._shown} is in use by another node (pid {holder}); stop that one, or {_CHOOSE_ANOTHER}"
            ) from error
        return descriptor

    def _sign(self) -> None:
        """Write the process id, so that a refused node can report the holder of the lock."""
        signature = f"{os.getpid()}\n".encode()
        write_all(self._lock, signature, 0)
        os.ftruncate(self._lock, len(signature))


def _user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
