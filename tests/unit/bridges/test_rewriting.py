"""The destination and the properties of a shovel's publishes."""

from typing import Any

from warren.bridges.shovel_definition import parse_shovel
from warren.bridges.shovels import shovel_rewrite
from warren.bridges.transfer_options import RewrittenMessage
from warren.broker.policies.parameters import Parameter
from warren.client.machine.deliveries import Delivery
from warren.wire.properties import Properties, decode_properties, edit_headers, encode_header_payload

ENDS = {"src-uri": "amqp://a", "src-queue": "from", "dest-uri": "amqp://b"}
ROUTE = b"\x03amq\x03key"


def published(definition: dict[str, object], properties: Properties) -> RewrittenMessage:
    shovel = parse_shovel(Parameter("/", "shovel", "moving", {**ENDS, **definition}))
    rewrite = shovel_rewrite(shovel, "burrow", "amqp://a", "amqp://b")
    delivery = Delivery(1, "t", 1, False, ROUTE, encode_header_payload(properties, 4), b"body")
    outgoing = rewrite(delivery)
    assert outgoing is not None
    return outgoing


def properties_of(outgoing: RewrittenMessage) -> Properties:
    payload = encode_header_payload(Properties(), 4)[:12] + outgoing.properties
    return decode_properties(payload, 0, len(payload))


def headers_of(outgoing: RewrittenMessage) -> dict[str, Any]:
    return dict(properties_of(outgoing).headers or {})


def test_a_queue_is_published_to_by_its_name_and_an_exchange_with_the_key_that_is_given() -> None:
    roads = [
        ({"dest-queue": "to"}, ("", "to")),
        ({"dest-exchange": "x"}, ("x", "key")),
        ({"dest-exchange": "x", "dest-exchange-key": ""}, ("x", "")),
        ({"dest-exchange-key": "other"}, ("amq", "other")),
        ({}, ("amq", "key")),
    ]
    for definition, road in roads:
        assert published(dict(definition), Properties())[:2] == road


def test_properties_go_on_byte_for_byte() -> None:
    given = Properties(content_type="t", headers={"n": 5, "x-shovelled": "mine"}, message_id="m", timestamp=2**63)
    outgoing = published({"dest-queue": "to"}, given)
    assert outgoing.properties == encode_header_payload(given, 4)[12:]
    assert outgoing.body == b"body"


def test_properties_that_are_given_replace_those_that_came() -> None:
    given = Properties(content_type="t", content_encoding="e", priority=1, headers={"n": 5}, message_id="m")
    wanted = {"delivery_mode": 2, "priority": 9, "content_type": "text/longer", "timestamp": 7.0, "app_id": "shovel"}
    outgoing = published({"dest-queue": "to", "dest-publish-properties": wanted}, given)
    assert properties_of(outgoing) == Properties(
        content_type="text/longer",
        content_encoding="e",
        headers={"n": 5},
        delivery_mode=2,
        priority=9,
        message_id="m",
        timestamp=7,
        app_id="shovel",
    )


def test_widths_of_numbers_in_headers_stay_when_something_is_added() -> None:
    # one octet wide, as no encoder of ours writes it
    narrow = edit_headers(encode_header_payload(Properties(headers={"k": "v"}), 4), [], {})
    narrow = narrow.replace(b"\x01kS\x00\x00\x00\x01v", b"\x01kb\x05").replace(b"\x00\x00\x00\x08", b"\x00\x00\x00\x04")
    definition = {"dest-queue": "to", "dest-add-timestamp-header": True, "dest-publish-properties": {"priority": 1}}
    shovel = parse_shovel(Parameter("/", "shovel", "moving", {**ENDS, **definition}))
    outgoing = shovel_rewrite(shovel, "burrow", "a", "b")(Delivery(1, "t", 1, False, ROUTE, narrow, b"body"))
    assert outgoing is not None
    assert b"\x01kb\x05" in outgoing.properties
    assert headers_of(outgoing)["k"] == 5
    assert properties_of(outgoing).priority == 1


def test_the_shovelled_header_has_the_last_shovel_first() -> None:
    outgoing = published(
        {"dest-exchange": "x", "dest-exchange-key": "k", "dest-add-forward-headers": True},
        Properties(headers={"x-shovelled": [{"shovel-name": "first"}], "mine": 1}),
    )
    headers = headers_of(outgoing)
    assert headers["mine"] == 1
    assert headers["x-shovelled"] == [
        {
            "shovelled-by": "burrow",
            "shovel-type": "dynamic",
            "shovel-name": "moving",
            "shovel-vhost": "/",
            "src-uri": "amqp://a",
            "dest-uri": "amqp://b",
            "src-queue": "from",
            "dest-exchange": "x",
            "dest-exchange-key": "k",
        },
        {"shovel-name": "first"},
    ]


def test_an_invalid_shovelled_header_is_kept_among_the_invalid_headers() -> None:
    headers = headers_of(published({"add-forward-headers": True}, Properties(headers={"x-shovelled": "not a list"})))
    assert headers["x-invalid-headers"] == {"x-shovelled": ["not a list"]}
    assert [each["shovel-name"] for each in headers["x-shovelled"]] == ["moving"]


def test_old_names_are_aliases_of_the_new_ones_which_take_precedence() -> None:
    value = {**ENDS, "prefetch-count": 7, "delete-after": 3, "src-delete-after": "never", "reconnect-delay": 2}
    shovel = parse_shovel(Parameter("v", "shovel", "s", value))
    assert (shovel.source.prefetch, shovel.source.delete_after, shovel.reconnect_delay_s) == (7, "never", 2.0)
