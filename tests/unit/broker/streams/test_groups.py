"""The active member of a group, and when another one takes over."""

import pytest

from tests.unit.broker.streams.stage import PretendReader
from warren.broker.model.ports import ConsumerPort
from warren.broker.streams.groups import ConsumerGroup, ConsumerGroups, check_group
from warren.errors import ChannelFault


def member(name: str, tag: str = "t") -> PretendReader:
    return PretendReader(tag=tag, x_stream_group="g", x_stream_member=name)


def group_of(partition: int, *names: str) -> ConsumerGroup:
    group = ConsumerGroup("g", partition)
    for name in names:
        group.join(member(name))
    return group


def name_of(consumer: ConsumerPort | None) -> object:
    return None if consumer is None else consumer.arguments["x-stream-member"]


def test_partitions_go_round_the_members_in_the_order_of_their_names() -> None:
    chosen = [name_of(group_of(partition, "c", "a", "b").chosen()) for partition in range(7)]
    assert chosen == ["a", "b", "c", "a", "b", "c", "a"]


def test_the_first_to_join_is_active_at_once() -> None:
    group = group_of(0, "a")
    assert name_of(group.activate()) == "a"
    assert group.activate() is None


def test_a_member_that_is_not_chosen_any_more_is_active_until_it_holds_nothing() -> None:
    group = group_of(0, "b")
    group.activate()
    group.join(member("a"))
    assert (name_of(group.active), name_of(group.chosen()), group.is_retiring()) == ("b", "a", True)
    assert group.activate() is None
    group.retired()
    assert name_of(group.activate()) == "a"
    assert not group.is_retiring()


def test_the_chosen_member_does_not_retire() -> None:
    group = group_of(0, "a", "b")
    group.activate()
    group.retired()
    assert name_of(group.active) == "a"


def test_a_retiring_member_stays_if_the_chosen_one_leaves_first() -> None:
    group = group_of(0, "b")
    group.activate()
    other = member("a")
    group.join(other)
    group.leave(other)
    assert (name_of(group.active), group.is_retiring()) == ("b", False)


def test_the_unacked_messages_of_a_gone_member_go_to_another() -> None:
    group = group_of(1, "a", "b", "c")
    active = group.activate()
    assert active is not None
    group.leave(active)
    assert name_of(group.activate()) == "c"


def test_members_of_one_name_are_distinguished_by_their_arrival() -> None:
    group = ConsumerGroup("g", 1)
    first, second = member("a"), member("a")
    group.join(first)
    group.join(second)
    assert group.activate() is second
    group.leave(first)
    assert (group.chosen(), group.is_retiring()) == (second, False)


def test_groups_do_not_know_each_other_and_end_with_their_last_member() -> None:
    groups = ConsumerGroups(0)
    one, other = member("a"), PretendReader(tag="x", x_stream_group="h")
    assert groups.join(PretendReader(tag="alone")) is None
    assert groups.join(one) is not groups.join(other)
    assert [group.name for group in groups.all()] == ["g", "h"]
    assert groups.of(one) is groups.leave(one)
    assert [group.name for group in groups.all()] == ["h"]
    assert groups.leave(one) is None


@pytest.mark.parametrize("argument", ["x_stream_group", "x_stream_member"])
@pytest.mark.parametrize("value", [1, "", True, ["a"]])
def test_a_name_that_is_none_is_refused(argument: str, value: object) -> None:
    with pytest.raises(ChannelFault, match="not a name"):
        check_group(PretendReader(**{"x_stream_group": "g", argument: value}), "queue 's' in vhost '/'")
