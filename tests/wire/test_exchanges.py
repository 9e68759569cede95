"""Routing: direct, fanout, topic, headers, alternates, bindings between exchanges, auto-delete, internal."""

from typing import Any

import pytest

from tests.support.amqp_client import Channel
from tests.support.amqp_values import Typed
from tests.wire.conftest import Unique
from tests.wire.faults import expect_fault


def own_queue(channel: Channel) -> str:
    queue: str = channel.call("queue.declare", exclusive=True).queue
    return queue


def own_exchange(channel: Channel, unique: Unique, kind: str, **fields: Any) -> str:
    exchange = unique(kind)
    channel.call("exchange.declare", exchange=exchange, type=kind, **fields)
    return exchange


def bind(channel: Channel, exchange: str, key: str = "", **arguments: Any) -> str:
    """A queue of its own behind one binding."""
    queue = own_queue(channel)
    channel.call("queue.bind", queue=queue, exchange=exchange, routing_key=key, arguments=arguments)
    return queue


def exists(channel: Channel, exchange: str) -> bool:
    """Asked on a channel of its own, since the answer no costs the channel."""
    probe = channel.connection.channel()
    probe.send("exchange.declare", exchange=exchange, passive=True)
    reply = probe.next()
    if reply.name == "channel.close":
        assert reply.reply_code == 404
        probe.send("channel.close-ok")
        return False
    probe.close()
    return True


TOPICS = (
    ("a.b.c", "a.b.c", True),
    ("a.b.c", "a.b", False),
    ("a.*.c", "a.b.c", True),
    ("a.*.c", "a..c", True),
    ("a.*.c", "a.c", False),
    ("a.*.c", "a.b.b.c", False),
    ("#", "", True),
    ("#", "a.b.c", True),
    ("*", "", False),
    ("*", "a", True),
    ("*", "a.b", False),
    ("", "", True),
    ("", "a", False),
    ("a.#", "a", True),
    ("a.#", "a.b.c", True),
    ("a.#", "b.a", False),
    ("#.c", "c", True),
    ("#.c", "a.b.c", True),
    ("#.c", "a.b.c.d", False),
    ("a.#.c", "a.c", True),
    ("a.#.c", "a.b.b.c", True),
    ("#.#", "", True),
    ("#.*", "", False),
    ("#.*", "a", True),
    ("*.#", "a.b.c", True),
    ("*.#.*", "a", False),
    ("*.#.*", "a.b", True),
    ("#.b.#", "a.b.c", True),
    ("#.b.#", "b", True),
    ("#.b.#", "a.c", False),
    ("a*", "ab", False),
    ("a#", "a.b", False),
    ("a.", "a", False),
    ("a.", "a.", True),
    (".", ".", True),
    ("*.*", ".", True),
    ("A", "a", False),
)


@pytest.mark.parametrize(("pattern", "key", "matches"), TOPICS)
def test_a_topic_pattern_matches_word_by_word(
    channel: Channel, unique: Unique, pattern: str, key: str, matches: bool
) -> None:
    exchange = own_exchange(channel, unique, "topic")
    queue = bind(channel, exchange, pattern)
    channel.publish(exchange, key)
    assert channel.purged(queue) == int(matches)


def test_many_matching_bindings_deliver_one_copy(channel: Channel, unique: Unique) -> None:
    exchange = own_exchange(channel, unique, "topic")
    queue = own_queue(channel)
    for pattern in ("#", "a.*", "*.b", "a.b", "a.#"):
        channel.call("queue.bind", queue=queue, exchange=exchange, routing_key=pattern)
    channel.publish(exchange, "a.b")
    assert channel.purged(queue) == 1
    channel.call("queue.unbind", queue=queue, exchange=exchange, routing_key="#")
    channel.publish(exchange, "c.d")
    assert channel.purged(queue) == 0


def test_a_direct_exchange_compares_whole_keys(channel: Channel, unique: Unique) -> None:
    exchange = own_exchange(channel, unique, "direct")
    exact, pattern, twin = (bind(channel, exchange, key) for key in ("a.b", "a.*", "a.b"))
    channel.publish(exchange, "a.b")
    assert [channel.purged(queue) for queue in (exact, pattern, twin)] == [1, 0, 1]


def test_a_fanout_exchange_ignores_keys(channel: Channel, unique: Unique) -> None:
    exchange = own_exchange(channel, unique, "fanout")
    queues = [bind(channel, exchange, key) for key in ("", "k")]
    channel.publish(exchange, "anything")
    assert [channel.purged(queue) for queue in queues] == [1, 1]


def test_the_same_binding_twice_is_one_and_arguments_make_another(channel: Channel, unique: Unique) -> None:
    exchange = own_exchange(channel, unique, "direct")
    queue = own_queue(channel)
    for arguments in ({}, {}, {"other": 1}):
        channel.call("queue.bind", queue=queue, exchange=exchange, routing_key="k", arguments=arguments)
    channel.call("queue.unbind", queue=queue, exchange=exchange, routing_key="k")
    channel.publish(exchange, "k")
    assert channel.purged(queue) == 1
    channel.call("queue.unbind", queue=queue, exchange=exchange, routing_key="k", arguments={"other": 1})
    channel.publish(exchange, "k")
    assert channel.purged(queue) == 0


HEADERS: tuple[tuple[dict[str, Any], dict[str, Any], bool], ...] = (
    ({"a": 1, "b": "x"}, {"a": 1, "b": "x", "c": 3}, True),
    ({"a": 1, "b": "x"}, {"a": 1}, False),
    ({"a": 1, "b": "x"}, {"a": 1, "b": "y"}, False),
    ({"x-match": "all", "a": 1, "b": 2}, {"a": 1, "b": 2}, True),
    ({"x-match": "any", "a": 1, "b": 2}, {"b": 2}, True),
    ({"x-match": "any", "a": 1, "b": 2}, {"a": 2, "b": 1}, False),
    ({"x-match": "any", "a": 1, "b": 2}, {}, False),
    ({"x-match": "all"}, {"a": 1}, True),
    ({"x-match": "all"}, {}, True),
    ({"x-match": "any"}, {"a": 1}, False),
    ({}, {}, True),
    ({"a": None}, {"a": "whatever"}, True),
    ({"a": None}, {"b": 1}, False),
    ({"a": 1}, {"a": "1"}, False),
    ({"a": 1}, {"a": True}, False),
    ({"a": 1}, {"a": Typed("l", 1)}, True),
    ({"a": 1}, {"a": 1.0}, True),
    ({"a": [1, 2]}, {"a": [1, 2]}, True),
    ({"x-match": "all", "x-own": 1}, {}, True),
    ({"x-match": "any", "x-own": 1}, {"x-own": 1}, False),
    ({"x-match": "all-with-x", "x-own": 1}, {}, False),
    ({"x-match": "all-with-x", "x-own": 1}, {"x-own": 1}, True),
    ({"x-match": "any-with-x", "x-own": 1, "a": 1}, {"x-own": 1}, True),
    ({"x-match": "any-with-x", "x-own": 1, "a": 1}, {"x-own": 2}, False),
)


@pytest.mark.parametrize(("arguments", "headers", "matches"), HEADERS, ids=str)
def test_a_headers_binding_matches_by_value(
    channel: Channel, unique: Unique, arguments: dict[str, Any], headers: dict[str, Any], matches: bool
) -> None:
    exchange = own_exchange(channel, unique, "headers")
    queue = bind(channel, exchange, **arguments)
    channel.publish(exchange, "ignored", b"", {"headers": headers})
    assert channel.purged(queue) == int(matches)


def test_a_message_without_headers_matches_a_binding_that_asks_for_none(channel: Channel, unique: Unique) -> None:
    exchange = own_exchange(channel, unique, "headers")
    empty, asking = bind(channel, exchange), bind(channel, exchange, a=1)
    channel.publish(exchange, "")
    assert [channel.purged(queue) for queue in (empty, asking)] == [1, 0]


def test_an_unroutable_message_goes_to_the_alternate_exchange(channel: Channel, unique: Unique) -> None:
    spare = own_exchange(channel, unique, "fanout")
    main = own_exchange(channel, unique, "direct", arguments={"alternate-exchange": spare})
    known, rest = bind(channel, main, "known"), bind(channel, spare)
    channel.confirm()
    channel.publish(main, "known", mandatory=True)
    channel.publish(main, "unknown", mandatory=True)
    channel.confirms([1, 2])
    received = channel.get(rest)
    assert received is not None
    assert (received.exchange, received.routing_key, received.message_count) == (main, "unknown", 0)
    assert channel.purged(known) == 1


def test_alternates_chain_and_a_circle_of_them_ends(channel: Channel, unique: Unique) -> None:
    first, second = unique("first"), unique("second")
    channel.call("exchange.declare", exchange=first, type="direct", arguments={"alternate-exchange": second})
    channel.call("exchange.declare", exchange=second, type="direct", arguments={"alternate-exchange": first})
    queue = bind(channel, second, "k")
    channel.confirm()
    channel.publish(first, "k", mandatory=True)
    channel.confirms([1])
    channel.publish(first, "nobody", mandatory=True)
    channel.expect("basic.return", reply_text="NO_ROUTE")
    channel.expect("basic.ack", delivery_tag=2)
    assert channel.purged(queue) == 1


def test_a_missing_alternate_is_no_alternate(channel: Channel, unique: Unique) -> None:
    main = own_exchange(channel, unique, "direct", arguments={"alternate-exchange": "nothing"})
    channel.publish(main, "k", mandatory=True)
    channel.expect("basic.return", reply_text="NO_ROUTE", exchange=main)


def test_exchanges_route_through_one_another_with_one_copy_per_queue(channel: Channel, unique: Unique) -> None:
    source, left, right = (own_exchange(channel, unique, kind) for kind in ("topic", "fanout", "direct"))
    channel.call("exchange.bind", source=source, destination=left, routing_key="a.#")
    channel.call("exchange.bind", source=source, destination=right, routing_key="a.*")
    channel.call("exchange.bind", source=left, destination=source, routing_key="")
    queue = bind(channel, left)
    channel.call("queue.bind", queue=queue, exchange=right, routing_key="a.b")
    channel.publish(source, "a.b", b"once")
    received = channel.get(queue)
    assert received is not None
    assert (received.exchange, received.routing_key, received.message_count) == (source, "a.b", 0)
    channel.call("exchange.unbind", source=source, destination=left, routing_key="a.#")
    channel.publish(source, "a.c")
    assert channel.purged(queue) == 0


def test_an_internal_exchange_is_reached_only_through_another(channel: Channel, unique: Unique) -> None:
    inner = own_exchange(channel, unique, "fanout", internal=True)
    outer = own_exchange(channel, unique, "fanout")
    channel.call("exchange.bind", source=outer, destination=inner)
    queue = bind(channel, inner)
    channel.publish(outer, "", b"through")
    assert channel.purged(queue) == 1
    channel.publish(inner, "")
    text = f"ACCESS_REFUSED - cannot publish to internal exchange '{inner}' in vhost '/'"
    expect_fault(channel, 403, text, "basic.publish")


def test_an_auto_delete_exchange_goes_with_its_last_binding(channel: Channel, unique: Unique) -> None:
    exchange = own_exchange(channel, unique, "direct", auto_delete=True)
    first, second = bind(channel, exchange, "a"), bind(channel, exchange, "b")
    channel.call("queue.unbind", queue=first, exchange=exchange, routing_key="a")
    assert exists(channel, exchange)
    channel.call("queue.delete", queue=second)
    assert not exists(channel, exchange)


def test_an_auto_delete_exchange_counts_only_bindings_from_it(channel: Channel, unique: Unique) -> None:
    source = own_exchange(channel, unique, "fanout", auto_delete=True)
    target = own_exchange(channel, unique, "fanout", auto_delete=True)
    channel.call("exchange.bind", source=source, destination=target)
    channel.call("exchange.unbind", source=source, destination=target)
    assert not exists(channel, source)
    assert exists(channel, target)


def test_deleting_a_destination_takes_an_auto_delete_source_along(channel: Channel, unique: Unique) -> None:
    source = own_exchange(channel, unique, "fanout", auto_delete=True)
    target = own_exchange(channel, unique, "fanout")
    channel.call("exchange.bind", source=source, destination=target)
    channel.call("exchange.delete", exchange=target)
    assert not exists(channel, source)


def test_a_deleted_exchange_forgets_its_bindings(channel: Channel, unique: Unique) -> None:
    exchange = own_exchange(channel, unique, "fanout")
    queue = bind(channel, exchange)
    channel.call("exchange.delete", exchange=exchange)
    channel.call("exchange.declare", exchange=exchange, type="fanout")
    channel.publish(exchange, "")
    assert channel.purged(queue) == 0


def test_copies_in_cc_route_through_any_exchange(channel: Channel, unique: Unique) -> None:
    exchange = own_exchange(channel, unique, "topic")
    queues = [bind(channel, exchange, pattern) for pattern in ("a.*", "b.*", "c.*")]
    channel.publish(exchange, "a.1", b"", {"headers": {"CC": ["b.1"], "BCC": ["c.1"]}})
    assert [channel.purged(queue) for queue in queues] == [1, 1, 1]
