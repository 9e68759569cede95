"""The ledger of unacked deliveries against a model that is nothing but a dict by tag.

Bursts are long enough to make the ledger compact its list and set stragglers aside. Deliveries are taken by a consumer
of a deleted queue, which ignores requeued messages, so that the ledger alone is under test.
"""

from dataclasses import dataclass

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.support.core_driver import START_MS, Core
from tests.unit.broker.queues.world import message_of
from warren.broker.model.message import NEVER, Entry
from warren.broker.sessions.consumers import ChannelConsumer
from warren.broker.sessions.unacked import SPAN_MS, UnackedDeliveries, UnackedDelivery

MESSAGE = message_of("x")
BURST = st.sampled_from([1, 1, 1, 2, 3, 10, 1500, 6000])
PLACE = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1.0]))


@dataclass
class Outstanding:
    """A delivery as the model sees it."""

    entry: Entry
    at_ms: int
    # its age may be forgotten while it is out of the ledger
    came_back: bool = False


def consumer_of_a_deleted_queue() -> ChannelConsumer:
    core = Core()
    client = core.client()
    client.declare("gone")
    vhost = core.broker.vhosts["/"]
    queue = vhost.topology.queues["gone"]
    vhost.delete_queue(queue)
    channel = core.broker.connections[client.number].channels[1]
    return ChannelConsumer(channel, queue, "c", False, False, 0, 0, {})


class LedgerAgainstDict(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.unacked_deliveries = UnackedDeliveries()
        self.consumer = consumer_of_a_deleted_queue()
        self.now_ms = START_MS
        self.next_tag = 1
        self.model: dict[int, Outstanding] = {}
        self.taken_out: dict[int, UnackedDelivery] = {}
        self.kept: dict[int, Outstanding] = {}

    @rule(count=BURST, every_ms=st.sampled_from([0, 0, 1, 700, 5000]))
    def deliver(self, count: int, every_ms: int) -> None:
        for _ in range(count):
            self.now_ms += every_ms
            entry = Entry(MESSAGE, self.next_tag, NEVER)
            assert self.unacked_deliveries.record(entry, self.consumer, self.now_ms) == self.next_tag
            self.consumer.unacked += 1
            self.model[self.next_tag] = Outstanding(entry, self.now_ms)
            self.next_tag += 1

    @rule(count=BURST)
    def deliver_what_needs_no_ack(self, count: int) -> None:
        for _ in range(count):
            assert self.unacked_deliveries.skip() == self.next_tag
            self.next_tag += 1

    @rule(place=PLACE)
    def ack_any_tag_ever_given(self, place: float) -> None:
        tag = int(place * self.next_tag)
        known = self.model.pop(tag, None) is not None
        assert self.unacked_deliveries.has(tag) is known
        assert self.unacked_deliveries.ack(tag) is known

    @rule(place=PLACE)
    def ack_all_up_to(self, place: float) -> None:
        tag = int(place * self.next_tag)
        for settled in self.tags_to(tag):
            del self.model[settled]
        self.unacked_deliveries.ack_to(tag)

    @rule(keep_every=st.sampled_from([2, 100, 3000]))
    def ack_nearly_all_one_by_one(self, keep_every: int) -> None:
        for tag in list(self.model):
            if tag % keep_every:
                del self.model[tag]
                assert self.unacked_deliveries.ack(tag)

    @rule(place=PLACE)
    def lift_one(self, place: float) -> None:
        if self.model:
            tags = list(self.model)
            self.move_to_lifted([self.unacked_deliveries.take_out(tags[min(int(place * len(tags)), len(tags) - 1)])])

    @rule(place=PLACE)
    def lift_all_up_to(self, place: float) -> None:
        tag = int(place * self.next_tag)
        expected = self.tags_to(tag)
        taken_out = self.unacked_deliveries.take_out_to(tag)
        assert [delivery.tag for delivery in taken_out] == expected
        self.move_to_lifted(taken_out)

    @rule()
    def put_back_what_was_lifted(self) -> None:
        self.unacked_deliveries.put_back(list(self.taken_out.values()))
        for tag, delivery in self.kept.items():
            delivery.came_back = True
            self.model[tag] = delivery
        self.model = dict(sorted(self.model.items()))
        self.taken_out, self.kept = {}, {}

    @rule()
    def settle_what_was_lifted(self) -> None:
        self.consumer.unacked -= len(self.taken_out)
        self.taken_out, self.kept = {}, {}

    @rule(ago_ms=st.integers(0, 20_000))
    def look_for_overdue_ones(self, ago_ms: int) -> None:
        before_ms = self.now_ms - ago_ms
        tag = self.unacked_deliveries.overdue_tag(before_ms)
        assert all(one.at_ms <= before_ms for known, one in self.model.items() if known <= tag)
        long_before_ms = before_ms - int(SPAN_MS)
        surely = [tag for tag, one in self.model.items() if one.at_ms < long_before_ms and not one.came_back]
        assert tag >= max(surely, default=0)
        assert tag == 0 or next(iter(self.model)) <= tag

    @invariant()
    def the_two_agree(self) -> None:
        self.unacked_deliveries.check()
        assert self.unacked_deliveries.count == len(self.model)
        assert self.unacked_deliveries.next_tag == self.next_tag
        assert self.consumer.unacked == len(self.model) + len(self.taken_out)

    def teardown(self) -> None:
        assert [one.tag for one in self.unacked_deliveries.take_out_to(0)] == list(self.model)

    def tags_to(self, tag: int) -> list[int]:
        return [known for known in self.model if tag == 0 or known <= tag]

    def move_to_lifted(self, deliveries: list[UnackedDelivery]) -> None:
        for delivery in deliveries:
            known = self.model.pop(delivery.tag)
            assert delivery.entry is known.entry
            assert delivery.consumer is self.consumer
            self.taken_out[delivery.tag] = delivery
            self.kept[delivery.tag] = known


TestLedgerAgainstDict = LedgerAgainstDict.TestCase
TestLedgerAgainstDict.settings = hypothesis_settings(max_examples=60, stateful_step_count=30)
