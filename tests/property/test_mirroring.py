"""Copies are compared like sets of positions, and histories of replication batches like lists."""

from hypothesis import given
from hypothesis import strategies as st

from warren.broker.model.replica_contents import PositionSpan
from warren.broker.replication.backfill import span_difference
from warren.broker.replication.batches import Epochs, ReplicationBatch, last_common_batch
from warren.sim.replica_sets.replica import spans_of

positions = st.sets(st.integers(0, 40) | st.integers(1 << 40, (1 << 40) + 20))


def every(spans: list[PositionSpan]) -> list[int]:
    return [position for span in spans for position in range(int(span.first), int(span.last) + 1)]


@given(positions, positions, st.integers(0, 45) | st.just(1 << 50))
def test_the_difference_of_spans_is_the_difference_of_sets(ours: set[int], theirs: set[int], below: int) -> None:
    found = span_difference(spans_of(list(ours)), spans_of(list(theirs)), below)
    assert every(found) == sorted(position for position in ours - theirs if position < below)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[ReplicationBatch], list[ReplicationBatch]]:
    """The batches of two members of a replica set: each master continued from the batches of one of them."""
    members: list[list[ReplicationBatch]] = [[], []]
    for epoch in range(1, draw(st.integers(2, 6))):
        master = draw(st.integers(0, 1))
        other = 1 - master
        reached = draw(st.booleans())
        if reached:
            common = last_same(members[master], members[other])
            del members[other][common:]
        sent = len(members[other])
        for _ in range(draw(st.integers(1, 4))):
            members[master].append(ReplicationBatch(len(members[master]) + 1, epoch, b""))
        if reached:
            members[other] += members[master][sent : draw(st.integers(sent, len(members[master])))]
    return members[0], members[1]


def last_same(one: list[ReplicationBatch], other: list[ReplicationBatch]) -> int:
    count = 0
    for ours, theirs in zip(one, other, strict=False):
        if ours is not theirs:
            break
        count += 1
    return count


def epochs_of(batches: list[ReplicationBatch]) -> Epochs:
    epochs = Epochs()
    for batch in batches:
        epochs.add(batch.epoch, batch.number)
    return epochs


@given(histories(), st.data())
def test_the_last_common_step_is_the_last_that_is_the_same(
    members: tuple[list[ReplicationBatch], list[ReplicationBatch]], data: st.DataObject
) -> None:
    one, other = members
    same = last_same(one, other)
    ours, theirs = epochs_of(one), epochs_of(other)
    # committed batches are the same on both, and need not be distinguished
    ours.forget(data.draw(st.integers(0, same)))
    theirs.forget(data.draw(st.integers(0, same)))
    assert last_common_batch(ours, len(one), theirs, len(other)) == same
