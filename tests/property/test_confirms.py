"""Confirms in any order of publishes, turns and flushes: each number gets one answer, its own, and none too early."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from librt.strings import BytesWriter

from warren.broker.sessions.confirms import Confirms
from warren.wire.method_stream import MethodStream
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


@given(st.lists(st.integers(1, 20), min_size=1, max_size=12), st.integers(1, 5))
def test_publishes_that_are_all_pending_get_one_answer_a_batch(sizes: list[int], in_flight: int) -> None:
    confirms = Confirms()
    answers: list[BasicAck | BasicNack] = []
    for turn in range(len(sizes) + in_flight):
        if in_flight <= turn:
            confirms.flushed()
        if turn < len(sizes):
            confirms.begin_batch()
            for _ in range(sizes[turn]):
                confirms.pending()
        answers += answers_of(confirms)
    ends = [sum(sizes[: turn + 1]) for turn in range(len(sizes))]
    assert answers == [BasicAck(end, size > 1) for end, size in zip(ends, sizes, strict=True)]


@given(st.integers(1, 2**63 - 2), st.integers(1, 65535))
def test_confirms_encode_numbers_and_channels_of_any_size(number: int, channel: int) -> None:
    confirms = Confirms()
    confirms.last_no = number
    out = BytesWriter()
    confirms.send(out, channel)
    (heard,) = MethodStream().feed(out.getvalue())
    assert (heard.channel, heard.method) == (channel, BasicAck(number, number > 1))


class MixedTraffic(RuleBasedStateMachine):
    """Publishes with every outcome, batches in flight, and a client that records its confirms."""

    def __init__(self) -> None:
        super().__init__()
        self.confirms = Confirms()
        # how each publish ends, once that is known
        self.fates: dict[int, type[BasicAck | BasicNack]] = {}
        self.untold: set[int] = set()
        # the pending ones of each batch that is not flushed
        self.batches: list[list[int]] = []
        self.batch_open = False
        self.last_no = 0

    def next_no(self) -> int:
        self.last_no += 1
        self.untold.add(self.last_no)
        return self.last_no

    @rule(count=st.integers(1, 4))
    def settle(self, count: int) -> None:
        for _ in range(count):
            self.confirms.settled()
            self.fates[self.next_no()] = BasicAck

    @rule()
    def reject(self) -> None:
        self.confirms.rejected()
        self.fates[self.next_no()] = BasicNack

    @rule(count=st.integers(1, 4))
    def leave_pending(self, count: int) -> None:
        if not self.batch_open:
            self.batch_open = True
            self.batches.append([])
            self.confirms.begin_batch()
        for _ in range(count):
            self.confirms.pending()
            self.batches[-1].append(self.next_no())

    @precondition(lambda self: len(self.batches) > self.batch_open)
    @rule()
    def flush_oldest(self) -> None:
        self.confirms.flushed()
        for number in self.batches.pop(0):
            self.fates[number] = BasicAck

    @rule()
    def tell(self) -> None:
        """Also in the middle of a turn."""
        for answer in answers_of(self.confirms):
            self.hear(answer)
        assert self.untold.isdisjoint(self.fates), "something that is decided was not told"
        assert self.confirms.undecided() == bool(self.untold)

    @rule()
    def end_turn(self) -> None:
        self.tell()
        self.batch_open = False

    def hear(self, answer: BasicAck | BasicNack) -> None:
        last = answer.delivery_tag
        assert last in self.untold, "told twice"
        meant = {number for number in self.untold if number <= last} if answer.multiple else {last}
        assert len(meant) > 1 or not answer.multiple
        for number in meant:
            assert self.fates.get(number) is type(answer), "the wrong answer, or one too early"
        self.untold -= meant


TestMixedTraffic = MixedTraffic.TestCase


def answers_of(confirms: Confirms) -> list[BasicAck | BasicNack]:
    out = BytesWriter()
    confirms.send(out, 1)
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
