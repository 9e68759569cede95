"""Converters from payloads to bodies and back: values without a form are refused, and none is changed silently."""

import datetime
import enum
import math
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from warren.client import CannotConvert, Properties
from warren.client.converters import (
    CONVERTERS,
    BytesConverter,
    Converter,
    JsonConverter,
    TextConverter,
    body_of,
    payload_of,
)


class Size(enum.Enum):
    SMALL = "s"
    ENDLESS = math.inf


@dataclass
class Order:
    id: uuid.UUID
    amount: Decimal
    at: datetime.datetime
    size: Size = Size.SMALL


class Received:
    """A message as it comes in."""

    def __init__(self, body: bytes, properties: Properties) -> None:
        self.body = body
        self.properties = properties


def came(payload: object, converter: Converter) -> Received:
    properties = Properties(content_type=converter.content_type, content_encoding=converter.content_encoding)
    return Received(body_of(payload, converter), properties)


@pytest.mark.parametrize(
    ("name", "payload"), [("bytes", b"\x00\xff"), ("text", "Grüße"), ("json", {"a": [1, True, None, "Grüße"]})]
)
def test_a_sent_payload_is_read_again_by_its_content_type(name: str, payload: object) -> None:
    assert payload_of(came(payload, CONVERTERS[name])) == payload


def test_decimals_dates_and_uuids_are_text_in_json() -> None:
    id = uuid.UUID(int=7)
    order = Order(id, Decimal("10.10"), datetime.datetime(2026, 11, 16, 8, 30, tzinfo=datetime.UTC))
    assert payload_of(came(order, JsonConverter())) == {
        "id": str(id),
        "amount": "10.10",
        "at": "2026-11-16T08:30:00+00:00",
        "size": "s",
    }


def test_a_fraction_in_json_is_exact_when_it_is_read() -> None:
    properties = Properties(content_type="application/vnd.order+json; charset=utf-8")
    assert payload_of(Received(b'{"a": 0.10}', properties)) == {"a": Decimal("0.10")}


@pytest.mark.parametrize(
    "payload",
    [
        math.nan,
        [None, -math.inf],
        {"a": (math.nan,)},
        Order(uuid.UUID(int=1), Decimal(1), datetime.datetime.min, Size.ENDLESS),
    ],
    ids=["number", "list", "table", "dataclass"],
)
def test_a_number_that_json_has_not_is_refused_and_not_sent_as_null(payload: object) -> None:
    with pytest.raises(CannotConvert, match=r"(nan|inf) has no form in JSON"):
        body_of(payload, JsonConverter())


@pytest.mark.parametrize(
    ("payload", "converter", "said"),
    [
        (object(), JsonConverter(), "object has no form in JSON"),
        ({1, 2}, JsonConverter(), "set has no form in JSON"),
        (2**64, JsonConverter(), "64-bit"),
        ("text", BytesConverter(), "takes bytes, not str"),
        (b"bytes", TextConverter(), "takes text, not bytes"),
        ("€", TextConverter("ascii"), "cannot be written in ascii"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_payload_without_a_form_is_refused(payload: object, converter: Converter, said: str) -> None:
    with pytest.raises(CannotConvert, match=said):
        body_of(payload, converter)


@pytest.mark.parametrize(
    ("body", "properties", "said"),
    [
        (b"{", Properties(content_type="application/json"), "a body of 1 bytes is not JSON"),
        (b"NaN", Properties(content_type="application/json"), "JSON has no NaN"),
        (b"[" * 100_000, Properties(content_type="application/json"), "not JSON|nested too deep"),
        (b"\xff", Properties(content_type="application/json"), "not text in utf-8"),
        (b"x", Properties(content_type="text/plain", content_encoding="gzip"), "'gzip', which is no encoding of text"),
        (b"x", Properties(content_type="image/png"), "there is no converter for 'image/png'"),
    ],
    ids=["cut", "constant", "deep", "octets", "compressed", "picture"],
)
def test_an_unreadable_body_is_refused(body: bytes, properties: Properties, said: str) -> None:
    with pytest.raises(CannotConvert, match=said):
        payload_of(Received(body, properties))


def test_a_message_without_a_content_type_is_bytes() -> None:
    assert payload_of(Received(b"x", Properties())) == b"x"


def test_text_is_read_in_the_encoding_that_the_message_names() -> None:
    latin = came("Grüße", TextConverter("latin-1"))
    assert (latin.body, latin.properties.content_encoding) == ("Grüße".encode("latin-1"), "latin-1")
    assert payload_of(latin) == "Grüße"


def test_an_encoding_that_there_is_not_is_a_mistake_of_the_program() -> None:
    with pytest.raises(ValueError, match="no encoding of text named 'klingon'"):
        TextConverter("klingon")


class Points:
    """A user's own converter, which inherits nothing."""

    content_type = "application/x-point"
    content_encoding = None

    def to_bytes(self, payload: tuple[int, int]) -> bytes:
        return bytes(payload)

    def from_bytes(self, body: bytes, properties: Properties) -> tuple[int, int]:
        first, second = body
        return first, second


def test_a_users_own_converter_reads_its_own_bodies() -> None:
    assert payload_of(came((3, 4), Points()), Points()) == (3, 4)


def test_any_error_of_a_users_converter_is_a_refusal_with_its_cause() -> None:
    with pytest.raises(CannotConvert, match="Points failed on tuple: ValueError") as refused:
        body_of((3, 400), Points())
    assert isinstance(refused.value.__cause__, ValueError)
    with pytest.raises(CannotConvert, match="Points failed on 3 bytes"):
        payload_of(Received(b"abc", Properties()), Points())


def test_a_converter_that_makes_no_bytes_is_refused() -> None:
    class Sloppy(Points):
        def to_bytes(self, payload: Any) -> Any:
            return "text"

    with pytest.raises(CannotConvert, match="Sloppy made str, and a body is bytes"):
        body_of((1, 2), Sloppy())
