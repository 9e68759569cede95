"""Two members find the last step that both have, whatever masters they had."""

from warren.broker.replication.batches import Epochs, EpochStart, last_common_batch


def common(ours: list[EpochStart], our_end: int, theirs: list[EpochStart], their_end: int) -> int:
    found = last_common_batch(Epochs(list(ours)), our_end, Epochs(list(theirs)), their_end)
    assert found == last_common_batch(Epochs(list(theirs)), their_end, Epochs(list(ours)), our_end)
    return int(found)


def test_an_epoch_goes_from_its_first_step_to_the_next_epochs() -> None:
    epochs = Epochs()
    for epoch, number in [(1, 4), (1, 5), (3, 6), (3, 7)]:
        epochs.add(epoch, number)
    assert epochs.beginnings == [(1, 4), (3, 6)]
    assert [epochs.of(number) for number in (3, 4, 5, 6, 99)] == [0, 1, 1, 3, 3]
    assert [epochs.first_of(epoch) for epoch in (1, 2, 3)] == [4, 0, 6]


def test_what_is_cut_is_no_more_and_what_is_settled_need_not_be_told_apart() -> None:
    epochs = Epochs([(1, 1), (2, 5), (4, 9)])
    epochs.cut(8)
    assert epochs.beginnings == [(1, 1), (2, 5)]
    epochs.forget(4)
    assert epochs.beginnings == [(1, 1), (2, 5)]
    epochs.forget(5)
    assert epochs.beginnings == [(2, 5)]


def test_of_one_epoch_the_shorter_end_is_common() -> None:
    assert common([(1, 1)], 9, [(1, 1)], 6) == 6


def test_a_member_that_knows_less_of_the_past_has_it_in_common_all_the_same() -> None:
    assert common([(1, 1), (2, 5)], 9, [(2, 5)], 9) == 9
    assert common([(2, 5)], 9, [(2, 7)], 8) == 8


def test_steps_of_two_epochs_under_one_number_are_not_common() -> None:
    # both got 1 to 4 of the first master; one got 5 and 6 of it, the other 5 to 7 of the second
    assert common([(1, 1)], 6, [(1, 1), (2, 5)], 7) == 4


def test_several_epochs_apart_they_find_where_they_parted() -> None:
    assert common([(1, 1), (2, 10), (5, 12)], 20, [(1, 1), (2, 10), (3, 11), (4, 13)], 30) == 10


def test_nothing_is_common_if_they_cannot_tell() -> None:
    assert common([(5, 30)], 40, [(2, 1)], 20) == 0
    assert common([(5, 1)], 40, [(2, 1)], 20) == 0
    assert common([], 0, [(2, 1)], 20) == 0
