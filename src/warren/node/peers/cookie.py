"""The cookie: the secret that the nodes of a cluster share, from the settings or from a file; and proofs of it by
operators' commands.

The file is made at the first start, of 32 random bytes, and is the same on all nodes of a cluster: an operator copies
it. It is created atomically. Other users must not be able to read it; a readable file is refused, because they may have
read it.

A node whose broker does not run knows no users. An operator's command sends, beside the order, a keyed digest of the
node's name, the method, the path, the body, the time and a nonce. So an order cannot be changed on its way, sent to
another node, or replayed.

Not here: proofs between nodes (`broker.cluster.hello`), the orders (`node.cluster.control_endpoint`).
"""

import hmac
import os
import re
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from warren.errors import ConfigError

RANDOM_BYTES = 32
LENGTH_MIN = 16
FILE_BYTES_MAX = 4096
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class CookieSettings(Protocol):
    """The cookie itself, or else its file."""

    @property
    def cookie(self) -> str: ...

    @property
    def cookie_file(self) -> str: ...


def read_cookie(settings: CookieSettings) -> bytes:
    """The cookie; the file is created if it is needed and missing. `ConfigError` says what is wrong with it."""
    return settings.cookie.encode() or cookie_in(settings.cookie_file)


def cookie_in(path: str) -> bytes:
    """The file's cookie; the file is created if it is missing."""
    try:
        return cookie_at(path)
    except FileNotFoundError:
        _make(path)
        return cookie_at(path)


def cookie_at(path: str) -> bytes:
    """The file's cookie, without white space around it; `FileNotFoundError` if there is none."""
    text, mode = _read(path)
    if mode & _OTHERS:
        raise ConfigError(
            f"the cookie file {path} can be read or written by others (mode {stat.S_IMODE(mode):04o}); "
            "make it private with chmod 400, and replace the cookie if another user may have read it"
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
        # without waiting: a pipe would keep the node from starting, and from saying why
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise ConfigError(f"the cookie file {path} is not a file")
            return file.read(FILE_BYTES_MAX), mode
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ConfigError(f"the cookie file {path} cannot be read: {error.strerror}") from error


def _make(path: str) -> None:
    unfinished = f"{path}.{os.getpid()}"
    try:
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o400), "w") as file:
            file.write(f"{secrets.token_hex(RANDOM_BYTES)}\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            # unlike a rename, this does not replace a cookie that another process has made meanwhile
            with suppress(FileExistsError):
                os.link(unfinished, path)
        finally:
            os.unlink(unfinished)
    except OSError as error:
        raise ConfigError(f"the cookie file {path} cannot be made: {error.strerror}") from error


COOKIE_PROOF_HEADER = "warren-proof"
COOKIE_PROOF_VALID_S = 60
_KEY_FOR = b"warren: orders to a node without users"
_PROOF = re.compile(r"time=(\d{1,12}) nonce=([0-9a-f]{32}) digest=([0-9a-f]{64})")


def prove_cookie(cookie: bytes, node: str, method: str, path: str, body: bytes, time_s: int, nonce: str) -> str:
    """The value of the header."""
    return f"time={time_s} nonce={nonce} digest={_digest(cookie, node, method, path, body, time_s, nonce)}"


USED_PROOFS_MAX = 10_000


class CookieProofVerifier:
    """Accepts each proof once, while it is fresh. `now_s` is wall time.

    Used proofs are remembered also when they are no longer fresh: a clock that is set back would make them so again.
    Only a holder of the cookie can add one.
    """

    def __init__(self, cookie: bytes, now_s: Callable[[], float]) -> None:
        self._cookie = cookie
        self._now_s = now_s
        # the nonces, oldest first
        self._used: dict[str, None] = {}

    def objection(self, text: str, node: str, method: str, path: str, body: bytes) -> str:
        """Why the proof is not accepted; empty if it is."""
        found = _PROOF.fullmatch(text)
        if found is None:
            return "a caller must prove that it has the cookie of this node"
        time_s, nonce, digest = int(found[1]), found[2], found[3]
        if not hmac.compare_digest(digest, _digest(self._cookie, node, method, path, body, time_s, nonce)):
            return "the cookie is not the one of this node"
        if abs(self._now_s() - time_s) > COOKIE_PROOF_VALID_S:
            return f"the proof is of another time: the clocks differ by more than {COOKIE_PROOF_VALID_S} s"
        if nonce in self._used:
            return "the proof was used before"
        self._used[nonce] = None
        if len(self._used) > USED_PROOFS_MAX:
            del self._used[next(iter(self._used))]
        return ""


def _digest(cookie: bytes, node: str, method: str, path: str, body: bytes, time_s: int, nonce: str) -> str:
    key = hmac.digest(cookie, _KEY_FOR, "sha256")
    parts = [node.encode(), method.encode(), path.encode(), body, str(time_s).encode(), nonce.encode()]
    return hmac.digest(key, b"".join(len(part).to_bytes(4, "big") + part for part in parts), "sha256").hex()
