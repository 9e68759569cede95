"""Passwords that operators set, and hashes in definitions."""

import asyncio

import pytest

from warren.admin.resources.users import decoded, encoded, hashed
from warren.broker.access.passwords import ALGORITHMS, is_password
from warren.errors import CommandRefused


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_password_becomes_a_hash_with_a_salt_of_its_own(algorithm: str) -> None:
    one, other = (asyncio.run(hashed(algorithm, "s3cret")) for _ in range(2))
    assert one != other
    assert is_password("s3cret", algorithm, one)
    assert is_password("s3cret", algorithm, other)


def test_an_empty_password_becomes_no_hash() -> None:
    assert asyncio.run(hashed(ALGORITHMS[0], "")) == b""


def test_hashes_are_written_in_base64() -> None:
    assert decoded("AQIDBCkCskeVtNhH6DXTixo9h84=") == b"\1\2\3\4)\2\xb2G\x95\xb4\xd8G\xe85\xd3\x8b\x1a=\x87\xce"
    assert encoded(decoded("YWI=")) == "YWI="
    with pytest.raises(CommandRefused, match="not_base64"):
        decoded("!!notb64")
