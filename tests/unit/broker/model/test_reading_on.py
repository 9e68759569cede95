"""Where a reader of a stream goes on, after what."""

from tests.unit.broker.streams.stage import message_of
from warren.broker.model.message import Entry
from warren.broker.model.reader_positions import AT_HOME, ResumePoint
from warren.wire.field_tables import Table


def lent(offset: int) -> Entry:
    return Entry(message_of(b"m"), 1, AT_HOME | (5 << 44 | offset + 1))


def test_one_that_was_told_nothing_asks_as_it_did() -> None:
    arguments: Table = {"x-stream-offset": "next"}
    assert ResumePoint(arguments).arguments() == arguments


def test_one_that_was_given_nothing_asks_for_where_it_began() -> None:
    place = ResumePoint({})
    place.began(7)
    assert place.arguments() == {"x-stream-offset": 7}


def test_one_that_was_given_something_asks_for_what_comes_behind_it() -> None:
    place = ResumePoint({"x-stream-offset": "5m"})
    place.began(7)
    place.got(lent(9))
    assert place.arguments() == {"x-stream-offset": 10}
    place.told({"x-stream-offset": 20, "x-stream-count": 5})
    assert place.arguments() == {"x-stream-offset": 25}


def test_one_whose_progress_is_kept_asks_for_that_and_else_for_where_it_began() -> None:
    for kept in ("x-stream-consumer-name", "x-stream-group"):
        place = ResumePoint({kept: "billing", "x-stream-offset": "next"})
        place.began(-1)
        for offset in (100, 101):
            place.got(lent(offset))
        wanted = {kept: "billing", "x-stream-offset": "stored", "x-stream-offset-default": 100}
        assert place.arguments() == wanted
