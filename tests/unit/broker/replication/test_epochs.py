"""The last batch that two replicas have in common, after any promotions."""

import pytest

from warren.broker.replication.batches import Epochs, EpochStart, last_common_batch
from warren.errors import InvariantBroken


def common(ours: list[EpochStart], our_end: int, theirs: list[EpochStart], their_end: int) -> int:
    found = last_common_batch(Epochs(list(ours)), our_end, Epochs(list(theirs)), their_end)
    assert found == last_common_batch(Epochs(list(theirs)), their_end, Epochs(list(ours)), our_end)
    return int(found)


def test_an_epoch_goes_from_its_first_batch_to_the_next_epoch() -> None:
    epochs = Epochs()
    for epoch, number in [(1, 4), (1, 5), (3, 6), (3, 7)]:
        epochs.add(epoch, number)
    assert epochs.beginnings == [(1, 4), (3, 6)]
    assert [epochs.of(number) for number in (3, 4, 5, 6, 99)] == [0, 1, 1, 3, 3]
    assert [epochs.first_of(epoch) for epoch in (1, 2, 3)] == [4, 0, 6]


def test_epochs_after_a_cut_are_removed_and_committed_ones_are_forgotten() -> None:
    epochs = Epochs([(1, 1), (2, 5), (4, 9)])
    epochs.cut(8)
    assert epochs.beginnings == [(1, 1), (2, 5)]
    epochs.forget(4)
    assert epochs.beginnings == [(1, 1), (2, 5)]
    epochs.forget(5)
    assert epochs.beginnings == [(2, 5)]


def test_of_one_epoch_the_shorter_end_is_common() -> None:
    assert common([(1, 1)], 9, [(1, 1)], 6) == 6


def test_a_replica_that_has_forgotten_early_epochs_has_them_in_common() -> None:
    assert common([(1, 1), (2, 5)], 9, [(2, 5)], 9) == 9
    assert common([(2, 5)], 9, [(2, 7)], 8) == 8


def test_batches_of_different_epochs_with_one_number_are_not_common() -> None:
    # both got 1 to 4 of the first master; one got 5 and 6 of it, the other 5 to 7 of the second
    assert common([(1, 1)], 6, [(1, 1), (2, 5)], 7) == 4


def test_replicas_several_epochs_apart_find_the_last_common_batch() -> None:
    assert common([(1, 1), (2, 10), (5, 12)], 20, [(1, 1), (2, 10), (3, 11), (4, 13)], 30) == 10


def test_nothing_is_common_if_the_epochs_do_not_overlap() -> None:
    assert common([(5, 30)], 40, [(2, 1)], 20) == 0
    assert common([(5, 1)], 40, [(2, 1)], 20) == 0
    assert common([], 0, [(2, 1)], 20) == 0


def test_epochs_that_do_not_ascend_or_lack_the_committed_batch_are_broken() -> None:
    Epochs([(1, 1), (3, 5)]).check(1)
    with pytest.raises(InvariantBroken, match="epoch 2 begins with batch 9"):
        Epochs([(1, 1), (3, 5), (2, 9)]).check(1)
    with pytest.raises(InvariantBroken, match="committed batch 4 is unknown"):
        Epochs([(3, 5)]).check(4)
