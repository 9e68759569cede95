"""Passwords and their hashes: RabbitMQ's as RabbitMQ makes them, and a slow one."""

import base64
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property.wire_strategies import surrogate_text
from warren.broker.access.passwords import (
    ALGORITHMS,
    MD5,
    NO_QUICK_HASH,
    NO_SLOW_HASH,
    SCRYPT,
    SHA256,
    SHA512,
    hash_password,
    is_password,
    is_slow,
)

SALT = bytes(range(1, 17))
QUICK = [SHA256, SHA512, MD5]

# hashes of the password "p", made by RabbitMQ 3.10.8
MADE_ELSEWHERE = [
    (SHA256, "AQIDBJdEbMXW6f+VE3iMWG11UIgf0WmDaykMvsT/nerMRhNV"),
    (SHA512, "AQIDBEv08L+iRi6ZYtPsVLlHi/nOFKLypZXpZLuQCrgZ4K1q+WrKAlgZwNbemOkemTfbWw6ukQpIJFFKquObC2n3wxc="),
    (MD5, "AQIDBCkCskeVtNhH6DXTixo9h84="),
]


@pytest.mark.parametrize(("algorithm", "encoded"), MADE_ELSEWHERE)
def test_hashes_are_those_of_rabbitmq(algorithm: str, encoded: str) -> None:
    stored = base64.b64decode(encoded)
    assert hash_password(algorithm, "p", b"\1\2\3\4") == stored
    assert is_password("p", algorithm, stored)
    assert not is_password("q", algorithm, stored)


@given(st.sampled_from(QUICK), surrogate_text(40), surrogate_text(40))
def test_a_hash_fits_the_password_it_was_made_of_and_no_other(algorithm: str, one: str, other: str) -> None:
    stored = hash_password(algorithm, one, SALT)
    assert is_password(one, algorithm, stored) is (one != "")
    assert is_password(other, algorithm, stored) is (one == other != "")


def test_scrypt_is_slow_salted_and_says_how_slow() -> None:
    assert [is_slow(algorithm) for algorithm in ALGORITHMS] == [False, False, False, True]
    stored = hash_password(SCRYPT, "pässword", SALT)
    assert stored[:3] == bytes([14, 8, 1])
    assert stored[3:19] == SALT
    assert is_password("pässword", SCRYPT, stored)
    assert not is_password("password", SCRYPT, stored)
    assert hash_password(SCRYPT, "pässword", SALT[::-1])[19:] != stored[19:]


def test_a_hash_made_with_other_parameters_still_fits() -> None:
    digest = hashlib.scrypt(b"p", salt=SALT, n=1 << 10, r=4, p=2, dklen=32)
    assert is_password("p", SCRYPT, bytes([10, 4, 2]) + SALT + digest)


@pytest.mark.parametrize("password", ["", "p"])
@pytest.mark.parametrize(
    ("algorithm", "stored"),
    [
        (SHA256, b""),
        (SHA256, b"ab"),
        (SHA256, b"salt"),
        (SCRYPT, b""),
        (SCRYPT, bytes(51)),
        (SCRYPT, bytes([31, 255, 255]) + bytes(48)),
        (SCRYPT, bytes([20, 8, 1]) + bytes(48)),
        ("rabbit_password_hashing_nosuch", b"whatever"),
        (SHA256, NO_QUICK_HASH),
    ],
)
def test_a_hash_that_makes_no_sense_fits_nothing(password: str, algorithm: str, stored: bytes) -> None:
    assert not is_password(password, algorithm, stored)


def test_hashing_for_an_unknown_user_costs_as_much_as_for_a_known_one() -> None:
    assert len(NO_SLOW_HASH) == len(hash_password(SCRYPT, "p", SALT))
    assert NO_SLOW_HASH[:3] == hash_password(SCRYPT, "p", SALT)[:3]
    assert not is_password("p", SCRYPT, NO_SLOW_HASH)
