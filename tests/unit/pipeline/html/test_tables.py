"""Tables that end, and say how much is beyond."""

from decimal import Decimal

from warren.pipeline.html.page import table


def test_a_table_shows_the_first_rows_and_counts_the_rest() -> None:
    made = table("Keys", ("Key", "Amount"), [(f"k{number}", number) for number in range(5)], limit=2)
    assert made.rows == (("k0", "0"), ("k1", "1"))
    assert made.more == 3


def test_rows_that_were_left_out_before_are_counted_too() -> None:
    assert table("Keys", ("Key",), [("k1",), ("k2",)], total=1000).more == 998


def test_numbers_stand_to_the_right_and_gaps_do_not_change_that() -> None:
    rows = [("a", 1, None, "x", True), ("b", None, Decimal("2.50"), "y", False)]
    made = table("Mixed", ("Name", "Count", "Amount", "Text", "Flag"), rows)
    assert made.to_the_right == (False, True, True, False, False)
    assert made.rows[0] == ("a", "1", "–", "x", "yes")


def test_a_column_without_any_value_is_text_unless_said() -> None:
    rows = [("a", None, "1 s")]
    assert table("Empty", ("Name", "Nothing", "Time"), rows, right=("Time",)).to_the_right == (False, False, True)
