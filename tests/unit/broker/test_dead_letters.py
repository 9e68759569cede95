"""The headers of a dead letter, and the detection of cycles.

Not here: the same over sockets, against RabbitMQ (`tests/wire/test_dead_letters.py`).
"""

import pytest

from tests.unit.broker.queues.world import World
from warren.broker.dead_letters import COUNT_MAX, dead_message, deaths_of, is_cycle
from warren.broker.model.message import NEVER, NO_EXPIRATION, Entry, Envelope, Message
from warren.broker.model.ports import DeadLetter
from warren.wire.field_tables import Long, Table, Timestamp
from warren.wire.frames import content_frames
from warren.wire.properties import Properties, encode_header_payload

NOW_S = 1_700_000_000
QUEUE = World().queue


def message_with(properties: Properties, body: bytes = b"body") -> Message:
    content = content_frames(encode_header_payload(properties, len(body)), body, 1, 4096)
    return Message(Envelope("exchange", "key"), content, 1, len(body), 4096, True, 3, 60_000)


def letter_of(
    headers: Table | None = None, reason: str = "expired", key: str | None = None, expiration: str | None = None
) -> DeadLetter:
    message = message_with(Properties(headers=headers, expiration=expiration, message_id="id"))
    return DeadLetter(QUEUE, Entry(message, 1, NEVER), reason, "graves", key)


def death(queue: str = "q", reason: str = "expired", count: object = 1) -> Table:
    return {"queue": queue, "reason": reason, "count": count}


def test_a_first_death_is_recorded_in_full() -> None:
    assert deaths_of(letter_of(expiration="60000"), NOW_S) == [
        {
            "count": Long(1),
            "reason": "expired",
            "queue": "q",
            "time": Timestamp(NOW_S),
            "exchange": "exchange",
            "routing-keys": ["key"],
            "original-expiration": "60000",
        }
    ]


def test_the_keys_of_cc_follow_the_routing_key() -> None:
    (only,) = deaths_of(letter_of({"CC": ["copy", 5, "other"]}), NOW_S)
    assert only["routing-keys"] == ["key", "copy", "other"]


def test_a_message_without_expiration_has_no_original_expiration() -> None:
    (only,) = deaths_of(letter_of(), NOW_S)
    assert "original-expiration" not in only


def test_another_queue_or_another_reason_is_another_death_in_front() -> None:
    earlier: list[object] = [death("other"), death("q", "rejected")]
    deaths = deaths_of(letter_of({"x-death": earlier}), NOW_S)
    assert [(one["queue"], one["reason"]) for one in deaths] == [
        ("q", "expired"),
        ("other", "expired"),
        ("q", "rejected"),
    ]


def test_the_same_death_is_counted_and_comes_to_the_front() -> None:
    earlier: list[object] = [death("other"), death("q", "expired", 4), death("third")]
    deaths = deaths_of(letter_of({"x-death": earlier}), NOW_S)
    assert [(one["queue"], one["count"]) for one in deaths] == [("q", Long(5)), ("other", Long(1)), ("third", Long(1))]


@pytest.mark.parametrize(
    ("count", "counted"), [(1, 2), (COUNT_MAX - 1, COUNT_MAX), (COUNT_MAX, COUNT_MAX), ("many", 2), (None, 2)]
)
def test_a_count_made_by_a_publisher_is_counted_on_within_bounds(count: object, counted: int) -> None:
    (only,) = deaths_of(letter_of({"x-death": [death(count=count)]}), NOW_S)
    assert only["count"] == Long(counted)


@pytest.mark.parametrize("deaths", ["none", 5, {"queue": "q"}, [], [1, "two", None]])
def test_a_malformed_x_death_header_is_replaced(deaths: object) -> None:
    (only,) = deaths_of(letter_of({"x-death": deaths}), NOW_S)
    assert (only["queue"], only["count"]) == ("q", Long(1))


def test_a_dead_letter_keeps_everything_but_its_expiration() -> None:
    letter = letter_of({"mine": 1}, expiration="60000")
    message = dead_message(letter, deaths_of(letter, NOW_S))
    assert message.body() == b"body"
    assert (message.persistent, message.priority, message.expiration_ms) == (True, 3, NO_EXPIRATION)
    properties = message.properties()
    assert (properties.message_id, properties.expiration) == ("id", None)
    assert message.headers()["mine"] == 1
    assert letter.entry.message.properties().expiration == "60000"


def test_the_first_death_is_remembered_by_name() -> None:
    letter = letter_of(reason="rejected")
    headers = dead_message(letter, deaths_of(letter, NOW_S)).headers()
    assert (headers["x-first-death-reason"], headers["x-first-death-queue"], headers["x-first-death-exchange"]) == (
        "rejected",
        "q",
        "exchange",
    )


def test_a_later_death_does_not_change_the_first() -> None:
    letter = letter_of({"x-first-death-reason": "maxlen", "x-death": [death("other")]})
    assert dead_message(letter, deaths_of(letter, NOW_S)).headers()["x-first-death-reason"] == "maxlen"


def test_an_x_death_header_without_first_death_headers_gets_none() -> None:
    letter = letter_of({"x-death": 5})
    assert list(dead_message(letter, deaths_of(letter, NOW_S)).headers()) == ["x-death"]


def test_deaths_recorded_one_by_one_are_counted_together() -> None:
    uncounted: list[object] = [{"queue": name, "reason": "expired"} for name in ("other", "q", "other", "q", "other")]
    deaths = deaths_of(letter_of({"x-death": uncounted}), NOW_S)
    assert [(one["queue"], one["count"]) for one in deaths] == [("q", Long(3)), ("other", Long(3))]


def test_without_a_key_of_its_own_a_letter_keeps_its_keys() -> None:
    letter = letter_of({"CC": ["copy"]})
    letter.entry.message.envelope = Envelope("exchange", "key", ["copy", "blind"])
    message = dead_message(letter, deaths_of(letter, NOW_S))
    envelope = message.envelope
    assert (envelope.exchange, envelope.routing_key, envelope.copy_keys) == ("graves", "key", ["copy", "blind"])
    assert message.headers()["CC"] == ["copy"]


def test_a_key_of_its_own_replaces_all_others() -> None:
    letter = letter_of({"CC": ["copy"]}, key="grave")
    message = dead_message(letter, deaths_of(letter, NOW_S))
    envelope = message.envelope
    assert (envelope.exchange, envelope.routing_key, envelope.copy_keys) == ("graves", "grave", [])
    assert "CC" not in message.headers()


@pytest.mark.parametrize(
    ("deaths", "cycle"),
    [
        ([], False),
        ([death("other")], False),
        ([death("q")], True),
        ([death("other"), death("q", "maxlen")], True),
        ([death("q", "rejected")], False),
        ([death("other", "rejected"), death("q")], False),
        ([death("q"), death("other", "rejected")], True),
        ([death("other"), death("q", "rejected"), death("q")], False),
        ([{}], False),
    ],
)
def test_a_round_without_a_reject_is_a_cycle(deaths: list[Table], cycle: bool) -> None:
    assert is_cycle(QUEUE, deaths) is cycle
