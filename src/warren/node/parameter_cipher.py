"""Encryption of parameters at rest: the URIs of shovels and upstreams hold passwords of other brokers.

The key is derived from the cookie, because it is the one secret that all nodes of a cluster have: a parameter that one
node writes to etcd must be readable on the others. A copy of `metadata.db`, a backup of etcd or an etcd that others
operate does not reveal the passwords to a reader who lacks the cookie. A reader of the whole data directory has the
cookie, too, unless `cluster.cookie_file` names a place elsewhere.

AES-SIV is deterministic, so it needs no random numbers, and authenticates the value together with its key: a value that
was copied to another key is not decrypted.

A value that cannot be decrypted, because the cookie was replaced, stays as it is: the node starts, the parameter is
known by name, and it is back when the cookie is.

Not here: the cookie (`node.peers.cookie`), encrypted parameters in the broker (`broker.metadata.policy_definitions`).
"""

import hashlib
from functools import cached_property
from typing import TYPE_CHECKING

from warren.broker.metadata.policy_definitions import PARAMETERS, SEALED
from warren.broker.metadata.store import DefinitionFields, encode_fields, key_prefix

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

_PREFIX = key_prefix(PARAMETERS, [])
_SALT = b"warren: the parameters of a cluster at rest"
_KEY_BYTES = 64
_COST = {"n": 2**14, "r": 8, "p": 1}


class ParameterCipher:
    """Encrypts and decrypts the values of parameters, and passes all other values on."""

    def __init__(self, cookie: bytes) -> None:
        self._cookie = cookie

    def sealed(self, key: str, value: bytes) -> bytes:
        """The value to store under a key."""
        if not key.startswith(_PREFIX) or DefinitionFields(key, value).has(SEALED):
            return value
        return encode_fields({SEALED: self._cipher.encrypt(value, [key.encode()])})

    def opened(self, key: str, value: bytes) -> bytes:
        """The value that was given to `sealed`; an encrypted value if the cookie is another one."""
        if not key.startswith(_PREFIX):
            return value
        fields = DefinitionFields(key, value)
        if not fields.has(SEALED):
            return value
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher.decrypt(fields.octets(SEALED), [key.encode()])
        except InvalidTag:
            return value

    def prepare(self) -> None:
        """Derive the key, which takes some hundredths of a second."""
        _ = self._cipher

    @cached_property
    def _cipher(self) -> "AESSIV":
        # a node without parameters does not load this library
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV

        return AESSIV(hashlib.scrypt(self._cookie, salt=_SALT, dklen=_KEY_BYTES, **_COST))
