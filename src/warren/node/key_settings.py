"""The settings of the keys that sign access tokens (`auth_oauth2.*`), as plain values.

They are apart from the keys, because a node without tokens need not load the libraries of signatures: these take some
megabytes.

Not here: reading the settings (`node.config.authentication_settings`), the keys (`node.signing_keys`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

RSA_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
CURVE_ALGORITHMS = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
ALGORITHMS = (*RSA_ALGORITHMS, *CURVE_ALGORITHMS.values(), "EdDSA")
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class KeySettings:
    """`auth_oauth2.*`: where keys come from, and which algorithms they may verify."""

    # PEM files by the name of the key
    files: Mapping[str, str] = field(default_factory=dict)
    # the key of tokens that name none
    default_key: str = ""
    jwks_url: str = ""
    issuer: str = ""
    cacertfile: str = ""
    algorithms: tuple[str, ...] = ALGORITHMS

    @property
    def can_fetch(self) -> bool:
        """Whether an issuer has keys."""
        return bool(self.jwks_url or self.issuer)

    @property
    def can_verify(self) -> bool:
        """Whether there are any keys."""
        return self.can_fetch or bool(self.files)


def is_trusted_url(url: str) -> bool:
    """Whether no machine on the way can change an answer: `https`, or `http` within this machine."""
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname) and "@" not in parts.netloc and (parts.port or 0) >= 0 and url.isascii()
    except ValueError:
        return False
    return usable and (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK_NAMES))
