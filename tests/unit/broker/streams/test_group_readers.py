"""A group at one stream: one member reads, the next one resumes behind it, and no two work on one message."""

from typing import Any

import pytest

from tests.unit.broker.streams.stage import PretendReader, Stage
from warren.errors import ChannelFault


def join(stage: Stage, name: str, credit: int = 1_000, **arguments: Any) -> PretendReader:
    return stage.reader(credit, x_stream_group="g", x_stream_member=name, **arguments)


def ack(stage: Stage, member: PretendReader, *offsets: int) -> None:
    for entry, offset in zip(list(member.entries), member.offsets(), strict=True):
        if offset in offsets:
            stage.stream.ack(entry)
    stage.settle()


def go(stage: Stage, member: PretendReader, *held: int) -> None:
    """The connection of a member ends with unacked entries."""
    entries = [entry for entry, offset in zip(member.entries, member.offsets(), strict=True) if offset in held]
    stage.stream.requeue(entries)
    stage.stream.remove_consumer(member)
    stage.settle()


def test_one_member_is_given_everything() -> None:
    stage = Stage()
    stage.fill(5)
    first, second = join(stage, "a"), join(stage, "b")
    assert (first.offsets(), second.offsets()) == ([0, 1, 2, 3, 4], [])
    assert stage.stream.consumer_count() == 2
    assert stage.stream.consumers() == [(first, True), (second, False)]


def test_the_first_member_gives_way_to_the_chosen_one_once_it_has_acked_everything() -> None:
    stage = Stage()
    stage.fill(5)
    late = join(stage, "b", credit=3)
    early = join(stage, "a")
    assert early.offsets() == []
    late.credit = 10
    ack(stage, late, 0, 2)
    assert (late.offsets(), early.offsets()) == ([0, 1, 2], [])
    ack(stage, late, 1)
    assert (late.offsets(), early.offsets()) == ([0, 1, 2], [3, 4])
    assert stage.stream.consumers() == [(early, True), (late, False)]


def test_the_successor_of_a_lost_member_continues_after_its_acks_without_a_gap() -> None:
    stage = Stage()
    stage.fill(6)
    first, second = join(stage, "a"), join(stage, "b")
    ack(stage, first, 0, 1, 3)
    go(stage, first, 2, 4, 5)
    assert second.offsets() == [2, 3, 4, 5]


def test_a_member_that_had_all_acked_is_followed_at_the_end() -> None:
    stage = Stage()
    stage.fill(3)
    first, second = join(stage, "a"), join(stage, "b")
    ack(stage, first, 0, 1, 2)
    go(stage, first)
    stage.fill(2)
    assert second.offsets() == [3, 4]


def test_a_retiring_member_that_is_gone_is_followed_by_the_chosen_one() -> None:
    stage = Stage()
    stage.fill(4)
    late = join(stage, "b")
    early = join(stage, "a")
    ack(stage, late, 0)
    go(stage, late, 1, 2, 3)
    assert early.offsets() == [1, 2, 3]


def test_a_retiring_member_goes_on_if_the_chosen_one_leaves() -> None:
    stage = Stage()
    stage.fill(4)
    late = join(stage, "b", credit=2)
    early = join(stage, "a")
    go(stage, early)
    late.credit = 10
    stage.stream.wake()
    stage.settle()
    assert late.offsets() == [0, 1, 2, 3]


def test_a_member_that_returns_resumes_at_the_group_offset() -> None:
    stage = Stage()
    stage.fill(2)
    late = join(stage, "b")
    ack(stage, late, 0, 1)
    early = join(stage, "a")
    stage.fill(2)
    ack(stage, early, 2)
    go(stage, early, 3)
    assert (early.offsets(), late.offsets()) == ([2, 3], [0, 1, 3])


def test_the_start_of_a_group_holds_for_all_its_members() -> None:
    """The second member asks for `next`, too, and joins much later."""
    stage = Stage()
    stage.fill(3)
    first = join(stage, "a", credit=0, x_stream_offset="next")
    stage.fill(3)
    second = join(stage, "b", x_stream_offset="next")
    go(stage, first)
    assert second.offsets() == [3, 4, 5]


def test_a_group_without_a_start_begins_with_the_first_message() -> None:
    stage = Stage()
    stage.fill(3)
    assert join(stage, "a").offsets() == [0, 1, 2]
    assert stage.stream.stored_offsets() == {"g": -1}


def test_groups_and_other_readers_are_independent() -> None:
    stage = Stage()
    stage.fill(3)
    member = join(stage, "a")
    other = stage.reader(x_stream_group="h", x_stream_member="a")
    alone = stage.reader(x_stream_offset="first")
    assert [one.offsets() for one in (member, other, alone)] == [[0, 1, 2]] * 3


def test_a_probe_is_no_member() -> None:
    stage = Stage()
    stage.fill(3)
    probe = join(stage, "a", x_stream_probe=True)
    member = join(stage, "b")
    assert (len(probe.entries), member.offsets()) == (1, [0, 1, 2])


def test_members_wait_while_the_journal_is_read_after_a_restart() -> None:
    stage = Stage()
    stage.fill(4)
    first = join(stage, "a")
    ack(stage, first, 0, 1)
    go(stage, first, 2, 3)
    again = stage.restarted()
    for name, offset in stage.log.stored_offsets().items():
        again.log.store_offset(name, offset)
    assert join(again, "b").offsets() == [2, 3]


def test_every_member_is_cancelled_when_the_stream_ends() -> None:
    stage = Stage()
    members = [join(stage, "a"), join(stage, "b")]
    stage.stream.close()
    assert [member.was_cancelled for member in members] == [True, True]


def test_a_group_without_a_name_is_refused() -> None:
    with pytest.raises(ChannelFault):
        Stage().reader(x_stream_group="")


def test_a_new_master_serves_a_group_when_its_members_have_had_time_to_come() -> None:
    """The chosen member comes last and has unacked messages; the first one must not get the same."""
    stage = Stage()
    stage.fill(3)
    stage.stream.begin_epoch(2 << 44)
    late = join(stage, "b")
    alone = stage.reader(x_stream_offset="first")
    early = join(stage, "a")
    assert (late.offsets(), early.offsets(), alone.offsets()) == ([], [], [0, 1, 2])
    stage.turn.now_ms += 2_000
    stage.turn.fire_timers()
    stage.settle()
    assert (late.offsets(), early.offsets()) == ([], [0, 1, 2])


def test_the_first_master_of_all_serves_a_group_at_once() -> None:
    stage = Stage()
    stage.fill(1)
    stage.stream.begin_epoch(1 << 44)
    assert join(stage, "a").offsets() == [0]


def test_acks_of_a_member_that_left_count_until_another_takes_over() -> None:
    """The member cancels first, then acks its messages."""
    stage = Stage()
    stage.fill(4)
    first = join(stage, "a")
    stage.stream.remove_consumer(first)
    ack(stage, first, 0, 1)
    second = join(stage, "b")
    assert second.offsets() == [2, 3]
    ack(stage, second, 2, 3)
    ack(stage, first, 2)
    stage.turn.now_ms += 1_000
    stage.turn.fire_timers()
    assert stage.stream.stored_offsets() == {"g": 3}
