"""Layouts put together and taken apart."""

from warren.client.recovering.layouts import (
    UNUSED_QUEUES_MAX,
    UnusedQueues,
    layout_of_queue,
    merge_layouts,
    without_auto_delete,
    without_exclusive,
)
from warren.client.transport import BindingLayout, ExchangeLayout, Layout, QueueLayout

ORDERS = Layout(
    (ExchangeLayout("shop", "topic"), ExchangeLayout("audit")),
    (QueueLayout("orders"), QueueLayout("replies", exclusive=True)),
    (
        BindingLayout("shop", "orders", "order.*"),
        BindingLayout("shop", "replies", "reply.*"),
        BindingLayout("shop", "audit", "#", to_exchange=True),
    ),
)


def test_of_two_that_have_a_name_the_later_counts_and_keeps_the_place() -> None:
    more = Layout(
        (ExchangeLayout("audit", "fanout"), ExchangeLayout("more")),
        (QueueLayout("orders", arguments={"x-max-length": 1}),),
        (ORDERS.bindings[0], BindingLayout("more", "orders")),
    )
    both = merge_layouts(ORDERS, more)
    assert [(each.name, each.kind) for each in both.exchanges] == [
        ("shop", "topic"),
        ("audit", "fanout"),
        ("more", "direct"),
    ]
    assert [each.name for each in both.queues] == ["orders", "replies"]
    assert both.queues[0].arguments == {"x-max-length": 1}
    assert both.bindings == (*ORDERS.bindings, BindingLayout("more", "orders"))
    assert merge_layouts(both, more) == both


def test_the_shared_part_has_no_exclusive_queue_and_no_binding_to_one() -> None:
    common = without_exclusive(ORDERS)
    assert common.exchanges == ORDERS.exchanges
    assert [queue.name for queue in common.queues] == ["orders"]
    assert [binding.destination for binding in common.bindings] == ["orders", "audit"]


def test_an_exchange_that_has_the_name_of_an_exclusive_queue_keeps_its_bindings() -> None:
    binding = BindingLayout("shop", "replies", "#", to_exchange=True)
    assert without_exclusive(Layout((), ORDERS.queues, (binding,))).bindings == (binding,)
    assert layout_of_queue(Layout((), ORDERS.queues, (binding,)), "replies").bindings == ()


def test_all_about_a_queue_is_itself_and_its_bindings() -> None:
    assert layout_of_queue(ORDERS, "orders") == Layout((), (QueueLayout("orders"),), (ORDERS.bindings[0],))
    assert layout_of_queue(ORDERS, "unknown") == Layout()


def test_a_queue_that_the_broker_deletes_by_itself_goes_with_its_bindings() -> None:
    passing = (QueueLayout("short", auto_delete=True), QueueLayout("idle", arguments={"x-expires": 1000}))
    bindings = (BindingLayout("shop", "short", "#"), BindingLayout("shop", "short", "#", to_exchange=True))
    layout = merge_layouts(ORDERS, Layout((), passing, bindings))
    assert without_auto_delete(layout, "orders") == layout
    assert without_auto_delete(layout, "unknown") == layout
    left = without_auto_delete(without_auto_delete(layout, "short"), "idle")
    assert left == merge_layouts(ORDERS, Layout(bindings=bindings[1:]))


def test_a_removed_queue_is_remembered_unless_it_was_declared_again_or_is_too_old() -> None:
    aside = UnusedQueues()
    idle = QueueLayout("idle", arguments={"x-expires": 1000})
    layout = merge_layouts(ORDERS, Layout((), (idle,), (BindingLayout("shop", "idle", "#"),)))
    assert aside.put(layout, "orders") is layout
    assert aside.put(layout, "idle") == ORDERS
    assert aside.take(ORDERS, "idle") == layout
    assert aside.take(ORDERS, "idle") is ORDERS
    aside.put(layout, "idle")
    anew = merge_layouts(ORDERS, Layout(queues=(idle,)))
    assert aside.take(anew, "idle") is anew
    aside.put(layout, "idle")
    for number in range(UNUSED_QUEUES_MAX):
        aside.put(Layout(queues=(QueueLayout(f"reply-{number}", auto_delete=True),)), f"reply-{number}")
    assert aside.take(ORDERS, "idle") is ORDERS
