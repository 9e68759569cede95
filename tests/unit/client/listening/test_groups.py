"""The consume arguments for groups and streams."""

import pytest

from warren.client.listening import StreamReading, group_layout
from warren.client.transport import BindingLayout, Layout, QueueLayout


def test_a_group_has_a_queue_of_its_own_bound_with_each_key() -> None:
    bindings = tuple(BindingLayout("shop", "shop.billing", key) for key in ("new", "paid"))
    expected = Layout(queues=(QueueLayout("shop.billing"),), bindings=bindings)
    assert group_layout("shop", "billing", ("new", "paid")) == expected


def test_where_order_matters_one_of_the_group_is_active() -> None:
    [queue] = group_layout("shop", "billing", ordered=True).queues
    assert queue.arguments == {"x-single-active-consumer": True}


def test_a_stream_reader_consumes_with_the_arguments_of_its_settings() -> None:
    reading = StreamReading("first", group="billing", member="a", filter=("de", "it"), match_unfiltered=True)
    assert reading.arguments == {
        "x-stream-offset": "first",
        "x-stream-group": "billing",
        "x-stream-member": "a",
        "x-stream-filter": ["de", "it"],
        "x-stream-match-unfiltered": True,
    }
    assert StreamReading("stored", name="ada").arguments == {
        "x-stream-offset": "stored",
        "x-stream-consumer-name": "ada",
    }


@pytest.mark.parametrize("settings", [{"name": "a", "group": "b"}, {"member": "a"}, {"match_unfiltered": True}])
def test_contradictory_settings_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        StreamReading(**settings)  # type: ignore[arg-type]
