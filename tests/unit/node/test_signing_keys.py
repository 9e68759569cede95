"""Keys from PEM files and key sets, and the tokens that they verify."""

import base64
import json
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from warren.errors import ConfigError
from warren.node.key_settings import ALGORITHMS, KeySettings, is_trusted_url
from warren.node.signing_keys import (
    UnusableKey,
    key_from_jwk,
    key_from_pem,
    keys_in_set,
    read_key_files,
    trust_of,
)
from warren.node.token_verification import LIFE_MAX_MS, lifetime_ms, verified_claims

RSA_KEY = rsa.generate_private_key(65537, 2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
CLAIMS = {"sub": "alice"}


def pem(key: Any) -> bytes:
    data: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return data


def rsa_jwk(**fields: Any) -> dict[str, Any]:
    return {**RSAAlgorithm.to_jwk(RSA_KEY.public_key(), as_dict=True), "kid": "one", **fields}


def forged(header: dict[str, Any], signature: bytes = b"") -> str:
    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    return ".".join([part(json.dumps(header).encode()), part(json.dumps(CLAIMS).encode()), part(signature)])


@pytest.mark.parametrize("algorithm", ["RS256", "RS512", "PS256"])
def test_an_rsa_key_verifies_its_algorithms(algorithm: str) -> None:
    key = key_from_pem(pem(RSA_KEY), ALGORITHMS)
    assert verified_claims(jwt.encode(CLAIMS, RSA_KEY, algorithm), key) == CLAIMS


def test_keys_of_other_types_verify_theirs() -> None:
    ed_key = ed25519.Ed25519PrivateKey.generate()
    ec_set, ed_set = ECAlgorithm.to_jwk(EC_KEY.public_key(), True), OKPAlgorithm.to_jwk(ed_key.public_key(), True)
    assert verified_claims(jwt.encode(CLAIMS, EC_KEY, "ES256"), key_from_jwk(ec_set, ALGORITHMS)) == CLAIMS
    assert verified_claims(jwt.encode(CLAIMS, ed_key, "EdDSA"), key_from_jwk(ed_set, ALGORITHMS)) == CLAIMS


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "", "HS256", "ES256", "RS999", None, 7, ["RS256"]])
def test_a_token_cannot_choose_another_algorithm_than_its_keys(algorithm: object) -> None:
    key = key_from_pem(pem(RSA_KEY), ALGORITHMS)
    with pytest.raises(jwt.PyJWTError):
        verified_claims(forged({"alg": algorithm, "typ": "JWT"}), key)


def test_a_public_key_is_not_the_secret_of_an_hmac() -> None:
    import hashlib
    import hmac

    public = pem(RSA_KEY)
    head = forged({"alg": "HS256", "typ": "JWT"}).rpartition(".")[0]
    signature = base64.urlsafe_b64encode(hmac.digest(public, head.encode(), hashlib.sha256)).rstrip(b"=").decode()
    with pytest.raises(jwt.InvalidAlgorithmError):
        verified_claims(f"{head}.{signature}", key_from_pem(public, ALGORITHMS))


def test_a_token_of_another_key_is_refused() -> None:
    other = rsa.generate_private_key(65537, 2048)
    with pytest.raises(jwt.InvalidSignatureError):
        verified_claims(jwt.encode(CLAIMS, other, "RS256"), key_from_pem(pem(RSA_KEY), ALGORITHMS))


def test_only_configured_algorithms_count() -> None:
    key = key_from_pem(pem(RSA_KEY), ("RS512", "ES256"))
    assert key.algorithms == ("RS512",)
    with pytest.raises(jwt.InvalidAlgorithmError):
        verified_claims(jwt.encode(CLAIMS, RSA_KEY, "RS256"), key)
    with pytest.raises(UnusableKey, match="none of its algorithms is allowed"):
        key_from_pem(pem(EC_KEY), ("RS256",))


def test_a_key_that_names_its_algorithm_verifies_no_other() -> None:
    assert key_from_jwk(rsa_jwk(alg="PS256"), ALGORITHMS).algorithms == ("PS256",)


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"kty": "oct", "k": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0", "alg": "HS256"},
        {"kty": "RSA"},
        {"kty": "RSA", "n": "AQAB", "e": "AQAB"},
        {"kty": "EC", "crv": "secp256k1", "x": "", "y": ""},
        rsa_jwk(use="enc"),
        rsa_jwk(alg="HS256"),
        rsa_jwk(alg="none"),
        rsa_jwk(d="AQAB"),
        rsa_jwk(n=7),
        rsa_jwk(n="_" * 4096),
    ],
)
def test_an_unusable_key_is_refused(document: object) -> None:
    with pytest.raises(UnusableKey):
        key_from_jwk(document, ALGORITHMS)


def test_unusable_keys_of_a_set_are_left_out() -> None:
    listed = [rsa_jwk(), rsa_jwk(kid=7), "odd", {"kid": "two", "kty": "oct"}]
    assert list(keys_in_set({"keys": listed}, ALGORITHMS)) == ["one"]
    for document in (None, [], {}, {"keys": 7}, {"keys": {"one": rsa_jwk()}}):
        assert keys_in_set(document, ALGORITHMS) == {}


def test_short_rsa_keys_are_refused() -> None:
    with pytest.raises(UnusableKey, match="1024 bits"):
        key_from_pem(pem(rsa.generate_private_key(65537, 1024)), ALGORITHMS)


def test_a_file_without_a_key_stops_the_node(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    with pytest.raises(ConfigError, match=r"auth_oauth2\.signing_keys\.one: .*key\.pem cannot be read"):
        read_key_files(KeySettings(files={"one": str(file)}))
    file.write_text("-----BEGIN NONSENSE-----")
    with pytest.raises(ConfigError, match="cannot be used: it is no public key"):
        read_key_files(KeySettings(files={"one": str(file)}))
    with pytest.raises(ConfigError, match="cacertfile"):
        trust_of(KeySettings(cacertfile=str(file)))
    file.write_bytes(pem(RSA_KEY))
    assert list(read_key_files(KeySettings(files={"one": str(file)}))) == ["one"]


@pytest.mark.parametrize(
    ("claims", "lives_ms"),
    [({}, 0), ({"exp": 101}, 1000), ({"exp": 100.5}, 500), ({"exp": 10**400}, LIFE_MAX_MS), ({"nbf": 160}, 0)],
)
def test_a_token_lives_until_its_end(claims: dict[str, Any], lives_ms: int) -> None:
    assert lifetime_ms(claims, 100.0) == lives_ms


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": 100},
        {"exp": 99},
        {"exp": -1},
        {"exp": True},
        {"exp": "101"},
        {"exp": None},
        {"exp": [101]},
        {"exp": float("nan")},
        {"nbf": 161},
        {"nbf": "0"},
    ],
)
def test_a_token_that_is_not_valid_now_is_refused(claims: dict[str, Any]) -> None:
    with pytest.raises(jwt.PyJWTError):
        lifetime_ms(claims, 100.0)


@pytest.mark.parametrize(
    ("url", "trusted"),
    [
        ("https://id.example/keys", True),
        ("http://127.0.0.1:8080/keys", True),
        ("http://localhost", True),
        ("http://[::1]:80/keys", True),
        ("http://id.example/keys", False),
        ("http://127.0.0.1@id.example/keys", False),
        ("http://localhost.id.example/", False),
        ("https://", False),
        ("https://id.example:x/", False),
        ("file:///etc/passwd", False),
        ("id.example", False),
    ],
)
def test_keys_come_over_tls_or_from_this_machine(url: str, trusted: bool) -> None:
    assert is_trusted_url(url) is trusted
