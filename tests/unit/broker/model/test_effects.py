"""Effects are values: tests and replays compare lists of them."""

from itertools import combinations

from warren.broker.model.effects import (
    CloseConnection,
    Effect,
    Note,
    PauseReading,
    ResumeReading,
    SendBytes,
    SetTimer,
    StopNode,
)


def every_kind() -> list[Effect]:
    return [
        SendBytes(1, b"one"),
        SendBytes(1, b"other"),
        SendBytes(2, b"one"),
        CloseConnection(1),
        CloseConnection(2),
        PauseReading(1),
        ResumeReading(1),
        SetTimer(1),
        SetTimer(2),
        Note("info", "queue.made", {"name": "q"}),
        Note("error", "queue.made", {"name": "q"}),
        Note("info", "queue.made", {"name": "r"}),
        Note("info", "queue.lost", {"name": "q"}),
        StopNode(),
    ]


def test_effects_with_equal_facts_are_equal() -> None:
    assert every_kind() == every_kind()
    assert [hash(effect) for effect in every_kind()] == [hash(effect) for effect in every_kind()]


def test_effects_that_differ_in_kind_or_in_any_fact_are_not_equal() -> None:
    assert [pair for pair in combinations(every_kind(), 2) if pair[0] == pair[1]] == []


def test_the_order_of_a_notes_fields_does_not_matter() -> None:
    assert Note("info", "n", {"a": 1, "b": 2}) == Note("info", "n", {"b": 2, "a": 1})


def test_an_effect_prints_its_kind_and_its_facts() -> None:
    assert repr(SendBytes(7, b"x")) == "SendBytes(7, b'x')"
