"""From a payload to a message: defaults, overrides of a call, and values that AMQP cannot carry."""

import uuid

import pytest

from warren.client import CannotConvert, Properties
from warren.client.converters import CONVERTERS, TextConverter
from warren.client.settings import lint
from warren.client.settings.settings import SettingsBuilder
from warren.client.template import Overrides, new_message_id, with_alternate
from warren.client.template.template import TemplateDefaults, prepare_message
from warren.client.transport import BindingLayout, ExchangeLayout, Outgoing, QueueLayout

STANDING = TemplateDefaults("orders", "new", CONVERTERS["json"], mandatory=True, persistent=True)


def properties_of(outgoing: Outgoing) -> Properties:
    assert outgoing.message.properties is not None
    return outgoing.message.properties


def test_a_payload_goes_where_the_template_goes() -> None:
    outgoing = prepare_message({"a": 1}, STANDING, {})
    properties = properties_of(outgoing)
    assert (outgoing.exchange, outgoing.routing_key, outgoing.mandatory) == ("orders", "new", True)
    assert outgoing.message.body == b'{"a":1}'
    assert (properties.content_type, properties.content_encoding) == ("application/json", "utf-8")
    assert (properties.delivery_mode, properties.headers) == (2, None)
    assert uuid.UUID(properties.message_id).version == 7


def test_a_call_may_say_everything_otherwise() -> None:
    overrides: Overrides = {
        "exchange": "other",
        "routing_key": "old",
        "converter": TextConverter("latin-1"),
        "mandatory": False,
        "persistent": False,
        "message_id": "order-1",
        "key": "account-7",
        "headers": {"a": 1},
    }
    outgoing = prepare_message("é", STANDING, overrides)
    assert (outgoing.exchange, outgoing.routing_key, outgoing.mandatory) == ("other", "old", False)
    assert outgoing.message.body == b"\xe9"
    assert properties_of(outgoing) == Properties(
        content_type="text/plain",
        content_encoding="latin-1",
        headers={"a": 1, "x-key": "account-7"},
        delivery_mode=1,
        message_id="order-1",
    )


def test_properties_of_the_caller_are_kept_and_not_changed() -> None:
    given = Properties(
        content_type="application/vnd.order+json",
        content_encoding="latin-1",
        headers={"a": 1},
        delivery_mode=1,
        correlation_id="c",
        message_id="m",
        timestamp=5,
        app_id="shop",
    )
    properties = properties_of(prepare_message([], STANDING, {"properties": given, "headers": {"b": 2}}))
    assert properties == Properties(
        content_type="application/vnd.order+json",
        content_encoding="utf-8",
        headers={"a": 1, "b": 2},
        delivery_mode=1,
        correlation_id="c",
        message_id="m",
        timestamp=5,
        app_id="shop",
    )
    assert given.headers == {"a": 1}


def test_bytes_are_encoded_as_the_caller_says() -> None:
    overrides: Overrides = {"converter": CONVERTERS["bytes"], "properties": Properties(content_encoding="gzip")}
    assert properties_of(prepare_message(b"x", STANDING, overrides)).content_encoding == "gzip"


@pytest.mark.parametrize(
    "overrides",
    [
        {"headers": {"a": {1, 2}}},
        {"headers": {"a": 2**70}},
        {"headers": {"x" * 256: 1}},
        {"message_id": "x" * 256},
        {"key": object()},
        {"properties": Properties(priority=256)},
    ],
    ids=["set", "number", "long name", "long id", "key", "priority"],
)
def test_values_that_amqp_cannot_carry_are_refused(overrides: Overrides) -> None:
    with pytest.raises(CannotConvert, match="the properties of the message cannot be written"):
        prepare_message({}, STANDING, overrides)


def test_a_name_that_is_too_long_is_a_mistake_of_the_program() -> None:
    with pytest.raises(ValueError, match="the routing key has more than 255 bytes"):
        prepare_message({}, STANDING, {"routing_key": "é" * 128})
    with pytest.raises(ValueError, match="the exchange has more than 255 bytes"):
        TemplateDefaults("x" * 256, "", CONVERTERS["json"], mandatory=True, persistent=True)


def test_an_override_that_there_is_not_is_a_mistake_of_the_program() -> None:
    overrides = {"routingkey": "a"}
    with pytest.raises(TypeError, match=r"takes converter, exchange, .* not routingkey"):
        prepare_message({}, STANDING, overrides)  # type: ignore[arg-type]


def test_ids_made_later_sort_later_and_are_never_the_same() -> None:
    ids = [new_message_id() for _ in range(10_000)]
    assert len(set(ids)) == len(ids)
    stamps = [id[:13] for id in ids]
    assert stamps == sorted(stamps)
    assert {(uuid.UUID(id).version, uuid.UUID(id).variant) for id in ids} == {(7, uuid.RFC_4122)}


def test_an_alternate_exchange_is_declared_before_the_one_it_guards() -> None:
    layout = with_alternate(ExchangeLayout("SHOP_TO_BILLING_EXCHANGE", "topic", arguments={"a": 1}))
    unrouted = "SHOP_TO_BILLING_UNROUTED_EXCHANGE"
    assert layout.exchanges == (
        ExchangeLayout(unrouted, "fanout"),
        ExchangeLayout("SHOP_TO_BILLING_EXCHANGE", "topic", arguments={"a": 1, "alternate-exchange": unrouted}),
    )
    assert layout.queues == (QueueLayout("SHOP_TO_BILLING_UNROUTED_QUEUE"),)
    assert layout.bindings == (BindingLayout(unrouted, "SHOP_TO_BILLING_UNROUTED_QUEUE"),)
    assert lint(SettingsBuilder().vhost("SHOP_VHOST").layout(layout).build()) == []


def test_an_alternate_exchange_of_any_other_name_and_life() -> None:
    layout = with_alternate(ExchangeLayout("orders", durable=False))
    assert [(each.name, each.durable) for each in layout.exchanges] == [("orders.unrouted", False), ("orders", False)]
    assert layout.queues == (QueueLayout("orders.unrouted", durable=False),)
