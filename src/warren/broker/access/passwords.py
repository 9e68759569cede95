"""Passwords as salted hashes.

RabbitMQ's three algorithms use its format, so that its definitions can be imported: four octets of salt, then the
digest of salt and password. They are fast to compute, also for an attacker. The fourth algorithm is scrypt, which is
slow on purpose; its hash has the parameters:

    log2(n)  r   p   salt      digest
    1        1   1   16        32 octets

A malformed hash, or one of an unknown algorithm, matches no password.

The demands of `credential_validator.*` hold for passwords that are set as plain text; a hash tells nothing about its
password.

Not here: the source of the salt, and the thread that computes slow hashes (`node.password_checks`), cached digests
(`broker.access.logins`).
"""

import hashlib
import hmac
from typing import Final

from warren.broker.model.name_pattern import NamePattern
from warren.broker.model.settings import PasswordRules

SHA256: Final = "rabbit_password_hashing_sha256"
SHA512: Final = "rabbit_password_hashing_sha512"
MD5: Final = "rabbit_password_hashing_md5"
SCRYPT: Final = "warren_password_hashing_scrypt"
ALGORITHMS: Final = (SHA256, SHA512, MD5, SCRYPT)

DIGESTS: Final = {SHA256: "sha256", SHA512: "sha512", MD5: "md5"}
QUICK_SALT_OCTETS: Final = 4
SALT_OCTETS: Final = 16
"""Enough for every algorithm; one that needs fewer takes the first."""

SCRYPT_LOG_N: Final = 14
SCRYPT_R: Final = 8
SCRYPT_P: Final = 1
SCRYPT_DIGEST_OCTETS: Final = 32
SCRYPT_BYTES_MAX: Final = 64 * 1024 * 1024
"""The memory of one computation: an imported hash must not be able to ask for all memory."""

NO_QUICK_HASH: Final = bytes(20)
NO_SLOW_HASH: Final = bytes([SCRYPT_LOG_N, SCRYPT_R, SCRYPT_P]) + bytes(SALT_OCTETS + SCRYPT_DIGEST_OCTETS)
"""Compared with the password of a user that has no hash; no known password matches it."""


def is_slow(algorithm: str) -> bool:
    """Whether the algorithm takes too long for a turn."""
    return algorithm == SCRYPT


def password_refusal(password: str, rules: PasswordRules) -> str:
    """Why a password must not be set, in RabbitMQ's words; empty if it may."""
    if len(password.encode("utf-8", "surrogateescape")) < rules.bytes_min:
        return f"minimum required password length is {rules.bytes_min}"
    if rules.pattern and not NamePattern(rules.pattern).matches(password):
        return "provided password does not match the validator regular expression"
    return ""


def hash_password(algorithm: str, password: str, salt: bytes) -> bytes:
    """The hash of a password."""
    octets = password.encode("utf-8", "surrogateescape")
    if algorithm == SCRYPT:
        return _scrypt(octets, SCRYPT_LOG_N, SCRYPT_R, SCRYPT_P, salt[:SALT_OCTETS])
    salt = salt[:QUICK_SALT_OCTETS]
    return salt + hashlib.new(DIGESTS[algorithm], salt + octets).digest()


def is_password(password: str, algorithm: str, password_hash: bytes) -> bool:
    """Whether the hash is the hash of this password. An empty password never matches."""
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
    if not _is_computable(password_hash):
        # the refusal takes as long as any other
        password_hash = NO_SLOW_HASH
    log_n, r, p = password_hash[0], password_hash[1], password_hash[2]
    made = _scrypt(octets, log_n, r, p, password_hash[3 : 3 + SALT_OCTETS])
    return hmac.compare_digest(made, password_hash)


def _is_computable(password_hash: bytes) -> bool:
    if len(password_hash) != 3 + SALT_OCTETS + SCRYPT_DIGEST_OCTETS:
        return False
    log_n, r, p = password_hash[0], password_hash[1], password_hash[2]
    return 1 <= log_n <= 20 and r > 0 and p > 0 and 128 * r * (p + (1 << log_n)) <= SCRYPT_BYTES_MAX


def _scrypt(octets: bytes, log_n: int, r: int, p: int, salt: bytes) -> bytes:
    digest = hashlib.scrypt(
        octets, salt=salt, n=1 << log_n, r=r, p=p, maxmem=2 * SCRYPT_BYTES_MAX, dklen=SCRYPT_DIGEST_OCTETS
    )
    return bytes([log_n, r, p]) + salt + digest
