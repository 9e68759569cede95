"""Ids of receipts and of compensating rows: short enough, stable, and unique."""

from hypothesis import given
from hypothesis import strategies as st

from warren.client.inbox.receipt_writer import receipt_id
from warren.client.receipts import compensating_id

IDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=255).filter(
    lambda business_id: len(business_id.encode()) <= 255
)


def test_short_ids_can_be_read() -> None:
    assert compensating_id("payment 7", "reverse") == "payment 7/reverse"
    assert compensating_id("payment 7", "confirm") == "payment 7/confirm"
    assert receipt_id("bank", "payment 7") == "payment 7/receipt/bank"


@given(business_id=IDS, consumer=IDS)
def test_every_id_fits(business_id: str, consumer: str) -> None:
    made = [compensating_id(business_id, "reverse"), compensating_id(business_id, "confirm")]
    made.append(receipt_id(consumer, business_id))
    assert all(len(each.encode()) <= 255 for each in made)
    assert len({*made, business_id}) == 4


@given(one=IDS, other=IDS)
def test_ids_of_two_messages_differ(one: str, other: str) -> None:
    same = one == other
    assert (compensating_id(one, "reverse") == compensating_id(other, "reverse")) is same
    assert (receipt_id("bank", one) == receipt_id("bank", other)) is same
