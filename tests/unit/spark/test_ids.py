"""The id of a row: the same in every order and every attempt, and never that of another row."""

from hypothesis import given
from hypothesis import strategies as st

from warren.spark.publishing_ids import (
    SHARES,
    RowIds,
    TaskPublisher,
    batch_task_publisher,
    shares_of,
    stream_task_publisher,
)

ROWS = st.lists(st.binary(max_size=2), max_size=30)


@given(rows=ROWS, order=st.randoms(use_true_random=False))
def test_rows_have_the_same_ids_in_any_order(rows: list[bytes], order) -> None:  # type: ignore[no-untyped-def]
    shuffled = rows.copy()
    order.shuffle(shuffled)
    there = sorted(zip(rows, RowIds("7-").of(rows), strict=True))
    again = sorted(zip(shuffled, RowIds("7-").of(shuffled), strict=True))
    assert there == again


@given(first=ROWS, second=ROWS)
def test_no_two_rows_of_a_task_have_the_same_id(first: list[bytes], second: list[bytes]) -> None:
    ids = RowIds("")
    given = [*ids.of(first), *ids.of(second)]
    assert len(set(given)) == len(first) + len(second)


def test_rows_of_different_batches_have_different_ids() -> None:
    one, two = (stream_task_publisher(None, "query", batch, 3) for batch in ("1", "2"))
    assert one.publisher == two.publisher == "query/3"
    assert RowIds(one.prefix).of([b"x"]) != RowIds(two.prefix).of([b"x"])


def test_a_publisher_name_is_the_users_name_and_the_partition() -> None:
    assert stream_task_publisher("nightly", "query", "1", 3).publisher == "nightly/3"
    assert batch_task_publisher("nightly", 0).publisher == "nightly/0"


def test_a_million_ids_are_shared_out_so_that_the_broker_remembers_those_of_each_publisher() -> None:
    counts = [0] * SHARES
    for share in shares_of([b"order %d" % number for number in range(1_000_000)]):
        counts[share] += 1
    assert max(counts) < 70_000
    assert len(set(TaskPublisher("query/1").names())) == SHARES


def test_a_row_has_the_same_share_behind_any_others() -> None:
    ids = [b"%d" % number for number in range(100)]
    assert shares_of(ids[::-1]) == shares_of(ids)[::-1]
