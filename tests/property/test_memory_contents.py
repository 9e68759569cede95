"""A copy in memory against one on disk: after any operations both hold the same, and give a queue the same."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.broker.journal.contents_world import ContentsWorld, JoiningMirror, body_of, message_of, transient_index
from tests.unit.broker.journal.journal_world import IdleKeeper
from warren.broker.journal.payloads import message_payload
from warren.broker.journal.replica_contents import MemoryContents
from warren.broker.model.message import Entry
from warren.broker.model.turn import Turn
from warren.broker.queues.queue import Queue
from warren.broker.queues.settings import QueueSettings

POSITIONS = st.integers(1, 40)
STORE, REMOVE, REMOVE_ANY, DROP, LEND, RETURNED = range(6)
ORDERS = st.lists(
    st.tuples(st.sampled_from([STORE, STORE, STORE, REMOVE, REMOVE_ANY, DROP, LEND, RETURNED]), POSITIONS, POSITIONS),
    max_size=60,
)


def facts(entries: list[Entry]) -> list[tuple[str, int, bool, int]]:
    return [
        (body_of(entry), int(entry.position), entry.redelivered, int(entry.delivery_count))
        for entry in sorted(entries, key=lambda entry: entry.position)
    ]


@settings(max_examples=60, deadline=None)
@given(orders=ORDERS, max_priority=st.sampled_from([0, 2]))
def test_both_hold_the_same(orders: list[tuple[int, int, int]], max_priority: int) -> None:
    world = ContentsWorld(segment_bytes=800, max_priority=max_priority)
    turn = Turn()
    memory = MemoryContents(turn, max_priority, transient_index(turn, max_priority))
    removed: set[int] = set()
    for copy in (memory, world.copy):
        copy.begin_catching_up()
    for kind, position, other in orders:
        for copy in (memory, world.copy):
            if kind == STORE and position not in removed:
                message = message_of("x" * position, position % 4)
                payload, crc = message_payload(message)
                copy.store(position, position % 4, 0, True, payload, crc)
            elif kind == REMOVE:
                copy.remove(min(other % 4, max_priority), min(position, other), max(position, other))
            elif kind == REMOVE_ANY:
                copy.remove_any(min(position, other), max(position, other))
            elif kind == DROP:
                copy.drop(position % 4, position)
            elif kind == LEND and max_priority == 0:
                copy.mark_delivered(position)
            elif kind == RETURNED:
                copy.returned(position, other)
        if kind == REMOVE_ANY:
            # later messages do not matter: a copy may keep them out or not
            removed |= set(range(min(position, other), max(position, other) + 1))
        assert memory.spans() == world.spans()
        assert (memory.count(), memory.body_bytes()) == (world.copy.count(), world.copy.body_bytes())
    world.go_on()
    joining = JoiningMirror()
    memory.read(memory.spans(), joining).more(1 << 30)
    assert joining.taken == sorted(world.read(world.copy.spans()), key=lambda past: past.position)
    settings_ = QueueSettings(max_priority=max_priority)
    queue = Queue("/", "q", False, False, False, {}, 0, settings_, turn, IdleKeeper())
    memory.hand_over(queue)
    in_memory = [entry for _number in range(memory.count()) if (entry := queue.get(no_ack=False)) is not None]
    assert facts(in_memory) == facts(world.drain(world.queue()))
