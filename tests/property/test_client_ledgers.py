"""Confirms and acks of a client against models that remember every number by itself."""

from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from warren.client.machine.deliveries import AckLedger
from warren.client.machine.publishes import ConfirmLedger
from warren.wire.method_stream import MethodStream
from warren.wire.methods import BasicAck, BasicNack

# publish so many; or the broker decides one of the undecided (by its place among them), alone or with all before it
CONFIRM_STEPS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 50), st.booleans(), st.booleans()), max_size=40)


@given(CONFIRM_STEPS)
def test_every_publish_is_in_exactly_one_range_and_that_says_its_fate(
    steps: list[tuple[int, int, bool, bool]],
) -> None:
    ledger = ConfirmLedger()
    undecided: list[int] = []
    last_no = 0
    for count, place, multiple, acked in steps:
        ledger.last_no += count
        undecided += range(last_no + 1, last_no + count + 1)
        last_no += count
        expected: dict[int, bool] = {}
        if undecided:
            number = undecided[place % len(undecided)]
            decided = [each for each in undecided if each <= number] if multiple else [number]
            expected = dict.fromkeys(decided, acked)
            undecided = [each for each in undecided if each not in expected]
            ledger.decide(number, multiple, acked)
        ledger.check()
        ranges = ledger.take()
        told = [number for each in ranges for number in range(each.first, each.last + 1)]
        assert len(told) == len(set(told))
        assert {number: each.acked for each in ranges for number in range(each.first, each.last + 1)} == expected
        assert ledger.unconfirmed() == len(undecided)


@given(st.lists(st.integers(1, 30), max_size=60), st.booleans())
def test_a_repeated_decision_is_not_reported_again(numbers: list[int], multiple: bool) -> None:
    ledger = ConfirmLedger()
    ledger.last_no = 30
    for number in numbers:
        ledger.decide(number, multiple, True)
        ledger.check()
    told = [number for each in ledger.take() for number in range(each.first, each.last + 1)]
    assert sorted(told) == sorted(set(range(1, max(numbers, default=0) + 1) if multiple else numbers))


@st.composite
def ack_steps(draw: st.DrawFn) -> list[tuple[str, int, bool]]:
    kinds = st.sampled_from(["came", "came", "came", "came without", "ack", "ack", "ack", "nack", "nack", "write"])
    step = st.tuples(kinds, st.integers(0, 50), st.sampled_from([False, False, True]))
    # long enough for acks to pile up behind gaps
    return draw(st.lists(step, min_size=20, max_size=80))


class BrokersView:
    """A broker's view of acks: it knows the unacked tags, and refuses all others."""

    def __init__(self) -> None:
        self.unacked: list[int] = []
        self.acked: list[int] = []
        self.refused: list[int] = []
        self._stream = MethodStream()

    def read(self, data: bytes) -> int:
        heard = self._stream.feed(data)
        for one in heard:
            method = one.method
            assert isinstance(method, BasicAck | BasicNack)
            assert method.delivery_tag in self.unacked, "unknown delivery tag"
            upto = [tag for tag in self.unacked if tag <= method.delivery_tag]
            settled = upto if method.multiple else [method.delivery_tag]
            self.unacked = [tag for tag in self.unacked if tag not in settled]
            (self.acked if isinstance(method, BasicAck) else self.refused).extend(int(tag) for tag in settled)
        return len(heard)


@given(ack_steps())
def test_a_broker_learns_of_every_ack_and_of_nothing_else(steps: list[tuple[str, int, bool]]) -> None:
    ledger, broker = AckLedger(), BrokersView()
    last_tag = 0
    unsettled: list[int] = []
    acked: list[int] = []
    refused: list[int] = []
    for kind, place, multiple in [*steps, ("write", 0, False)]:
        out = BytesWriter()
        if kind.startswith("came"):
            last_tag += 1
            ledger.record_delivery(last_tag, kind == "came")
            if kind == "came":
                broker.unacked.append(last_tag)
                unsettled.append(last_tag)
        elif kind == "write":
            ledger.write(out, 1)
            assert not ledger.waits()
        elif unsettled:
            tag = unsettled[place % len(unsettled)]
            settled = [each for each in unsettled if each <= tag] if multiple else [tag]
            unsettled = [each for each in unsettled if each not in settled]
            if kind == "ack":
                ledger.ack(tag, multiple)
                acked += settled
            else:
                ledger.refuse(out, 1, tag, multiple, False)
                refused += settled
        broker.read(out.getvalue())
        ledger.check()
        assert ledger.unsettled() == len(unsettled)
    assert sorted(broker.acked) == sorted(acked)
    assert sorted(broker.refused) == sorted(refused)
    assert broker.unacked == unsettled


@given(st.permutations(range(1, 30)))
def test_acks_of_all_deliveries_in_any_order_are_one_method(order: list[int]) -> None:
    ledger, broker = AckLedger(), BrokersView()
    for tag in range(1, 30):
        ledger.record_delivery(tag, True)
        broker.unacked.append(tag)
    for tag in order:
        ledger.ack(tag, False)
    out = BytesWriter()
    ledger.write(out, 1)
    assert broker.read(out.getvalue()) == 1
    assert broker.unacked == []
