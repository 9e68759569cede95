"""A queue with a log against a list: messages in memory, on disk or being read differ only in time.

The state machine decides when the disk answers and allows deliveries. The model is a sorted list that follows the
queue, event by event, and asserts that each event is allowed: a delivered message is the next one, an expired message
is due and at the head of its priority, a message dropped by a limit is the next one of a queue that is too long. When
the disk has answered everything, the model asserts what must have happened. A restart at the end finds all messages
that must survive it.
"""

from dataclasses import dataclass

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.unit.broker.queues.scripted_log import ScriptedLog
from tests.unit.broker.queues.world import ScriptedConsumer, World, body_of
from warren.broker.model.message import Entry
from warren.broker.model.ports import PENDING, REJECTED, SETTLED
from warren.broker.queues.contents import ENTRY_BYTES
from warren.broker.queues.settings import QueueSettings

ROUNDS_MAX = 10_000


@dataclass(eq=False)
class Item:
    """A message as the model sees it."""

    position: int
    body: str
    level: int
    dies_at_ms: int
    persistent: bool
    redelivered: bool = False
    returns: int = 0

    def rank(self) -> tuple[int, int]:
        return (-self.level, self.position)

    def held_bytes(self) -> int:
        return len(self.body) + int(ENTRY_BYTES)


class WatchedConsumer(ScriptedConsumer):
    """Tells the machine of each delivery as it happens."""

    def __init__(self, machine: "PagedQueueAgainstList", tag: str, no_ack: bool) -> None:
        super().__init__(tag, 0, no_ack)
        self.machine = machine

    def deliver(self, entry: Entry) -> None:
        self.credit -= 1
        self.machine.follow_deaths()
        self.machine.follow_taken(entry, self.no_ack)


class PagedQueueAgainstList(RuleBasedStateMachine):
    """Publishes, deliveries, acks, returns, purges, changes of policy, time, and a disk that takes its own."""

    @initialize(
        durable=st.sampled_from([True, True, False]),
        lazy=st.booleans(),
        message_ttl_ms=st.sampled_from([-1, -1, -1, 20]),
        max_length=st.sampled_from([-1, -1, -1, -1, 0, 4]),
        overflow=st.sampled_from(["drop-head", "drop-head", "reject-publish"]),
        max_priority=st.sampled_from([0, 0, 2]),
        delivery_limit=st.sampled_from([-1, -1, 1]),
        consumers=st.integers(0, 2),
        no_ack=st.booleans(),
        batch_entries=st.integers(1, 5),
    )
    def begin(
        self,
        durable: bool,
        lazy: bool,
        message_ttl_ms: int,
        max_length: int,
        overflow: str,
        max_priority: int,
        delivery_limit: int,
        consumers: int,
        no_ack: bool,
        batch_entries: int,
    ) -> None:
        self.settings = QueueSettings(
            message_ttl_ms=message_ttl_ms,
            max_length=max_length,
            overflow=overflow,
            dead_letter_exchange="dlx",
            max_priority=max_priority,
            delivery_limit=delivery_limit,
            lazy=lazy,
        )
        self.log = ScriptedLog(durable)
        self.log.batch_entries = batch_entries
        self.world = World(settings=self.settings, log=self.log)
        self.queue = self.world.queue
        self.ready: list[Item] = []
        self.arriving: Item | None = None
        self.unacked: dict[int, tuple[Item, Entry]] = {}
        # dead and not yet dead-lettered
        self.dead: list[Item] = []
        self.deaths_seen = 0
        self.position = 0
        self.published = 0
        self.consumers = [WatchedConsumer(self, tag, no_ack) for tag in "ab"[:consumers]]
        for consumer in self.consumers:
            self.queue.add_consumer(consumer)

    # -- steps

    @rule(
        count=st.integers(1, 8),
        size=st.integers(0, 6),
        priority=st.integers(0, 3),
        expiration_ms=st.sampled_from([-1, -1, -1, -1, -1, 0, 8]),
        persistent=st.booleans(),
        memory_low=st.booleans(),
    )
    def publish(
        self, count: int, size: int, priority: int, expiration_ms: int, persistent: bool, memory_low: bool
    ) -> None:
        self.world.turn.memory_low = memory_low
        for _ in range(count):
            self.publish_one(size, priority, expiration_ms, persistent)

    def publish_one(self, size: int, priority: int, expiration_ms: int, persistent: bool) -> None:
        self.published += 1
        body = f"{self.published:04}" + "." * size
        lives = [ttl for ttl in (expiration_ms, int(self.settings.message_ttl_ms)) if ttl >= 0]
        dies_at_ms = int(self.world.turn.now_ms) + min(lives) if lives else -1
        item = Item(self.position + 1, body, min(priority, int(self.settings.max_priority)), dies_at_ms, persistent)
        # the queue may hand it out or drop it before it answers
        self.ready.append(item)
        self.ready.sort(key=Item.rank)
        self.arriving = item
        (answer,) = self.world.publish(body, priority=priority, expiration_ms=expiration_ms, persistent=persistent)
        self.arriving = None
        self.follow_deaths()
        if answer == REJECTED:
            self.ready.remove(item)
            assert self.settings.rejects
            assert len(self.ready) + 1 > self.settings.max_length >= 0
        else:
            self.position += 1
            assert answer == (PENDING if self.log.durable and persistent else SETTLED)

    @rule(credits_given=st.lists(st.integers(0, 8), min_size=2, max_size=2))
    def end_turn(self, credits_given: list[int]) -> None:
        for consumer, credit in zip(self.consumers, credits_given, strict=False):
            consumer.credit = credit
        self.queue.wake()
        self.drain()

    @rule(what=st.sampled_from(["answer", "answer", "prompt", "late", "allow", "refuse"]))
    def disk(self, what: str) -> None:
        if what == "answer" and self.log.fetching is not None:
            self.log.answer()
        elif what == "prompt":
            self.log.prompt = self.log.fetching is None
        elif what == "late":
            self.log.prompt = False
        elif what in ("allow", "refuse"):
            self.log.allow_delivery(None if what == "allow" else self.position // 2)
        self.drain()

    @rule(count=st.integers(1, 8), no_ack=st.sampled_from([False, False, True]))
    def get(self, count: int, no_ack: bool) -> None:
        for _ in range(count):
            if not self.queue.can_get():
                self.follow_deaths()
                return
            self.follow_deaths()
            entry = self.queue.get(no_ack)
            if entry is None:
                assert not self.ready
            else:
                self.follow_taken(entry, no_ack)
                self.follow_deaths()

    @rule(data=st.data(), what=st.sampled_from(["ack", "reject", "requeue"]), count=st.integers(1, 5))
    def return_some(self, data: st.DataObject, what: str, count: int) -> None:
        picked = [self.pick(data) for _ in range(min(count, len(self.unacked)))]
        if what == "requeue":
            self.requeue(picked)
            return
        for item, entry in picked:
            if what == "ack":
                self.queue.ack(entry)
            else:
                self.queue.reject(entry)
                self.dead.append(item)
                self.deaths_seen += 1

    def requeue(self, picked: list[tuple[Item, Entry]]) -> None:
        for item, _ in picked:
            item.redelivered = True
            item.returns += 1
            self.ready.append(item)
        self.ready.sort(key=Item.rank)
        self.queue.requeue([entry for _, entry in picked])
        self.follow_deaths()

    @rule(what=st.sampled_from(["bury", "bury", "bury", "purge"]))
    def clear(self, what: str) -> None:
        if what == "bury":
            self.bury()
            return
        purged = self.queue.purge()
        self.follow_deaths()
        assert purged == len(self.ready)
        self.ready.clear()

    @rule(milliseconds=st.integers(1, 15))
    def pass_time(self, milliseconds: int) -> None:
        self.drain()
        self.world.pass_ms(milliseconds)
        self.follow_deaths()

    @rule(
        lazy=st.booleans(),
        message_ttl_ms=st.sampled_from([-1, 20]),
        max_length=st.sampled_from([-1, 0, 2, 6]),
        overflow=st.sampled_from(["drop-head", "drop-head", "reject-publish"]),
        delivery_limit=st.sampled_from([-1, 1]),
    )
    def change_policy(
        self, lazy: bool, message_ttl_ms: int, max_length: int, overflow: str, delivery_limit: int
    ) -> None:
        self.settings = QueueSettings(
            message_ttl_ms=message_ttl_ms,
            max_length=max_length,
            overflow=overflow,
            dead_letter_exchange="dlx",
            max_priority=self.settings.max_priority,
            delivery_limit=delivery_limit,
            lazy=lazy,
        )
        self.queue.apply(self.settings)
        self.follow_deaths()

    def bury(self) -> None:
        for letter in self.world.turn.dead_letters:
            self.queue.dead_letter_published(letter.entry)
        self.world.turn.dead_letters.clear()
        self.dead.clear()
        self.deaths_seen = 0

    @rule()
    def settle(self) -> None:
        """The disk answers everything: what had to wait for it has happened."""
        self.log.allow_delivery(None)
        self.queue.wake()
        self.drain()
        for _ in range(ROUNDS_MAX):
            if self.log.fetching is None:
                break
            self.log.answer()
            self.drain()
        assert not self.ready or not any(consumer.able() for consumer in self.consumers)
        if not self.settings.rejects:
            assert self.settings.max_length < 0 or len(self.ready) <= self.settings.max_length
        heads: dict[int, Item] = {}
        for item in self.ready:
            heads.setdefault(item.level, item)
        assert not any(0 <= head.dies_at_ms <= self.world.turn.now_ms for head in heads.values())

    # -- the model follows

    def drain(self) -> None:
        self.world.end_turn()
        self.follow_deaths()

    def follow_taken(self, entry: Entry, no_ack: bool) -> None:
        item = self.ready[0]
        if item is self.arriving and body_of(entry) != item.body:
            # earlier messages may be dropped before it is accepted, at any priority
            item = self.ready[1]
        self.ready.remove(item)
        assert (body_of(entry), entry.position) == (item.body, item.position)
        assert (entry.redelivered, entry.delivery_count) == (item.redelivered, item.returns)
        assert item.dies_at_ms < 0 or item.dies_at_ms >= self.world.turn.now_ms
        if not no_ack:
            self.unacked[item.position] = (item, entry)

    def follow_deaths(self) -> None:
        """Each dead letter in its order."""
        letters = self.world.turn.dead_letters[self.deaths_seen :]
        self.deaths_seen += len(letters)
        for letter in letters:
            (item,) = [item for item in self.ready if item.body == body_of(letter.entry)]
            self.insist_on_death(item, letter.reason)
            self.ready.remove(item)
            self.dead.append(item)

    def insist_on_death(self, item: Item, reason: str) -> None:
        if reason == "expired":
            assert 0 <= item.dies_at_ms <= self.world.turn.now_ms
            assert item is next(other for other in self.ready if other.level == item.level)
        elif reason == "maxlen":
            assert item is self.ready[0]
            assert len(self.ready) > self.settings.max_length >= 0
        else:
            assert reason == "delivery_limit"
            assert item.returns > self.settings.delivery_limit >= 0

    def pick(self, data: st.DataObject) -> tuple[Item, Entry]:
        return self.unacked.pop(data.draw(st.sampled_from(sorted(self.unacked))))

    # -- what must hold after every step

    @invariant()
    def figures_agree(self) -> None:
        if not hasattr(self, "world"):
            return
        self.queue.check()
        unacked = [item for item, _ in self.unacked.values()]
        assert self.queue.ready_count() == len(self.ready)
        assert self.queue.unacked_count() == len(unacked)
        assert self.queue.ready_bytes() == sum(len(item.body) for item in self.ready)
        assert self.queue.unacked_bytes() == sum(len(item.body) for item in unacked)
        least = sum(item.held_bytes() for item in unacked)
        most = least + sum(item.held_bytes() for item in self.ready)
        assert least <= self.world.turn.held_bytes <= most

    @invariant()
    def the_disk_has_what_it_should(self) -> None:
        if not hasattr(self, "world"):
            return
        alive = {item.position: item for item in [*self.ready, *self.dead]}
        alive |= {position: item for position, (item, _) in self.unacked.items()}
        assert set(self.log.stored) <= set(alive)
        kept = {position for position, item in alive.items() if item.persistent and self.log.durable}
        assert kept <= set(self.log.stored)
        assert self.log.live_count() == len(self.log.stored)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        for consumer in self.consumers:
            consumer.credit = 0
        self.restart()
        for item, entry in self.unacked.values():
            self.queue.ack(entry)
            assert item not in self.ready
        self.unacked.clear()
        self.bury()
        self.queue.purge()
        self.follow_deaths()
        self.bury()
        assert (self.world.turn.held_bytes, self.log.positions(), self.log.live_count()) == (0, [], 0)

    def restart(self) -> None:
        """The messages that survive the node are in a recovered queue, in order, and can be consumed."""
        found = self.log.restart()
        plain = QueueSettings(max_priority=self.settings.max_priority)
        after = World(settings=plain, log=found)
        after.queue.recover(found.position_ranges(), self.position + 1)
        after.queue.check()
        alive = [*self.ready, *self.dead, *(item for item, _ in self.unacked.values())]
        kept = sorted((item for item in alive if item.persistent and self.log.durable), key=Item.rank)
        assert after.queue.ready_count() == len(kept)
        after.turn.now_ms = 0
        found.prompt = True
        assert after.take_all() == [item.body for item in kept]
        assert (after.turn.held_bytes, found.positions()) == (0, [])


PagedQueueAgainstList.TestCase.settings = hypothesis_settings(max_examples=250, stateful_step_count=40, deadline=None)
TestPagedQueueAgainstList = PagedQueueAgainstList.TestCase
