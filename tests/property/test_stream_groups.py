"""A group at one stream: members come, go, ack and publish in any order; its promises are checked after every step.

alone      no two members that are there hold anything at the same time
in order   a member is given nothing that comes before something it was given and still holds
nothing is passed over   each delivery follows the one before, or repeats one that was not acked
everything when faults have ended, every published message has been acked
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.unit.broker.streams.stage import PretendReader, Stage
from warren.broker.model.message import Entry

NAMES = st.sampled_from("abcdef")


class Member(PretendReader):
    """Takes two at once, and knows what it holds."""

    PREFETCH = 2

    def __init__(self, name: str) -> None:
        super().__init__(tag=name, x_stream_group="g", x_stream_member=name)
        self.held: dict[Entry, int] = {}

    def able(self) -> bool:
        return len(self.held) < self.PREFETCH

    def deliver(self, entry: Entry) -> None:
        offset: int = entry.message.headers()["x-stream-offset"]
        assert all(offset > other for other in self.held.values()), "it came after what is behind it"
        super().deliver(entry)
        self.held[entry] = offset


class Groups(RuleBasedStateMachine):
    """One stream, and the members of one group."""

    @initialize(first=st.sampled_from([None, "a", "d"]))
    def begin(self, first: str | None) -> None:
        self.stage = Stage()
        self.members: list[Member] = []
        self.published = 0
        self.acked: set[int] = set()
        if first is not None:
            self.join(first)

    @rule(name=NAMES)
    def join(self, name: str) -> None:
        member = Member(name)
        self.members.append(member)
        self.stage.stream.add_consumer(member)
        self.stage.settle()

    @rule(count=st.integers(1, 5))
    def publish(self, count: int) -> None:
        self.stage.publish(*[b"m"] * count)
        self.published += count
        self.stage.flush()

    @precondition(lambda self: any(member.held for member in self.members))
    @rule(pick=st.integers(0, 100))
    def ack(self, pick: int) -> None:
        held = [(member, entry) for member in self.members for entry in member.held]
        member, entry = held[pick % len(held)]
        self._ack(member, entry)

    def _ack(self, member: Member, entry: Entry) -> None:
        self.acked.add(member.held.pop(entry))
        self.stage.stream.ack(entry)
        self.stage.settle()

    @precondition(lambda self: self.members)
    @rule(pick=st.integers(0, 100))
    def leave(self, pick: int) -> None:
        """Its connection ends: what it holds comes back first."""
        member = self.members.pop(pick % len(self.members))
        self.stage.stream.requeue(list(member.held))
        self.stage.stream.remove_consumer(member)
        self.stage.settle()

    @precondition(lambda self: self.members)
    @rule()
    def a_second_passes(self) -> None:
        self.stage.turn.now_ms += 1_000
        self.stage.turn.fire_timers()
        self.stage.settle()

    @invariant()
    def one_holds_at_most(self) -> None:
        holders = [member.tag for member in getattr(self, "members", []) if member.held]
        assert len(holders) <= 1, holders

    @invariant()
    def nothing_is_passed_over(self) -> None:
        held = {offset for member in getattr(self, "members", []) for offset in member.held.values()}
        if held:
            assert set(range(min(held))) <= self.acked

    def teardown(self) -> None:
        if not getattr(self, "members", []):
            return
        for _ in range(10 * (self.published + 1)):
            held = [(member, entry) for member in self.members for entry in member.held]
            if not held:
                break
            self._ack(*held[0])
            self.one_holds_at_most()
        assert self.acked == set(range(self.published))


Groups.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestGroups = Groups.TestCase
