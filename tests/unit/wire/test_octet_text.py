"""Octets as text and back."""

from hypothesis import example, given
from hypothesis import strategies as st

from warren.wire.octet_text import NOT_UTF8, octets_of_text, text_of_octets


@given(st.binary(max_size=30))
@example(b"\xff")
@example(b"caf\xe9")
@example(b"")
def test_octets_come_back_from_their_text(octets: bytes) -> None:
    text = text_of_octets(octets)
    assert octets_of_text(text.encode()) == octets
    assert text.startswith(NOT_UTF8) or text.encode() == octets


@given(st.sampled_from(["", "eA==", "/w", "/w==\n", "?", "/x=="]))
def test_text_that_only_looks_so_stays_as_it_is(rest: str) -> None:
    encoded = (NOT_UTF8 + rest).encode()
    assert octets_of_text(encoded) == encoded
