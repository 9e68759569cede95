"""The keys that sign access tokens: from PEM files, and from an issuer's JWKS.

A key has a type, and with it the algorithms that it may verify; a token's own word (`alg`) only chooses among them. So
a public key is never taken for the secret of an HMAC, and a token without a signature has no key. Symmetric keys are
not accepted at all: who can verify with them can sign.

*Fetching.* The set is fetched at the start, every few minutes, and when a token names a key that is not known. Fetches
have a minimum interval, so invented key names cannot make the node press its issuer. If a fetch fails, or its answer
has no usable key, the known keys stay. A key that the issuer has withdrawn is dropped with the next fetch. With an
`issuer` instead of a `jwks_url`, the issuer's discovery document says where the set is, each time.

Not here: HTTP (`node.http_fetch`), tokens (`node.token_verification`), settings (`node.key_settings`).
"""

import asyncio
import json
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from cryptography.x509 import load_pem_x509_certificate
from jwt import PyJWK, PyJWTError

from warren.errors import ConfigError
from warren.node.http_fetch import FetchFailed, FetchLimits, fetch
from warren.node.key_settings import CURVE_ALGORITHMS, RSA_ALGORITHMS, KeySettings, is_trusted_url
from warren.node.logs import Log

RSA_BITS = (2048, 8192)
"""Shorter keys are not safe, and longer ones are slow."""
KEYS_MAX = 100
DISCOVERY_PATH = "/.well-known/openid-configuration"

PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey


@dataclass(frozen=True)
class SigningKey:
    """A public key, and the algorithms it may verify."""

    key: PublicKey
    algorithms: tuple[str, ...]


class UnusableKey(ValueError):
    """The key cannot verify a token; the text says why."""


def key_from_pem(data: bytes, allowed: tuple[str, ...]) -> SigningKey:
    """A public key, or that of a certificate."""
    try:
        certificate = b"BEGIN CERTIFICATE" in data
        key = load_pem_x509_certificate(data).public_key() if certificate else load_pem_public_key(data)
    except ValueError:
        raise UnusableKey("it is no public key and no certificate in PEM") from None
    return _signing_key(key, allowed)


def key_from_jwk(document: object, allowed: tuple[str, ...]) -> SigningKey:
    if not isinstance(document, dict) or document.get("kty") not in ("RSA", "EC", "OKP"):
        raise UnusableKey("its type is not RSA, EC or OKP")
    if document.get("use", "sig") != "sig" or "d" in document:
        raise UnusableKey("it is not a public key for signatures")
    algorithm = document.get("alg")
    try:
        # an unknown `alg` must not choose how the key is read
        key = PyJWK({name: value for name, value in document.items() if name != "alg"}).key
    except (PyJWTError, ValueError, TypeError) as error:
        raise UnusableKey(str(error)) from None
    return _signing_key(key, allowed if algorithm is None else tuple(one for one in allowed if one == algorithm))


def _signing_key(key: object, allowed: tuple[str, ...]) -> SigningKey:
    if isinstance(key, rsa.RSAPublicKey):
        if not RSA_BITS[0] <= key.key_size <= RSA_BITS[1]:
            raise UnusableKey(f"it has {key.key_size} bits, and not {RSA_BITS[0]} to {RSA_BITS[1]}")
        own: tuple[str, ...] = RSA_ALGORITHMS
    elif isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in CURVE_ALGORITHMS:
        own = (CURVE_ALGORITHMS[key.curve.name],)
    elif isinstance(key, ed25519.Ed25519PublicKey):
        own = ("EdDSA",)
    else:
        raise UnusableKey("its type or curve is not supported")
    algorithms = tuple(one for one in own if one in allowed)
    if not algorithms:
        raise UnusableKey("none of its algorithms is allowed")
    return SigningKey(key, algorithms)


def keys_in_set(document: object, allowed: tuple[str, ...]) -> dict[str, SigningKey]:
    """The usable keys of a JWKS by name; the others are left out."""
    listed = document.get("keys") if isinstance(document, dict) else None
    found: dict[str, SigningKey] = {}
    for one in listed[:KEYS_MAX] if isinstance(listed, list) else []:
        name = one.get("kid") if isinstance(one, dict) else None
        if isinstance(name, str):
            try:
                found[name] = key_from_jwk(one, allowed)
            except UnusableKey:
                continue
    return found


def read_key_files(settings: KeySettings) -> dict[str, SigningKey]:
    """The keys of the configuration; `ConfigError` names a file that has none."""
    keys: dict[str, SigningKey] = {}
    for name, path in settings.files.items():
        try:
            with open(path, "rb") as file:
                keys[name] = key_from_pem(file.read(), settings.algorithms)
        except OSError as error:
            raise ConfigError(f"auth_oauth2.signing_keys.{name}: {path} cannot be read: {error.strerror}") from None
        except UnusableKey as error:
            raise ConfigError(f"auth_oauth2.signing_keys.{name}: {path} cannot be used: {error}") from None
    return keys


def trust_of(settings: KeySettings) -> ssl.SSLContext:
    """The TLS context for the issuer: its name is verified, with the system's authorities or the configured ones."""
    try:
        return ssl.create_default_context(cafile=settings.cacertfile or None)
    except OSError as error:
        reason = error.strerror or "it has no certificate in PEM"
        raise ConfigError(f"auth_oauth2.https.cacertfile: {settings.cacertfile} cannot be used: {reason}") from None


FETCH_INTERVAL_S = 3.0
"""The least time between two fetches: a login that waits for one must end before its client times out."""
REFRESH_S = 300.0
RETRY_S = 30.0


class SigningKeys:
    """The known keys, and fetching others."""

    def __init__(self, settings: KeySettings, log: Log, fetched: Callable[[bool], None]) -> None:
        """`fetched` is called after each fetch, with whether the keys changed."""
        self._settings = settings
        self._log = log
        self._fetched = fetched
        self._from_files = read_key_files(settings)
        self._from_issuer: dict[str, SigningKey] = {}
        self._raw: bytes = b""
        self._tls = trust_of(settings) if self.can_fetch else None
        self._wanted = asyncio.Event()
        # how often the keys have changed
        self.changes = 0

    def find(self, name: str) -> SigningKey | None:
        """The key of this name; an empty name is that of the default key."""
        name = name or self._settings.default_key
        return self._from_files.get(name) or self._from_issuer.get(name)

    @property
    def can_fetch(self) -> bool:
        return self._settings.can_fetch

    def want_fetch(self) -> None:
        """Fetch as soon as the interval allows."""
        self._wanted.set()

    async def keep_fetching(self) -> None:
        """Fetch now, and again when it is wanted or due. Without an issuer there is nothing to do."""
        while self.can_fetch:
            self._wanted.clear()
            good = await self._fetch()
            await asyncio.sleep(FETCH_INTERVAL_S)
            try:
                async with asyncio.timeout(REFRESH_S if good else RETRY_S):
                    await self._wanted.wait()
            except TimeoutError:
                continue

    async def _fetch(self) -> bool:
        before = self._raw
        try:
            url = self._settings.jwks_url or await self._discovered()
            self._take(await fetch(url, self._tls, FetchLimits()))
        except FetchFailed as failure:
            self._log.warning("signing_keys.not_fetched", reason=str(failure), known=len(self._from_issuer))
            self._fetched(False)
            return False
        self._fetched(self._raw != before)
        return True

    def _take(self, body: bytes) -> None:
        if body == self._raw:
            return
        keys = keys_in_set(_document(body), self._settings.algorithms)
        if not keys:
            raise FetchFailed("the set has no usable key")
        self._raw, self._from_issuer = body, keys
        self.changes += 1
        self._log.info("signing_keys.fetched", keys=", ".join(sorted(keys)))

    async def _discovered(self) -> str:
        """The URL of the issuer's keys, as its discovery document has it."""
        issuer = self._settings.issuer
        document = _document(await fetch(issuer.rstrip("/") + DISCOVERY_PATH, self._tls, FetchLimits()))
        if not isinstance(document, dict) or document.get("issuer") != issuer:
            raise FetchFailed(f"the discovery document is not that of {issuer}")
        url = document.get("jwks_uri")
        if not isinstance(url, str) or not is_trusted_url(url):
            raise FetchFailed("the discovery document has no jwks_uri with https")
        return url


def _document(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise FetchFailed("the answer is not JSON") from None
