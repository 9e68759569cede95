"""Order by key, against a model that knows which messages may be handled."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from warren.client.listening.dispatch import Dispatch, DispatchEntry

SOURCES = {"fast": 3, "slow": 1}


def taken(dispatch: Dispatch[str]) -> list[str]:
    return [ticket.item for ticket in iter(dispatch.take, None)]


def test_of_one_key_only_the_first_may_be_handled_and_others_beside_it() -> None:
    dispatch: Dispatch[str] = Dispatch({"q": 1})
    for item in ("a1", "a2", "b1", "c", "b2"):
        dispatch.add("q", None if item == "c" else item[0], item)
    assert taken(dispatch) == ["a1", "b1", "c"]


def test_a_single_worker_keeps_the_order_of_the_queue() -> None:
    dispatch: Dispatch[str] = Dispatch({"q": 1})
    items = ["a1", "a2", "b1", "a3", "c1", "b2"]
    for item in items:
        dispatch.add("q", item[0], item)
    handled = []
    while (ticket := dispatch.take()) is not None:
        handled.append(ticket.item)
        dispatch.finish(ticket)
    assert handled == items


def test_one_that_is_paused_keeps_its_key_and_its_place() -> None:
    dispatch: Dispatch[str] = Dispatch({"q": 1})
    for item in ("a1", "a2", "b1"):
        dispatch.add("q", item[0], item)
    paused = dispatch.take()
    assert paused is not None
    assert taken(dispatch) == ["b1"]
    dispatch.resume(paused)
    assert taken(dispatch) == ["a1"]
    dispatch.finish(paused)
    assert taken(dispatch) == ["a2"]


def test_cleared_messages_come_in_order_and_busy_keys_stay_busy() -> None:
    dispatch: Dispatch[str] = Dispatch({"q": 1, "r": 1})
    for source, item in (("q", "a1"), ("r", "b1"), ("q", "a2"), ("r", "c1")):
        dispatch.add(source, item[0], item)
    at_work = dispatch.take()
    assert at_work is not None
    assert at_work.item == "a1"
    assert [ticket.item for ticket in dispatch.clear()] == ["b1", "a2", "c1"]
    assert dispatch.waiting == 0
    dispatch.add("q", "a", "a3")
    dispatch.add("q", "b", "b2")
    assert taken(dispatch) == ["b2"]
    dispatch.finish(at_work)
    assert taken(dispatch) == ["a3"]


class AnyOrderOfEvents(RuleBasedStateMachine):
    """Messages come, are taken, paused, resumed, finished and lost in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.dispatch: Dispatch[int] = Dispatch(SOURCES)
        self.count = 0
        self.open: dict[str | None, list[int]] = {}
        self.at_work: list[DispatchEntry[int]] = []
        self.paused: list[DispatchEntry[int]] = []

    @rule(source=st.sampled_from(sorted(SOURCES)), key=st.sampled_from([None, "a", "b", "c"]))
    def comes(self, source: str, key: str | None) -> None:
        self.count += 1
        self.dispatch.add(source, key, self.count)
        self.open.setdefault(key, []).append(self.count)

    @rule()
    def is_taken(self) -> None:
        ticket = self.dispatch.take()
        if ticket is None:
            assert self.allowed() == set()
        else:
            assert ticket.item in self.allowed()
            self.at_work.append(ticket)

    @precondition(lambda self: self.at_work)
    @rule(data=st.data())
    def is_finished(self, data: st.DataObject) -> None:
        ticket = self.at_work.pop(data.draw(st.integers(0, len(self.at_work) - 1)))
        self.dispatch.finish(ticket)
        self.open[ticket.key].remove(ticket.item)

    @precondition(lambda self: self.at_work)
    @rule(data=st.data())
    def is_paused(self, data: st.DataObject) -> None:
        self.paused.append(self.at_work.pop(data.draw(st.integers(0, len(self.at_work) - 1))))

    @precondition(lambda self: self.paused)
    @rule()
    def is_resumed(self) -> None:
        self.dispatch.resume(self.paused.pop())

    @rule(kept=st.integers(1, 4))
    def some_are_lost(self, kept: int) -> None:
        in_hand = {ticket.item for ticket in (*self.at_work, *self.paused)}
        self.dispatch.drop(lambda item: item % kept != 0)
        for items in self.open.values():
            items[:] = [item for item in items if item in in_hand or item % kept == 0]

    @invariant()
    def no_message_is_forgotten(self) -> None:
        open_count = sum(map(len, self.open.values()))
        assert self.dispatch.waiting == open_count - len(self.at_work) - len(self.paused)

    def allowed(self) -> set[int]:
        """The first of each key, and all without one, if none of them is in hand."""
        in_hand = {ticket.item for ticket in (*self.at_work, *self.paused)}
        first = {items[0] for key, items in self.open.items() if key is not None and items}
        return (first | set(self.open.get(None, []))) - in_hand


AnyOrderOfEvents.TestCase.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
TestAnyOrderOfEvents = AnyOrderOfEvents.TestCase
