"""Passwords as salted hashes.

RabbitMQ's three are kept as it keeps them, so that its definitions can be taken over: four octets of salt, then the
digest of salt and password. They are quick to compute, for us and for whoever steals them. The fourth is scrypt, slow
on purpose; its hash says how slow:

    log2(n)  r   p   salt      digest
    1        1   1   16        32 octets

A hash that is not as its algorithm wants it, or of an algorithm that is not known, fits no password.

Not here: where the salt comes from, and the thread in which slow hashes are computed (`node`, `admin`); which passwords
are remembered (`broker.access`).
"""

import hashlib
import hmac
from typing import Final

SHA256: Final = "rabbit_password_hashing_sha256"
SHA512: Final = "rabbit_password_hashing_sha512"
MD5: Final = "rabbit_password_hashing_md5"
SCRYPT: Final = "warren_password_hashing_scrypt"
ALGORITHMS: Final = (SHA256, SHA512, MD5, SCRYPT)

DIGESTS: Final = {SHA256: "sha256", SHA512: "sha512", MD5: "md5"}
QUICK_SALT_OCTETS: Final = 4
SALT_OCTETS: Final = 16
"""As many as any algorithm wants; one that wants fewer takes the first."""

SCRYPT_LOG_N: Final = 14
SCRYPT_R: Final = 8
SCRYPT_P: Final = 1
SCRYPT_DIGEST_OCTETS: Final = 32
SCRYPT_BYTES_MAX: Final = 64 * 1024 * 1024
"""What one computation may take of memory: a hash from elsewhere must not be able to ask for all there is."""

NO_QUICK_HASH: Final = bytes(20)
NO_SLOW_HASH: Final = bytes([SCRYPT_LOG_N, SCRYPT_R, SCRYPT_P]) + bytes(SALT_OCTETS + SCRYPT_DIGEST_OCTETS)
"""What a password is compared with when there is nothing to compare it with: nobody will find one that fits."""


def is_slow(algorithm: str) -> bool:
    """Whether it takes too long for a turn."""
    return algorithm == SCRYPT


def hash_password(algorithm: str, password: str, salt: bytes) -> bytes:
    """What is kept of a password."""
    octets = password.encode("utf-8", "surrogateescape")
    if algorithm == SCRYPT:
        return _scrypt(octets, SCRYPT_LOG_N, SCRYPT_R, SCRYPT_P, salt[:SALT_OCTETS])
    salt = salt[:QUICK_SALT_OCTETS]
    return salt + hashlib.new(DIGESTS[algorithm], salt + octets).digest()


def is_password(password: str, algorithm: str, password_hash: bytes) -> bool:
    """Whether this is what the hash was made of. An empty password never is."""
    if not password or not password_hash:
        return False
    octets = password.encode("utf-8", "surrogateescape")
    if algorithm == SCRYPT:
        return _is_scrypt(octets, password_hash)
    digest = DIGESTS.get(algorithm)
    if digest is None:
        return False
    salt = password_hash[:QUICK_SALT_OCTETS]
    return hmac.compare_digest(salt + hashlib.new(digest, salt + octets).digest(), password_hash)


def _is_scrypt(octets: bytes, password_hash: bytes) -> bool:
    if len(password_hash) != 3 + SALT_OCTETS + SCRYPT_DIGEST_OCTETS:
        return False
    log_n, r, p = password_hash[0], password_hash[1], password_hash[2]
    if not 1 <= log_n <= 20 or not r or not p or 128 * r * (p + (1 << log_n)) > SCRYPT_BYTES_MAX:
        return False
    made = _scrypt(octets, log_n, r, p, password_hash[3 : 3 + SALT_OCTETS])
    return hmac.compare_digest(made, password_hash)


def _scrypt(octets: bytes, log_n: int, r: int, p: int, salt: bytes) -> bytes:
    digest = hashlib.scrypt(
        octets, salt=salt, n=1 << log_n, r=r, p=p, maxmem=2 * SCRYPT_BYTES_MAX, dklen=SCRYPT_DIGEST_OCTETS
    )
    return bytes([log_n, r, p]) + salt + digest
