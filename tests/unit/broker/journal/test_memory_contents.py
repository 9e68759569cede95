"""A replica in memory: the same promises without a disk, and its memory."""

import pytest

from tests.unit.broker.journal.contents_world import (
    JoiningMirror,
    Prepared,
    body_of,
    message_of,
    spans_of,
    transient_index,
)
from tests.unit.broker.journal.journal_world import IdleKeeper
from warren.broker.journal.payloads import message_payload
from warren.broker.journal.replica_contents import ENTRY_MEMORY_BYTES, MemoryContents
from warren.broker.model.message import Entry
from warren.broker.model.replica_contents import ReplicaContentsWaiter
from warren.broker.model.replica_set import POSITION_BITS
from warren.broker.model.turn import Turn
from warren.broker.queues.queue import Queue
from warren.broker.queues.settings import QueueSettings
from warren.errors import PeerFault


class World:
    """A replica, and the queue that it may be promoted to."""

    def __init__(self, max_priority: int = 0) -> None:
        self.turn = Turn()
        self.copy = MemoryContents(self.turn, max_priority, transient_index(self.turn, max_priority))
        self.max_priority = max_priority

    def store(self, position: int, body: str = "", priority: int = 0, expires_at_ms: int = 0) -> bool:
        payload, crc = message_payload(message_of(body, priority, False))
        return self.copy.store(position, priority, expires_at_ms, False, payload, crc)

    def queue(self) -> Queue:
        settings = QueueSettings(max_priority=self.max_priority)
        queue = Queue("/", "q", False, False, False, {}, 0, settings, self.turn, IdleKeeper())
        self.copy.hand_over(queue)
        queue.check()
        return queue


def drain(queue: Queue) -> list[Entry]:
    entries = []
    while (entry := queue.get(no_ack=False)) is not None:
        entries.append(entry)
    return entries


def filled(*positions: int, max_priority: int = 0) -> World:
    world = World(max_priority)
    for position in positions:
        assert not world.store(position, f"{position}", priority=position % 3)
    return world


def test_memory_contents_are_prepared_at_once() -> None:
    asker: ReplicaContentsWaiter = Prepared()
    World().copy.prepare(asker)
    assert isinstance(asker, Prepared)
    assert asker.times == 1


def test_a_stored_message_is_present_until_it_is_removed() -> None:
    world = filled(*range(1, 10))
    world.copy.remove(0, 3, 4)
    world.copy.remove(0, 9, 1_000_000)
    assert world.copy.spans() == spans_of((1, 2), (5, 8))
    assert (world.copy.count(), world.copy.body_bytes()) == (6, 6)


def test_a_removal_takes_messages_of_its_level_alone() -> None:
    world = filled(*range(1, 10), max_priority=2)
    world.copy.remove(1, 1, 7)
    assert world.copy.spans() == spans_of((2, 3), (5, 6), (8, 9))
    world.copy.drop(2, 2)
    world.copy.remove_any(3, 8)
    assert world.copy.spans() == spans_of((9, 9))


def test_a_message_removed_before_it_arrives_is_not_stored_while_catching_up() -> None:
    world = World()
    world.copy.begin_catching_up()
    world.copy.remove(0, 5, 7)
    for position in (4, 5, 7, 8, 8):
        world.store(position)
    assert world.copy.spans() == spans_of((4, 4), (8, 8))
    world.copy.caught_up()
    assert (world.copy.count(), world.copy.body_bytes()) == (2, 0)


def test_memory_is_counted_for_present_messages() -> None:
    world = filled(1, 2)
    payload, _crc = message_payload(message_of("1"))
    assert world.turn.held_bytes == 2 * (len(payload) + ENTRY_MEMORY_BYTES)
    world.copy.remove_any(1, 1)
    assert world.turn.held_bytes == len(payload) + ENTRY_MEMORY_BYTES
    world.copy.close()
    assert (world.turn.held_bytes, world.copy.count(), world.copy.spans()) == (0, 0, [])


def test_a_promoted_queue_has_all_messages_in_order() -> None:
    world = World(max_priority=1)
    for position in (5, 1, 2, 6, 3):
        world.store(position, f"{position}", priority=position % 2, expires_at_ms=10**15 + position)
    world.copy.mark_delivered(2)
    world.copy.returned(5, 3)
    queue = world.queue()
    assert (queue.ready_count(), queue.ready_bytes()) == (5, 5)
    entries = drain(queue)
    assert [body_of(entry) for entry in entries] == list("13526")
    assert [entry.redelivered for entry in entries] == [True, False, False, True, False]
    assert [int(entry.delivery_count) for entry in entries] == [0, 0, 3, 0, 0]
    assert [int(entry.expires_at_ms) for entry in entries] == [10**15 + int(entry.position) for entry in entries]
    assert [world.copy.delivered_up_to(), world.copy.next_position] == [2, 7]


def test_a_master_shares_messages_with_its_queue() -> None:
    world = filled(1, 2)
    queue = world.queue()
    queue.begin_epoch(1 << POSITION_BITS)
    entry = queue.reserve(message_of("of this node", persistent=False))
    assert entry is not None
    world.copy.store_entry(entry, *message_payload(entry.message))
    queue.arrive([entry])
    with_queue = world.turn.held_bytes
    queue.close()
    assert with_queue > world.turn.held_bytes == 3 * ENTRY_MEMORY_BYTES
    # and a backfill can be read from it
    newcomer = JoiningMirror()
    world.copy.read(world.copy.spans(), newcomer).more(10_000)
    assert [past.payload for past in newcomer.taken] == [
        message_payload(message_of(body, priority, False))[0]
        for body, priority in [("1", 1), ("2", 2), ("of this node", 0)]
    ]


def test_messages_cost_the_same_when_the_queue_is_gone() -> None:
    world = filled(1, 2)
    before = world.turn.held_bytes
    queue = world.queue()
    queue.close()
    assert world.turn.held_bytes < before
    world.copy.queue_closed()
    assert world.turn.held_bytes == before
    world.copy.remove_any(1, 2)
    assert world.turn.held_bytes == 0


def test_a_backfill_is_read_in_slices() -> None:
    world = filled(*range(1, 9))
    world.copy.returned(3, 2)
    newcomer = JoiningMirror()
    reader = world.copy.read(spans_of((2, 4), (7, 20)), newcomer)
    reader.more(1)
    reader.more(1)
    assert [past.position for past in newcomer.taken] == [2, 3]
    world.copy.remove(0, 4, 7)
    reader.more(10_000)
    assert [past.position for past in newcomer.taken] == [2, 3, 8]
    assert [past.returned for past in newcomer.taken] == [0, 2, 0]
    assert (newcomer.slices, newcomer.over) == (3, False)
    reader.more(1)
    assert newcomer.over


def test_a_slice_has_no_more_messages_than_are_wanted() -> None:
    world = filled(*range(1, 9))
    newcomer = JoiningMirror()
    reader = world.copy.read(world.copy.spans(), newcomer)
    reader.more(10_000, 3)
    assert [past.position for past in newcomer.taken] == [1, 2, 3]
    assert (newcomer.slices, newcomer.over) == (1, False)


def test_a_malformed_payload_is_not_stored() -> None:
    world = World()
    with pytest.raises(PeerFault):
        world.copy.store(1, 0, 0, False, b"short", 0)
    assert world.copy.count() == 0
