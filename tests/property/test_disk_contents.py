"""A copy on disk against sets: messages come in any order, are removed before or after, through restarts.

The model is a master: it assigns positions, and knows the live messages. The copy gets some of them at once, some late,
some never; it gets all removals. Small segments roll, are compacted and dropped throughout.
"""

from dataclasses import dataclass

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.unit.broker.journal.contents_world import ContentsWorld, body_of
from warren.broker.journal.payloads import decode_message
from warren.broker.model.replica_contents import PositionSpan
from warren.broker.model.replica_set import POSITION_BITS


@dataclass(frozen=True)
class Given:
    """A message as the master has it."""

    position: int
    priority: int
    persistent: bool
    expires_at_ms: int
    body: str


class DiskCopyAgainstSets(RuleBasedStateMachine):
    """The copy holds the messages it was given, less the removed ones."""

    @initialize(max_priority=st.sampled_from([0, 0, 2]), segment_bytes=st.sampled_from([600, 2000, 1 << 30]))
    def begin(self, max_priority: int, segment_bytes: int) -> None:
        self.world = ContentsWorld(segment_bytes=segment_bytes, max_priority=max_priority)
        self.max_priority = max_priority
        self.epoch = 0
        self.next_position = 1
        # alive at the master, and of that what the copy has, and what was never sent to it, or was lost
        self.alive: dict[int, Given] = {}
        self.held: dict[int, Given] = {}
        self.lacking: dict[int, Given] = {}
        # removed in this life of the copy, before it came
        self.buried: list[Given] = []
        self.delivered = 0
        self.whole = False
        # what was written when the last turn ended
        self.written: tuple[dict[int, Given], int] = ({}, 0)

    # -- what comes

    @rule(
        kinds=st.lists(st.tuples(st.booleans(), st.integers(0, 2)), min_size=1, max_size=9),
        priority=st.integers(0, 3),
        deadline=st.booleans(),
        size=st.integers(0, 60),
    )
    def give(self, kinds: list[tuple[bool, int]], priority: int, deadline: bool, size: int) -> None:
        """Some are sent at once, one in three is not."""
        for persistent, sent in kinds:
            position = self.next_position
            self.next_position += 1
            given = Given(position, priority, persistent, 10**15 if deadline else 0, f"{position} " + "x" * size)
            self.alive[position] = given
            if sent or self.whole:
                assert self._store(given) == persistent
                self.held[position] = given
            else:
                self.lacking[position] = given

    @precondition(lambda self: self.lacking)
    @rule(data=st.data(), count=st.integers(1, 9))
    def send_late(self, data: st.DataObject, count: int) -> None:
        positions = sorted(self.lacking)
        at = data.draw(st.integers(0, len(positions) - 1))
        for position in positions[at : at + count]:
            given = self.lacking.pop(position)
            self._store(given)
            self.held[position] = given

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def send_again(self, data: st.DataObject) -> None:
        given = self.held[data.draw(st.sampled_from(sorted(self.held)))]
        assert self._store(given) == given.persistent

    @precondition(lambda self: self.buried)
    @rule(data=st.data())
    def send_what_is_gone(self, data: st.DataObject) -> None:
        self._store(data.draw(st.sampled_from(self.buried)))

    def _store(self, given: Given) -> bool:
        return self.world.store(given.position, given.body, given.priority, given.expires_at_ms, given.persistent)

    @rule()
    def begin_epoch(self) -> None:
        self.epoch += 1
        self.next_position = (self.epoch << POSITION_BITS) + 1

    # -- what goes

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), level=st.integers(0, 2), width=st.sampled_from([0, 0, 1, 5, 20, 5000]))
    def remove(self, data: st.DataObject, level: int, width: int) -> None:
        first = data.draw(st.sampled_from(sorted(self.alive)))
        level = min(level, self.max_priority)
        last = min(first + width, self.next_position - 1)
        self.world.copy.remove(level, first, last)
        for given in [*self.alive.values(), *self.held.values()]:
            if first <= given.position <= last and self._level(given) == level:
                self._forget(given)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), width=st.integers(0, 9))
    def remove_any(self, data: st.DataObject, width: int) -> None:
        first = data.draw(st.sampled_from(sorted(self.held)))
        last = min(first + width, self.next_position - 1)
        self.world.copy.remove_any(first, last)
        for given in list(self.held.values()):
            if first <= given.position <= last:
                self._forget(given)
        # at a level that lost something, the rest of the range counts as removed, too
        for given in list(self.lacking.values()):
            if first <= given.position <= last:
                self.alive.pop(given.position)
                self.lacking.pop(given.position)

    def _forget(self, given: Given) -> None:
        self.alive.pop(given.position, None)
        self.held.pop(given.position, None)
        if self.lacking.pop(given.position, None) is not None:
            self.buried.append(given)

    def _level(self, given: Given) -> int:
        return min(given.priority, self.max_priority)

    # -- what is known

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def mark_delivered(self, data: st.DataObject) -> None:
        position = data.draw(st.sampled_from(sorted(self.alive)))
        assert self.world.copy.mark_delivered(position) == (position > self.delivered)
        if position > self.delivered:
            self.delivered = position if self.max_priority == 0 else 1 << 62

    @precondition(lambda self: not self.lacking)
    @rule()
    def catch_up(self) -> None:
        self.world.copy.caught_up()
        self.whole = True

    # -- turns, and lives

    @rule()
    def end_turn(self) -> None:
        self.world.go_on()
        self.written = (dict(self.held), self.delivered)

    @rule()
    def make_room(self) -> None:
        self.end_turn()
        self.world.pass_ms(1000)

    @rule()
    def restart(self) -> None:
        """What this turn did is lost: what it stored, and what it removed, so that the copy has some that is gone."""
        self.world = self.world.restart()
        held, delivered = self.written
        self.held = {given.position: given for given in held.values() if given.persistent}
        self.lacking = {position: given for position, given in self.alive.items() if position not in self.held}
        self.buried = []
        self.whole = False
        known = max([int(self.world.queue_index.next_position) - 1, 0])
        self.delivered = min(delivered, known)
        assert self.world.copy.delivered_up_to() == self.delivered
        self.written = (dict(self.held), self.delivered)

    @rule()
    def take_stock(self) -> None:
        """Turn a queue's index into a mirror's, as a deposed master does."""
        self.end_turn()
        self.world.prepare()

    # -- what shows

    @invariant()
    def holds_what_it_should(self) -> None:
        if not hasattr(self, "world"):
            return
        found: list[int] = []
        for span in self.world.spans():
            found += range(int(span.first), int(span.last) + 1)
        assert found == sorted(self.held)
        assert self.world.copy.count() == len(self.held)
        assert self.world.copy.body_bytes() == sum(len(given.body) for given in self.held.values())

    @rule(data=st.data(), size_bytes=st.sampled_from([1, 300, 100_000]))
    def read_past(self, data: st.DataObject, size_bytes: int) -> None:
        self.end_turn()
        wanted = sorted(data.draw(st.sets(st.sampled_from(sorted(self.held))))) if self.held else []
        taken = self.world.read([PositionSpan(position, position) for position in wanted], size_bytes)
        assert sorted(past.position for past in taken) == wanted
        for past in taken:
            given = self.held[past.position]
            message = decode_message(past.payload, past.priority, past.persistent)
            assert (message.content.decode(), past.priority) == (given.body, given.priority)
            assert (past.expires_at_ms, past.persistent) == (given.expires_at_ms, given.persistent)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.go_on()
        wanted = sorted(self.held.values(), key=lambda given: (-self._level(given), given.position))
        entries = self.world.drain(self.world.queue())
        assert [body_of(entry) for entry in entries] == [given.body for given in wanted]
        for entry, given in zip(entries, wanted, strict=True):
            assert (entry.position, entry.expires_at_ms) == (given.position, given.expires_at_ms)
            assert entry.message.persistent == given.persistent
            assert entry.redelivered == (entry.position <= self.delivered)


TestDiskCopyAgainstSets = DiskCopyAgainstSets.TestCase
TestDiskCopyAgainstSets.settings = hypothesis_settings(max_examples=60, stateful_step_count=40, deadline=None)
