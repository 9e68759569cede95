"""The publishing identity of a message is read from its headers, at any place among its properties."""

import pytest

from warren.broker.model.deduplication import NO_IDENTITY, identity_at
from warren.wire.field_tables import Long
from warren.wire.frames import content_frames
from warren.wire.properties import Properties, encode_header_payload

FRAME_MAX = 131_072


def content(headers: dict[str, object] | None, **properties: str) -> bytes:
    given = Properties(headers=headers, **properties)  # type: ignore[arg-type]
    return content_frames(encode_header_payload(given, 4), b"body", 1, FRAME_MAX)


@pytest.mark.parametrize(
    ("publisher", "publishing_id", "wanted"),
    [
        ("p", "1", (b"p", b"1")),
        ("p", 17, (b"p", b"17")),
        ("p", -17, (b"p", b"-17")),
        ("p", 2**40, (b"p", b"1099511627776")),
        ("p", Long(5), (b"p", b"5")),
        (3, "ü", (b"3", "ü".encode())),
        ("", "1", NO_IDENTITY),
        ("p", "", NO_IDENTITY),
        ("p", None, NO_IDENTITY),
        ("p", {}, NO_IDENTITY),
        ("p", 1.5, NO_IDENTITY),
    ],
)
def test_texts_and_numbers_are_identities(publisher: object, publishing_id: object, wanted: object) -> None:
    headers = {"other": "x", "x-warren-publishing-id": publishing_id, "x-warren-publisher": publisher}
    assert identity_at(content(headers), 0) == wanted
    assert identity_at(b"before" + content(headers, content_type="a", content_encoding="b"), 6) == wanted


def test_both_headers_are_needed() -> None:
    assert identity_at(content({"x-warren-publisher": "p"}), 0) == NO_IDENTITY
    assert identity_at(content({"x-warren-publishing-id": "1"}), 0) == NO_IDENTITY
    assert identity_at(content(None), 0) == NO_IDENTITY


def test_a_long_name_or_id_is_replaced_by_a_digest() -> None:
    names = ["p" * 65, "q" * 65]
    found = {
        identity_at(content({"x-warren-publisher": name, "x-warren-publishing-id": text}), 0)
        for name in names
        for text in ("i" * 17, "j" * 17, "i" * 16)
    }
    assert len(found) == 6
    assert all(len(name) == 16 and len(text) == 16 for name, text in found)


def test_malformed_content_has_no_identity() -> None:
    whole = content({"x-warren-publisher": "p", "x-warren-publishing-id": "1"})
    for size in range(len(whole) - 12):
        assert identity_at(whole[:size], 0) in (NO_IDENTITY, (b"p", b"1"))
