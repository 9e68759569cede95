"""How a link rewrites a message."""

from warren.bridges.federation.headers import rewrite_for_exchange, rewrite_for_queue
from warren.bridges.transfer_options import RewrittenMessage
from warren.client import Delivery, Properties
from warren.wire.properties import decode_properties, encode_header_payload

HOP: dict[str, object] = {"uri": "amqp://far", "exchange": "fx", "cluster-name": "far", "vhost": "/"}
QUEUE_HOP: dict[str, object] = {"uri": "amqp://far", "queue": "fq"}


def delivery(properties: Properties, body: bytes = b"body", redelivered: bool = False) -> Delivery:
    route = b"\x02ex" + b"\x03key"
    return Delivery(1, "tag", 7, redelivered, route, encode_header_payload(properties, len(body)), body)


def read(outgoing: RewrittenMessage) -> Properties:
    payload = bytes(12) + outgoing.properties
    return decode_properties(b"\x00\x3c" + payload[2:], 0, len(payload))


def for_exchange(came: Delivery, max_hops: int = 2, trust: bool = False) -> RewrittenMessage | None:
    return rewrite_for_exchange("fx", "here", "/", HOP, max_hops, trust)(came)


def test_a_message_for_an_exchange_keeps_its_key_and_says_where_it_came_from() -> None:
    out = for_exchange(delivery(Properties(message_id="m1", headers={"colour": "red"}), redelivered=True))
    assert out is not None
    assert (out.exchange, out.routing_key, out.body) == ("fx", "key", b"body")
    found = read(out)
    assert found.message_id == "m1"
    assert found.headers == {"colour": "red", "x-received-from": [{**HOP, "redelivered": True}]}


def test_the_last_broker_comes_first() -> None:
    before = {"cluster-name": "origin", "vhost": "/"}
    out = for_exchange(delivery(Properties(headers={"x-received-from": [before]})))
    assert out is not None
    assert read(out).headers == {"x-received-from": [{**HOP, "redelivered": False}, before]}


def test_a_message_that_has_come_far_enough_is_dropped() -> None:
    before = [{"cluster-name": "a", "vhost": "/"}, {"cluster-name": "b", "vhost": "/"}]
    assert for_exchange(delivery(Properties(headers={"x-received-from": before}))) is None


def test_a_message_that_was_here_is_dropped() -> None:
    before = [{"cluster-name": "here", "vhost": "/"}]
    assert for_exchange(delivery(Properties(headers={"x-received-from": before})), max_hops=9) is None


def test_an_invalid_list_of_hops_from_a_client_is_replaced() -> None:
    out = for_exchange(delivery(Properties(headers={"x-received-from": "me"})))
    assert out is not None
    assert read(out).headers == {"x-received-from": [{**HOP, "redelivered": False}]}


def test_a_user_id_stays_only_if_the_upstream_is_trusted() -> None:
    came = delivery(Properties(user_id="mallory", app_id="shop", headers={"a": 1}))
    out = for_exchange(came)
    assert out is not None
    found = read(out)
    assert (found.user_id, found.app_id) == (None, "shop")
    assert found.headers == {"a": 1, "x-received-from": [{**HOP, "redelivered": False}]}
    trusted = for_exchange(came, trust=True)
    assert trusted is not None
    assert read(trusted).user_id == "mallory"


def test_a_message_for_a_queue_has_its_original_exchange_and_key_once() -> None:
    out = rewrite_for_queue("fq", QUEUE_HOP, False)(delivery(Properties(headers={"CC": ["other"]})))
    assert out is not None
    assert (out.exchange, out.routing_key) == ("", "fq")
    assert read(out).headers == {
        "x-received-from": [{**QUEUE_HOP, "redelivered": False, "visit-count": 1}],
        "x-original-exchange": "ex",
        "x-original-routing-key": "key",
        "x-original-cc": ["other"],
    }


def test_a_message_that_comes_from_a_queue_again_counts_its_visits() -> None:
    first = {**QUEUE_HOP, "redelivered": False, "visit-count": 3}
    other = {"uri": "amqp://third", "queue": "fq", "visit-count": 9}
    headers: dict[str, object] = {"x-received-from": [other, first], "x-original-exchange": "first"}
    out = rewrite_for_queue("fq", QUEUE_HOP, False)(delivery(Properties(headers=headers)))
    assert out is not None
    assert read(out).headers == {
        "x-original-exchange": "first",
        "x-received-from": [{**QUEUE_HOP, "redelivered": False, "visit-count": 4}, other],
    }
