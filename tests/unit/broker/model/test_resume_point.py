"""Where a stream reader continues after its master changed."""

from tests.unit.broker.streams.stage import message_of
from warren.broker.model.message import Entry
from warren.broker.model.reader_positions import AT_HOME, ResumePoint
from warren.wire.field_tables import Table


def delivered(offset: int) -> Entry:
    return Entry(message_of(b"m"), 1, AT_HOME | (5 << 44 | offset + 1))


def test_a_reader_without_an_offset_repeats_its_request() -> None:
    arguments: Table = {"x-stream-offset": "next"}
    assert ResumePoint(arguments).arguments() == arguments


def test_a_reader_without_deliveries_continues_at_its_first_offset() -> None:
    place = ResumePoint({})
    place.began(7)
    assert place.arguments() == {"x-stream-offset": 7}


def test_a_reader_continues_after_its_last_delivery() -> None:
    place = ResumePoint({"x-stream-offset": "5m"})
    place.began(7)
    place.got(delivered(9))
    assert place.arguments() == {"x-stream-offset": 10}
    place.headers_received({"x-stream-offset": 20, "x-stream-count": 5})
    assert place.arguments() == {"x-stream-offset": 25}


def test_a_reader_with_a_stored_offset_continues_there_or_at_its_first_offset() -> None:
    for kept in ("x-stream-consumer-name", "x-stream-group"):
        place = ResumePoint({kept: "billing", "x-stream-offset": "next"})
        place.began(-1)
        for offset in (100, 101):
            place.got(delivered(offset))
        wanted = {kept: "billing", "x-stream-offset": "stored", "x-stream-offset-default": 100}
        assert place.arguments() == wanted
