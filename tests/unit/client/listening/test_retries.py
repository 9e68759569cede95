"""Retries of failed messages, and the queues for them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.client.errors import CallTimeout, CannotConvert
from warren.client.listening import ImmediateAck, RejectAndDontRequeue, Retries, backoff
from warren.client.listening.retries import DEFAULT_RETRIES, Ack, Park, Reject, RetryAfter
from warren.client.transport import BindingLayout, ExchangeLayout, Layout, QueueLayout
from warren.wire.field_tables import Table


@pytest.mark.parametrize(
    ("failure", "verdict"),
    [
        (ImmediateAck(), Ack()),
        (RejectAndDontRequeue(), Reject()),
        (CannotConvert("no JSON"), Park()),
        (ValueError("no stock"), RetryAfter(1, 1.0)),
        (CallTimeout("no answer"), RetryAfter(1, 1.0)),
    ],
)
def test_a_first_failure_is_judged_by_its_kind(failure: Exception, verdict: object) -> None:
    assert Retries().after(failure, 0) == verdict


def test_without_delays_a_message_is_back_at_once() -> None:
    assert Retries(2, ()).after(ValueError(), 0) == RetryAfter(0, 0.0)


@given(st.floats(0, 30))
def test_by_default_a_database_may_be_away_for_half_a_minute(first_try_s: float) -> None:
    tried_at_s = [first_try_s]
    while isinstance(verdict := DEFAULT_RETRIES.after(OSError("no database"), len(tried_at_s) - 1), RetryAfter):
        tried_at_s.append(tried_at_s[-1] + verdict.delay_s)
    assert verdict == Park()
    # the last but one will do: the last is for a database that takes its time to come back
    assert tried_at_s[-2] > 30


def test_delays_are_used_one_after_the_other_and_the_last_one_for_the_rest() -> None:
    retries = Retries(tries=5, delays_s=(1, 10))
    verdicts = [retries.after(ValueError(), done) for done in range(5)]
    assert verdicts == [RetryAfter(1, 1), RetryAfter(2, 10), RetryAfter(2, 10), RetryAfter(2, 10), Park()]


def test_without_a_parking_queue_a_message_that_failed_finally_is_rejected() -> None:
    retries = Retries(tries=1, parking=False)
    assert retries.after(ValueError(), 0) == Reject()
    assert retries.after(CannotConvert("no JSON"), 0) == Reject()


@given(st.integers(1, 9), st.lists(st.floats(0.001, 100), max_size=5), st.integers(0, 20))
def test_a_message_is_tried_as_often_as_was_said(tries: int, delays_s: list[float], done: int) -> None:
    verdict = Retries(tries, tuple(delays_s)).after(ValueError(), done)
    assert isinstance(verdict, RetryAfter) == (done + 1 < tries)


def test_each_step_has_a_queue_from_which_messages_fall_back() -> None:
    back = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders"}
    steps = [QueueLayout(f"orders.retry.{step}", arguments=back) for step in (1, 2)]
    assert Retries(9, (1, 10)).layout("orders") == Layout(queues=(*steps, QueueLayout("orders.parked")))


def test_no_queue_is_declared_for_an_unused_step() -> None:
    names = [queue.name for queue in Retries(2, (1, 10, 100)).layout("orders").queues]
    assert names == ["orders.retry.1", "orders.parked"]


def test_the_delayed_exchange_is_bound_to_the_queue() -> None:
    exchange = ExchangeLayout("orders.delayed", "x-delayed-message", arguments={"x-delayed-type": "direct"})
    layout = Retries(3, (1,), "delayed_exchange", parking=False).layout("orders")
    assert layout == Layout((exchange,), (), (BindingLayout("orders.delayed", "orders", "orders"),))


def test_a_message_that_the_delayed_exchange_cannot_return_is_parked() -> None:
    arguments: Table = {"x-delayed-type": "direct", "alternate-exchange": "orders.undelivered"}
    catching = ExchangeLayout("orders.undelivered", "fanout")
    delayed = ExchangeLayout("orders.delayed", "x-delayed-message", arguments=arguments)
    bindings = (
        BindingLayout("orders.undelivered", "orders.parked"),
        BindingLayout("orders.delayed", "orders", "orders"),
    )
    layout = Retries(3, (1,), "delayed_exchange").layout("orders")
    assert layout == Layout((catching, delayed), (QueueLayout("orders.parked"),), bindings)


@pytest.mark.parametrize("way", ["queues", "delayed_exchange", "in_hand"])
def test_without_delays_there_is_nothing_but_the_parking_queue(way: str) -> None:
    arguments = {"x-queue-type": "quorum"}
    layout = Retries(2, (), way, arguments=arguments).layout("orders")  # type: ignore[arg-type]
    assert layout == Layout(queues=(QueueLayout("orders.parked", arguments=arguments),))


def test_backoff_grows_up_to_a_longest() -> None:
    assert backoff(1, 5, factor=3, longest_s=20) == (1, 3, 9, 20, 20)


@pytest.mark.parametrize(
    "settings", [{"tries": 0}, {"delays_s": (0,)}, {"delays_s": (5_000_000,)}, {"way": "by pigeon"}]
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        Retries(**settings)  # type: ignore[arg-type]
