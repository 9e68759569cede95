"""Confirms, however publishes and turns fall: each number gets one answer, its own, and in order."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from warren.session.confirms import Confirms
from warren.sim.method_stream import MethodStream
from warren.wire.methods import BasicAck, BasicNack

# one turn: whether each of its publishes was accepted
TURNS = st.lists(st.lists(st.booleans(), max_size=12), max_size=12)


@given(TURNS)
def test_every_publish_is_answered_once_in_the_turn_it_was_decided(turns: list[list[bool]]) -> None:
    confirms = Confirms()
    last_no = 0
    for turn in turns:
        for accepted in turn:
            confirms.settled() if accepted else confirms.rejected()
        answers = answers_of(confirms)
        expected = {last_no + place: accepted for place, accepted in enumerate(turn, 1)}
        assert unfolded(answers, last_no) == expected
        last_no += len(turn)
        assert confirms.last_no == last_no


@given(TURNS)
def test_no_answer_can_be_merged_with_the_one_before_it(turns: list[list[bool]]) -> None:
    confirms = Confirms()
    for turn in turns:
        for accepted in turn:
            confirms.settled() if accepted else confirms.rejected()
        answers = answers_of(confirms)
        kinds = [type(answer) for answer in answers]
        assert all(pair != (BasicAck, BasicAck) for pair in pairwise(kinds))


@given(st.integers(1, 2**63 - 2), st.integers(1, 65535))
def test_numbers_and_channels_of_any_size_are_told(number: int, channel: int) -> None:
    confirms = Confirms()
    confirms.last_no = number
    out = BytesWriter()
    confirms.flush(out, channel)
    (heard,) = MethodStream().feed(out.getvalue())
    assert (heard.channel, heard.method) == (channel, BasicAck(number, number > 1))


def answers_of(confirms: Confirms) -> list[BasicAck | BasicNack]:
    out = BytesWriter()
    confirms.flush(out, 1)
    answers: list[BasicAck | BasicNack] = []
    for heard in MethodStream().feed(out.getvalue()):
        assert isinstance(heard.method, BasicAck | BasicNack)
        answers.append(heard.method)
    return answers


def unfolded(answers: list[BasicAck | BasicNack], last_no: int) -> dict[int, bool]:
    """What a client makes of them; a number that is answered twice, or out of order, is an error."""
    fates: dict[int, bool] = {}
    for answer in answers:
        first = last_no + 1 if answer.multiple else answer.delivery_tag
        assert first == last_no + 1 <= answer.delivery_tag
        for number in range(first, answer.delivery_tag + 1):
            fates[number] = isinstance(answer, BasicAck)
        last_no = answer.delivery_tag
    return fates
