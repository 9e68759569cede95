"""Messages of a mirrored queue arrive in two steps: reserved, then arrived. A mirrored log sees every operation."""

from tests.unit.broker.queues.scripted_log import ScriptedLog
from tests.unit.broker.queues.world import World, body_of, message_of
from warren.broker.model.message import NO_EXPIRATION, Entry
from warren.broker.model.replica_set import POSITION_BITS
from warren.wire.field_tables import Table


def reserve(world: World, *bodies: str, priority: int = 0, expiration_ms: int = NO_EXPIRATION) -> list[Entry]:
    entries = []
    for body in bodies:
        entry = world.queue.reserve(message_of(body, priority, expiration_ms))
        assert entry is not None
        entries.append(entry)
    return entries


def test_a_reserved_message_is_not_ready_until_it_arrives() -> None:
    world = World()
    consumer = world.consumer()
    entries = reserve(world, "a", "b")
    world.end_turn()
    assert (consumer.bodies(), world.queue.ready_count()) == ([], 0)
    world.queue.arrive(entries[:1])
    world.end_turn()
    assert consumer.bodies() == ["a"]
    world.queue.arrive(entries[1:])
    world.end_turn()
    assert consumer.bodies() == ["a", "b"]
    assert [int(entry.position) for entry in entries] == [1, 2]


def test_reserved_messages_count_as_memory() -> None:
    world = World()
    (entry,) = reserve(world, "abc")
    held = world.turn.held_bytes
    assert held > 0
    world.queue.arrive([entry])
    world.queue.check()
    assert world.turn.held_bytes == held
    reserve(world, "d")
    world.queue.close()
    assert world.turn.held_bytes == 0


def test_a_message_that_arrives_after_the_deletion_is_dropped() -> None:
    world = World()
    entries = reserve(world, "a")
    world.queue.close()
    world.queue.arrive(entries)
    assert (world.queue.ready_count(), world.turn.held_bytes) == (0, 0)
    assert world.queue.reserve(message_of("b")) is None


def test_a_limit_that_refuses_counts_reserved_messages() -> None:
    world = World({"x-max-length": 2, "x-overflow": "reject-publish"})
    entries = reserve(world, "a", "b")
    assert world.queue.reserve(message_of("c")) is None
    world.queue.arrive(entries)
    assert world.queue.reserve(message_of("c")) is None
    assert world.take_all() == ["a", "b"]
    reserve(world, "c")


def test_a_limit_that_drops_heads_applies_on_arrival() -> None:
    world = World({"x-max-length": 2, "x-dead-letter-exchange": "dlx"})
    entries = reserve(world, "a", "b", "c")
    assert world.dead() == []
    world.queue.arrive(entries)
    assert world.dead() == [("a", "maxlen")]
    assert world.take_all() == ["b", "c"]


def test_a_deadline_counts_from_the_reservation() -> None:
    world = World({"x-dead-letter-exchange": "dlx"})
    entries = reserve(world, "a", expiration_ms=10)
    world.pass_ms(6)
    world.queue.arrive(entries)
    world.end_turn()
    world.pass_ms(3)
    assert world.dead() == []
    world.pass_ms(1)
    assert world.dead() == [("a", "expired")]


def test_priorities_go_first() -> None:
    world = World({"x-max-priority": 2})
    entries = reserve(world, "low") + reserve(world, "high", priority=2) + reserve(world, "higher", priority=9)
    world.queue.arrive(entries)
    assert world.take_all() == ["high", "higher", "low"]


def test_a_new_epoch_starts_new_positions_which_do_not_count_as_arrivals() -> None:
    world = World()
    world.publish("a")
    world.queue.begin_epoch(3 << POSITION_BITS)
    (entry,) = reserve(world, "b")
    assert entry.position == 3 << POSITION_BITS
    assert world.queue.stats.published == 2
    # one that is over changes nothing
    world.queue.begin_epoch(1 << POSITION_BITS)
    (entry,) = reserve(world, "c")
    assert entry.position == (3 << POSITION_BITS) + 1


def hold(log: ScriptedLog, entries: list[Entry]) -> list[Entry]:
    for entry in entries:
        entry.extent = log.store(entry.message, entry.position, entry.expires_at_ms, 0)
    return entries


def test_messages_that_arrive_in_a_lazy_queue_stay_on_disk_only() -> None:
    log = ScriptedLog()
    world = World({"x-queue-mode": "lazy"}, log=log)
    world.queue.arrive(hold(log, reserve(world, "a", "b")))
    world.queue.check()
    assert (world.queue.ready_count(), world.turn.held_bytes, log.positions()) == (2, 0, [1, 2])
    log.prompt = True
    assert world.take_all() == ["a", "b"]


def test_messages_that_are_not_on_disk_stay_in_memory() -> None:
    world = World({"x-queue-mode": "lazy"}, log=ScriptedLog(durable=False))
    world.turn.memory_low = True
    world.queue.arrive(reserve(world, "a", "b"))
    assert world.turn.held_bytes > 0
    assert world.take_all() == ["a", "b"]


def test_no_range_spans_two_epochs() -> None:
    log = ScriptedLog()
    world = World({"x-queue-mode": "lazy"}, log=log)
    world.publish("a")
    world.queue.begin_epoch(1 << POSITION_BITS)
    world.queue.arrive(hold(log, reserve(world, "b", "c")))
    world.queue.check()
    runs = world.queue._contents.ranges()
    assert [(int(run.first) >> POSITION_BITS, int(run.count)) for run in runs] == [(0, 1), (1, 2)]
    assert world.queue.purge() == 3
    assert log.positions() == []


def test_take_over_keeps_the_order_of_entries() -> None:
    world = World({"x-max-priority": 1, "x-dead-letter-exchange": "dlx"})
    entries = [Entry(message_of(f"{number}", number % 2), number * 10, 0) for number in range(1, 5)]
    entries[3].expires_at_ms = world.turn.now_ms + 5
    world.queue.take_over(entries, 77)
    world.queue.check()
    world.end_turn()
    assert (world.queue.ready_count(), world.queue.stats.published) == (4, 0)
    (entry,) = reserve(world, "5")
    assert entry.position == 77
    consumer = world.consumer(credit=3)
    world.end_turn()
    assert consumer.bodies() == ["1", "3", "2"]
    world.pass_ms(5)
    assert world.dead() == [("4", "expired")]


# -- a mirrored log


class RecordingLog(ScriptedLog):
    """Records operations on all entries, also on those that are not stored."""

    def __init__(self) -> None:
        super().__init__(durable=False)
        self.mirrored = True
        self.forgotten: list[str] = []
        self.may_lend = True

    def forget(self, entry: Entry) -> None:
        self.forgotten.append(body_of(entry))

    def returned(self, entry: Entry) -> None:
        self.returns.append((int(entry.position), int(entry.delivery_count)))

    def mark_delivered(self, entry: Entry) -> bool:
        self.delivery_marks.append(int(entry.position))
        return self.may_lend


def heard(arguments: Table | None = None) -> tuple[World, RecordingLog]:
    log = RecordingLog()
    world = World(arguments, log=log)
    world.queue.arrive(reserve(world, "a", "b", "c"))
    return world, log


def test_a_mirrored_log_is_asked_before_every_delivery() -> None:
    world, log = heard()
    log.may_lend = False
    consumer = world.consumer()
    world.end_turn()
    assert consumer.bodies() == []
    log.may_lend = True
    world.queue.delivery_allowed()
    world.end_turn()
    assert (consumer.bodies(), log.delivery_marks) == (["a", "b", "c"], [1, 1, 2, 3])


def test_a_mirrored_log_sees_every_removal() -> None:
    world, log = heard()
    consumer = world.consumer(credit=1)
    world.end_turn()
    world.queue.ack(consumer.entries[0])
    assert log.forgotten == ["a"]
    assert world.queue.can_get()
    assert world.queue.get(no_ack=True) is not None
    assert log.forgotten == ["a", "b"]
    assert world.queue.purge() == 1
    assert log.forgotten == ["a", "b", "c"]


def test_a_mirrored_log_sees_deliveries_without_ack_as_removals() -> None:
    world, log = heard()
    world.consumer(no_ack=True)
    world.end_turn()
    assert log.forgotten == ["a", "b", "c"]


def test_a_mirrored_log_sees_every_requeue() -> None:
    world, log = heard({"x-delivery-limit": 3})
    consumer = world.consumer(credit=1)
    world.end_turn()
    world.queue.requeue([consumer.entries[0]])
    assert log.returns == [(1, 1)]
