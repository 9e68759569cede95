"""A queue against a model that is nothing but a list of dictionaries sorted by position.

The model has the rules in their plainest form: the next message is the one with the highest priority and the lowest
position; deadlines count at the heads of priorities; limits count ready messages. It learns from the consumers which
messages they got, and asserts that they were the next ones. After every step the visible states of both are compared.
"""

from dataclasses import dataclass, field

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.unit.broker.queues.world import ScriptedConsumer, World, body_of
from warren.broker.model.message import Entry
from warren.broker.model.ports import REJECTED
from warren.broker.queues.settings import QueueSettings

BODY_BYTES = st.integers(0, 6)
TTL_MS = st.sampled_from([-1, -1, -1, 0, 5, 30])


@dataclass(eq=False)
class Item:
    """A message as the model sees it."""

    number: int
    body: str
    level: int
    dies_at_ms: int
    redelivered: bool = False
    returns: int = 0

    def sort_key(self) -> tuple[int, int]:
        return (-self.level, self.number)


@dataclass
class Model:
    """What a queue ought to hold."""

    settings: QueueSettings
    now_ms: int
    ready: list[Item] = field(default_factory=list)
    unacked: list[Item] = field(default_factory=list)
    dead: list[tuple[str, str]] = field(default_factory=list)

    def over(self, more: int = 0, more_bytes: int = 0) -> bool:
        count = len(self.ready) + more
        size = sum(len(item.body) for item in self.ready) + more_bytes
        return 0 <= self.settings.max_length < count or 0 <= self.settings.max_length_bytes < size

    def expire(self, until_ms: int, returned_only: bool = False) -> None:
        for level in sorted({item.level for item in self.ready}, reverse=True):
            for item in [item for item in self.ready if item.level == level]:
                if item.dies_at_ms < 0 or item.dies_at_ms > until_ms or (returned_only and not item.redelivered):
                    break
                self.ready.remove(item)
                self.dead.append((item.body, "expired"))

    def trim(self) -> None:
        while self.settings.overflow == "drop-head" and self.over():
            self.dead.append((self.ready.pop(0).body, "maxlen"))

    def sort(self) -> None:
        self.ready.sort(key=Item.sort_key)


class QueueAgainstList(RuleBasedStateMachine):
    """Publish, get, consume, ack, requeue, reject, purge, and time."""

    @initialize(
        message_ttl_ms=st.sampled_from([-1, -1, -1, 0, 10, 50]),
        max_length=st.sampled_from([-1, -1, -1, 0, 3, 8]),
        max_length_bytes=st.sampled_from([-1, -1, -1, 0, 12, 40]),
        overflow=st.sampled_from(["drop-head", "reject-publish", "reject-publish-dlx"]),
        max_priority=st.sampled_from([0, 0, 1, 4]),
        delivery_limit=st.sampled_from([-1, -1, 0, 2]),
        consumers=st.integers(0, 3),
        no_ack=st.booleans(),
    )
    def begin(
        self,
        message_ttl_ms: int,
        max_length: int,
        max_length_bytes: int,
        overflow: str,
        max_priority: int,
        delivery_limit: int,
        consumers: int,
        no_ack: bool,
    ) -> None:
        settings = QueueSettings(
            message_ttl_ms=message_ttl_ms,
            max_length=max_length,
            max_length_bytes=max_length_bytes,
            overflow=overflow,
            dead_letter_exchange="dlx",
            max_priority=max_priority,
            delivery_limit=delivery_limit,
        )
        self.world = World(settings=settings)
        self.queue = self.world.queue
        self.model = Model(settings, self.world.turn.now_ms)
        self.no_ack = no_ack
        self.consumers: list[ScriptedConsumer] = [
            self.world.consumer(str(number), credit=0, no_ack=no_ack) for number in range(consumers)
        ]
        self.published = 0
        self.held: dict[str, Entry] = {}

    # -- steps

    @rule(sizes=st.lists(BODY_BYTES, min_size=1, max_size=6), priority=st.integers(0, 6), expiration_ms=TTL_MS)
    def publish(self, sizes: list[int], priority: int, expiration_ms: int) -> None:
        for size in sizes:
            self.publish_one(size, priority, expiration_ms)

    def publish_one(self, size: int, priority: int, expiration_ms: int) -> None:
        self.published += 1
        body = f"{self.published:04}" + "." * size
        level = min(priority, self.model.settings.max_priority)
        (answer,) = self.world.publish(body, priority=priority, expiration_ms=expiration_ms)
        lives = [ttl for ttl in (expiration_ms, self.model.settings.message_ttl_ms) if ttl >= 0]
        dies_at_ms = self.model.now_ms + min(lives) if lives else -1
        if self.model.settings.overflow != "drop-head" and self.model.over(1, len(body)):
            self.model_deliver()
            if self.model.over(1, len(body)):
                if self.model.settings.overflow == "reject-publish-dlx":
                    self.model.dead.append((body, "maxlen"))
                assert answer == REJECTED
                return
        assert answer != REJECTED
        self.model.ready.append(Item(self.published, body, level, dies_at_ms))
        self.model.sort()
        if self.model.settings.overflow == "drop-head" and self.model.over():
            self.model_deliver()
            self.model.trim()

    @rule(count=st.integers(1, 6), no_ack=st.sampled_from([False, False, True]))
    def get(self, count: int, no_ack: bool) -> None:
        for _ in range(count):
            self.get_one(no_ack)

    def get_one(self, no_ack: bool) -> None:
        entry = self.queue.get(no_ack)
        self.model_deliver()
        if not self.model.ready:
            assert entry is None
            return
        assert entry is not None
        self.expect_taken(entry, no_ack)
        self.model.expire(self.model.now_ms)

    @rule(credits_given=st.lists(st.integers(0, 4), min_size=3, max_size=3))
    def end_turn(self, credits_given: list[int]) -> None:
        for consumer, credit in zip(self.consumers, credits_given, strict=False):
            consumer.credit = credit
        self.queue.wake()
        self.world.end_turn()
        self.model_deliver()
        assert not self.model.ready or not any(consumer.able() for consumer in self.consumers)

    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        item = self.pick_unacked(data)
        if item is not None:
            self.queue.ack(self.held.pop(item.body))

    @rule(data=st.data())
    def reject(self, data: st.DataObject) -> None:
        item = self.pick_unacked(data)
        if item is not None:
            self.queue.reject(self.held.pop(item.body))
            self.model.dead.append((item.body, "rejected"))

    @rule(data=st.data(), count=st.integers(1, 5))
    def requeue(self, data: st.DataObject, count: int) -> None:
        items = [item for _ in range(count) if (item := self.pick_unacked(data)) is not None]
        self.queue.requeue([self.held.pop(item.body) for item in items])
        for item in items:
            item.redelivered = True
            item.returns += 1
            if 0 <= self.model.settings.delivery_limit < item.returns:
                self.model.dead.append((item.body, "delivery_limit"))
            else:
                self.model.ready.append(item)
        self.model.sort()
        self.model.trim()
        self.model.expire(self.model.now_ms, returned_only=True)

    @rule(meant=st.sampled_from([False] * 7 + [True]))
    def purge(self, meant: bool) -> None:
        # rarely, for it would keep every backlog short
        if not meant:
            return
        purged = self.queue.purge()
        self.model_deliver()
        assert purged == len(self.model.ready)
        self.model.ready.clear()

    @rule(milliseconds=st.integers(1, 40))
    def pass_time(self, milliseconds: int) -> None:
        self.world.end_turn()
        self.model_deliver()
        self.world.pass_ms(milliseconds)
        until_ms = self.model.now_ms + milliseconds
        while self.model.now_ms < until_ms:
            self.model.now_ms += 1
            self.model.expire(self.model.now_ms)

    def model_deliver(self) -> None:
        """The model's side of a drain: overdue heads expire, consumers take messages, then due messages expire."""
        taken = sorted(
            (entry for consumer in self.consumers for entry in consumer.entries), key=lambda entry: self.rank(entry)
        )
        for consumer in self.consumers:
            consumer.entries.clear()
        self.model.expire(self.model.now_ms - 1)
        for entry in taken:
            self.expect_taken(entry, self.no_ack)
            # what stood behind it may have been overdue all the while
            self.model.expire(self.model.now_ms - 1)
        self.model.expire(self.model.now_ms)

    def rank(self, entry: Entry) -> tuple[int, int]:
        return (-min(entry.message.priority, self.model.settings.max_priority), int(body_of(entry)[:4]))

    def expect_taken(self, entry: Entry, no_ack: bool) -> None:
        item = self.model.ready.pop(0)
        assert (body_of(entry), entry.redelivered) == (item.body, item.redelivered)
        if not no_ack:
            self.model.unacked.append(item)
            self.held[item.body] = entry

    def pick_unacked(self, data: st.DataObject) -> Item | None:
        if not self.model.unacked:
            return None
        item = data.draw(st.sampled_from(self.model.unacked))
        self.model.unacked.remove(item)
        return item

    # -- what must hold after every step

    @invariant()
    def figures_agree(self) -> None:
        if not hasattr(self, "world"):
            return
        self.queue.check()
        assert self.queue.unacked_count() == len(self.model.unacked)
        assert self.queue.ready_count() == len(self.model.ready)
        assert self.queue.ready_bytes() == sum(len(item.body) for item in self.model.ready)
        assert self.queue.unacked_bytes() == sum(len(item.body) for item in self.model.unacked)
        everything = self.model.ready + self.model.unacked
        assert self.world.turn.held_bytes == sum(len(item.body) + 256 for item in everything)
        assert self.world.dead() == self.model.dead

    def teardown(self) -> None:
        if hasattr(self, "world"):
            for consumer in self.consumers:
                consumer.credit = 0
            self.queue.requeue(list(self.held.values()))
            self.world.take_all()
            assert self.world.turn.held_bytes == 0
            self.queue.check()


QueueAgainstList.TestCase.settings = hypothesis_settings(max_examples=80, stateful_step_count=40, deadline=None)
TestQueueAgainstList = QueueAgainstList.TestCase
