"""The cookie: the secret that the nodes of a cluster share, from the settings or from a file.

The file is made at the first start, of 32 random bytes, and is the same on all nodes of a cluster: an operator copies
it. It comes to its name complete, so whoever finds it finds all of it. Others must not be able to read it; a file that
they can read is refused, since they may have.

Not here: what is proved with it (`cluster.hello`).
"""

import os
import secrets
import stat
from contextlib import suppress
from typing import Protocol

from warren.errors import ConfigError

RANDOM_BYTES = 32
LENGTH_MIN = 16
FILE_BYTES_MAX = 4096
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class CookieSettings(Protocol):
    """The cookie itself, or else the file it is in."""

    @property
    def cookie(self) -> str: ...

    @property
    def cookie_file(self) -> str: ...


def read_cookie(settings: CookieSettings) -> bytes:
    """The cookie; the file is made if it is needed and there is none. `ConfigError` says what is wrong with it."""
    return settings.cookie.encode() or cookie_in(settings.cookie_file)


def cookie_in(path: str) -> bytes:
    """What the file holds; it is made if there is none."""
    try:
        return cookie_at(path)
    except FileNotFoundError:
        _make(path)
        return cookie_at(path)


def cookie_at(path: str) -> bytes:
    """What the file holds, without white space around it; `FileNotFoundError` if there is none."""
    text, mode = _read(path)
    if mode & _OTHERS:
        raise ConfigError(
            f"the cookie file {path} can be read or written by others (mode {stat.S_IMODE(mode):04o}); "
            "make it private with chmod 400, and make another cookie if somebody may have read it"
        )
    cookie = text.strip()
    if len(cookie) < LENGTH_MIN:
        raise ConfigError(
            f"the cookie file {path} holds {len(cookie)} characters, and a cookie has {LENGTH_MIN} or more; "
            "copy it from another node, or remove it and another one is made"
        )
    return cookie


def _read(path: str) -> tuple[bytes, int]:
    try:
        with open(path, "rb") as file:
            return file.read(FILE_BYTES_MAX), os.fstat(file.fileno()).st_mode
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ConfigError(f"the cookie file {path} cannot be read: {error.strerror}") from error


def _make(path: str) -> None:
    unfinished = f"{path}.{os.getpid()}"
    try:
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o400), "w") as file:
            file.write(f"{secrets.token_hex(RANDOM_BYTES)}\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            # unlike a rename, this leaves a cookie alone that somebody else has made meanwhile
            with suppress(FileExistsError):
                os.link(unfinished, path)
        finally:
            os.unlink(unfinished)
    except OSError as error:
        raise ConfigError(f"the cookie file {path} cannot be made: {error.strerror}") from error
